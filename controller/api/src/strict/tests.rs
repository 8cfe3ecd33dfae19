use std::collections::BTreeMap;

use prost_types::FileDescriptorSet;
use tonic::Code;
use tonic_types::StatusExt as _;

use super::*;
use crate::v1;
use v1::resource::Spec;

fn schema() -> &'static Schema {
    SCHEMA.as_ref().expect("our own")
}

fn check<M: Message + Name>(bytes: &[u8]) -> Result<(), Status> {
    let name = format!(".{}", M::full_name());
    assert!(schema().is_input(&name), "{name}");
    schema().check(&name, bytes).map_err(Wrong::status)
}

/// A field of bytes, as the wire has it.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut all = vec![number << 3 | 2];
    prost::encode_length_delimiter(bytes.len(), &mut all).expect("there is room");
    all.extend(bytes);
    all
}

/// A request with something in every kind of field.
fn request() -> v1::ApplyRequest {
    let port = v1::Port {
        labels: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
        ips: vec!["10.0.0.1".to_owned()],
        nic: 300,
        ..Default::default()
    };
    let group = v1::SecurityGroup {
        rules: vec![v1::Rule {
            icmp_type: Some(0),
            ports: vec![v1::PortRange {
                first: 1,
                last: 65_535,
            }],
            stateful: Some(false),
            peers: vec![v1::Peer {
                peer: Some(v1::peer::Peer::Selector(v1::Selector {
                    match_labels: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
                    match_expressions: vec![v1::Expression::default()],
                    vpc: "v".to_owned(),
                })),
            }],
            ..Default::default()
        }],
        directions: vec![1, 2],
        ..Default::default()
    };
    let resource = |spec| v1::Resource {
        name: "tenants/blue".to_owned(),
        spec: Some(spec),
        ..Default::default()
    };
    v1::ApplyRequest {
        resources: vec![
            resource(Spec::Port(port)),
            resource(Spec::SecurityGroup(group)),
        ],
        validate_only: true,
        request_id: "id".to_owned(),
    }
}

#[test]
fn what_the_schema_has_passes() {
    check::<v1::ApplyRequest>(&request().encode_to_vec()).expect("all is known");
    check::<v1::ApplyRequest>(&[]).expect("nothing is known");
    // Other encoders write defaults, twice, in any order, and numbers longer than they are.
    let odd = [
        &[0x10, 0x80, 0x00][..],
        &field(3, b"x"),
        &[0x10, 0x00],
        &field(3, b""),
    ]
    .concat();
    v1::ApplyRequest::decode(&*odd).expect("a message");
    check::<v1::ApplyRequest>(&odd).expect("all is known");
}

#[test]
fn what_it_does_not_have_is_named() {
    let resource = v1::Resource::default().encode_to_vec();
    let subnet = |inside: &[u8]| {
        // By its number in the schema.
        let spec = Spec::Subnet(v1::Subnet::default());
        let known = v1::Resource {
            spec: Some(spec),
            ..Default::default()
        }
        .encode_to_vec();
        // Its key, and a length of zero.
        let mut bytes = known[..known.len() - 1].to_vec();
        prost::encode_length_delimiter(inside.len(), &mut bytes).expect("there is room");
        bytes.extend(inside);
        bytes
    };
    let good = field(1, &resource);
    let unknown = [0xf8, 0x01, 0x07];
    let cases = [
        (
            unknown.to_vec(),
            "penstock.v1.ApplyRequest has no field 31 here",
        ),
        (
            [&request().encode_to_vec()[..], &unknown].concat(),
            "penstock.v1.ApplyRequest has no field 31",
        ),
        (
            [&good[..], &field(1, &field(9, b"?"))].concat(),
            "resources[1]: penstock.v1.Resource has no field 9",
        ),
        (
            [&good[..], &good, &field(1, &subnet(&unknown)), &good].concat(),
            "resources[2].subnet: penstock.v1.Subnet has no field 31",
        ),
    ];
    for (bytes, expected) in cases {
        v1::ApplyRequest::decode(&*bytes).expect("prost skips it");
        let status = check::<v1::ApplyRequest>(&bytes).expect_err(expected);
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().starts_with(expected), "{status}");
        let details = status.get_error_details();
        let violations = &details
            .bad_request()
            .expect("a BadRequest")
            .field_violations;
        let path = expected.split_once(": ").map_or("", |(path, _)| path);
        assert_eq!(violations[0].field, path);
    }
}

#[test]
fn any_bytes_have_an_answer() {
    let good = request().encode_to_vec();
    for len in 0..good.len() {
        let _ = check::<v1::ApplyRequest>(&good[..len]);
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[len] ^= 1 << bit;
            let _ = check::<v1::ApplyRequest>(&bad);
        }
    }
}

#[test]
fn answers_are_not_looked_at() {
    let set = FileDescriptorSet::decode(crate::DESCRIPTORS).expect("our own");
    let services = set.file.iter().flat_map(|file| &file.service);
    let methods: Vec<_> = services.flat_map(|service| &service.method).collect();
    assert!(methods.len() > 5);
    for method in methods {
        assert!(schema().is_input(method.input_type()));
        assert!(!schema().is_input(method.output_type()), "{method:?}");
    }
}
