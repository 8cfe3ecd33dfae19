// Policy: static rules, for what needs no connection. The controller's table.
//
// One look-up a packet. A packet from a port is matched with direction 0 and
// the port's id; one from the wire with direction 1 and port id 0, so a
// receiving port is named by its address in `dst`. An `acl_allow` with direction
// 0 therefore also speaks for the receiving port where that one is local.
//
// RoCE appears as what it is on the wire, UDP to 4791. An entry meant for UDP
// alone has to leave that destination port out.

control Policy(inout headers_t hdr, inout metadata_t meta) {
    @id(0x13000008) @name(".acl_counter")
    direct_counter(CounterType.packets_and_bytes) acl_counter;

    // Stateless: on to `mapping`.
    @id(0x0100000a) @name(".acl_allow")
    action acl_allow() {}

    @id(0x0100000b) @name(".acl_drop")
    action acl_drop() {
        meta.drop = DROP_ACL;
    }

    @id(0x0100000c) @name(".acl_ask")
    action acl_ask() {
        meta.ask = ASK_ACL;
    }

    @id(0x02000008) @name(".acl")
    table acl {
        key = {
            meta.direction : ternary @id(1) @name("direction");
            meta.vpc : ternary @id(2) @name("vpc");
            meta.ingress : ternary @id(3) @name("port_id");
            meta.src : ternary @id(4) @name("src");
            meta.dst : ternary @id(5) @name("dst");
            meta.proto : ternary @id(6) @name("proto");
            meta.sport : range @id(7) @name("sport");
            meta.dport : range @id(8) @name("dport");
        }
        actions = {
            acl_allow;
            acl_drop;
            acl_ask;
            @defaultonly NoAction;
        }
        const default_action = NoAction;
        counters = acl_counter;
        size = 2048;
    }

    apply {
        meta.direction = 0;
        if (meta.origin == FROM_WIRE) {
            meta.direction = 1;
        }
        if (!acl.apply().hit) {
            meta.ask = ASK_NO_ACL;
        }
    }
}
