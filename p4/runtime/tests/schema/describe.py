"""Prints one line for every fact of the official P4Runtime descriptors.

The lines have the form that tests/schema.rs makes of this crate's own schema.
"""

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from p4.config.v1 import p4info_pb2, p4types_pb2
from p4.v1 import p4data_pb2, p4runtime_pb2


def describe(message, scope):
    name = f"{scope}.{message.name}"
    print("message", name)
    for field in message.field:
        oneof = "-"
        if field.HasField("oneof_index"):
            oneof = message.oneof_decl[field.oneof_index].name
        print("field", f"{name}.{field.name}", field.number, field.type, field.label,
              field.type_name or "-", oneof)
    for nested in message.nested_type:
        describe(nested, name)
    for item in message.enum_type:
        describe_enum(item, name)


def describe_enum(item, scope):
    for value in item.value:
        print("value", f"{scope}.{item.name}.{value.name}", value.number)


for module in (p4runtime_pb2, p4data_pb2, p4info_pb2, p4types_pb2):
    file = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    for message in file.message_type:
        describe(message, file.package)
    for item in file.enum_type:
        describe_enum(item, file.package)
    for service in file.service:
        for method in service.method:
            print("rpc", f"{file.package}.{service.name}.{method.name}", method.input_type,
                  method.output_type, int(method.client_streaming), int(method.server_streaming))
