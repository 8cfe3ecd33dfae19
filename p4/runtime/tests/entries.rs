//! Typed entries against p4info itself: for every table, every entry that p4info
//! allows decodes, and comes back byte for byte; nothing else does.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use p4runtime::pipeline::{Entry, Key, acl, flow, mapping, vport};
use p4runtime::v1::field_match::{Exact, FieldMatchType, Lpm, Range, Ternary};
use p4runtime::v1::{self, action::Param};
use p4runtime::{Bits, DecodeError, config, pipeline};
use proptest::prelude::*;

/// What the protocol calls canonical, written down a second time.
fn canonical(value: u128) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..16).rev().map(|i| (value >> (8 * i)) as u8).collect();
    while bytes.len() > 1 && bytes[0] == 0 {
        bytes.remove(0);
    }
    bytes
}

fn ones(width: i32) -> u128 {
    u128::MAX >> (128 - width)
}

/// Values of a width, the ends of the range more often than others.
fn value(width: i32) -> impl Strategy<Value = u128> + Clone {
    prop_oneof![
        Just(0),
        Just(1),
        Just(ones(width)),
        any::<u128>().prop_map(move |value| value & ones(width)),
    ]
}

/// A field, or nothing where everything matches.
fn field(field: &config::MatchField) -> BoxedStrategy<Option<v1::FieldMatch>> {
    use config::match_field::{Match, MatchType};

    let (field_id, width) = (field.id, field.bitwidth);
    let Some(Match::MatchType(kind)) = field.r#match else {
        panic!("{}: no match type", field.name)
    };
    let kind = MatchType::try_from(kind).unwrap();
    let strategy: BoxedStrategy<Option<FieldMatchType>> = match kind {
        MatchType::Exact => value(width)
            .prop_map(|value| {
                let value = canonical(value);
                Some(FieldMatchType::Exact(Exact { value }))
            })
            .boxed(),
        MatchType::Lpm => (value(width), 0..=width)
            .prop_map(move |(value, prefix_len)| {
                let mask = ones(width) & !(ones(width).checked_shr(prefix_len as u32).unwrap_or(0));
                let value = canonical(value & mask);
                (prefix_len > 0).then_some(FieldMatchType::Lpm(Lpm { value, prefix_len }))
            })
            .boxed(),
        MatchType::Ternary => (value(width), value(width))
            .prop_map(|(value, mask)| {
                let value = canonical(value & mask);
                (mask != 0).then(|| {
                    FieldMatchType::Ternary(Ternary {
                        value,
                        mask: canonical(mask),
                    })
                })
            })
            .boxed(),
        MatchType::Range => (value(width), value(width))
            .prop_map(move |(a, b)| {
                let (low, high) = (a.min(b), a.max(b));
                (low != 0 || high != ones(width)).then(|| {
                    FieldMatchType::Range(Range {
                        low: canonical(low),
                        high: canonical(high),
                    })
                })
            })
            .boxed(),
        other => panic!("{}: {other:?}", field.name),
    };
    strategy
        .prop_map(move |kind| {
            kind.map(|kind| v1::FieldMatch {
                field_id,
                field_match_type: Some(kind),
            })
        })
        .boxed()
}

fn action(info: &config::P4Info, id: u32) -> BoxedStrategy<v1::TableAction> {
    let action = info
        .actions
        .iter()
        .find(|action| action.preamble.as_ref().unwrap().id == id)
        .unwrap();
    let params: Vec<_> = action
        .params
        .iter()
        .map(|param| {
            let param_id = param.id;
            value(param.bitwidth).prop_map(move |value| Param {
                param_id,
                value: canonical(value),
            })
        })
        .collect();
    params
        .prop_map(move |params| v1::TableAction {
            r#type: Some(v1::table_action::Type::Action(v1::Action {
                action_id: id,
                params,
            })),
        })
        .boxed()
}

/// An entry of any table, from nothing but p4info.
fn wire_entry() -> BoxedStrategy<v1::TableEntry> {
    let info = pipeline::p4info().unwrap();
    let tables: Vec<_> = info
        .tables
        .iter()
        .map(|table| {
            let table_id = table.preamble.as_ref().unwrap().id;
            let fields: Vec<_> = table.match_fields.iter().map(field).collect();
            let actions: Vec<_> = table
                .action_refs
                .iter()
                .filter(|reference| reference.scope != 2)
                .map(|reference| action(&info, reference.id))
                .collect();
            let ternary = table.match_fields.iter().any(|field| {
                let kind = field.r#match.clone().unwrap();
                kind == config::match_field::Match::MatchType(4)
                    || kind == config::match_field::Match::MatchType(5)
            });
            let priority = if ternary {
                (1..=i32::MAX).boxed()
            } else {
                Just(0).boxed()
            };
            let idle = if table.idle_timeout_behavior == 0 {
                Just(0).boxed()
            } else {
                (0..=i64::MAX).boxed()
            };
            let metered = table
                .direct_resource_ids
                .iter()
                .any(|id| id >> 24 == config::p4_ids::Prefix::DirectMeter as u32);
            let rate = 0..=i64::MAX;
            let meter = if metered {
                proptest::option::of((rate.clone(), rate.clone(), rate.clone(), rate)).boxed()
            } else {
                Just(None).boxed()
            };
            (
                fields,
                proptest::strategy::Union::new(actions),
                priority,
                idle,
                meter,
            )
                .prop_map(move |(fields, action, priority, idle_timeout_ns, meter)| {
                    v1::TableEntry {
                        table_id,
                        r#match: fields.into_iter().flatten().collect(),
                        action: Some(action),
                        priority,
                        idle_timeout_ns,
                        meter_config: meter.map(|(cir, cburst, pir, pburst)| v1::MeterConfig {
                            cir,
                            cburst,
                            pir,
                            pburst,
                            eburst: 0,
                        }),
                        ..Default::default()
                    }
                })
                .boxed()
        })
        .collect();
    proptest::strategy::Union::new(tables).boxed()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: Some(Box::new(
            proptest::test_runner::FileFailurePersistence::WithSource("regressions"),
        )),
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_entry_comes_back_byte_for_byte(wire in wire_entry()) {
        let entry = Entry::decode(&wire).unwrap();
        prop_assert_eq!(entry.encode(), wire.clone());
        prop_assert_eq!(entry.table().id(), wire.table_id);
        let key = entry.key();
        prop_assert_eq!(Key::decode(&wire), Ok(key.clone()));
        prop_assert_eq!(Key::decode(&key.encode()), Ok(key));
    }

    #[test]
    fn leading_zeros_and_order_say_nothing(wire in wire_entry(), zeros in 1_usize..20) {
        let mut padded = wire.clone();
        let pad = |bytes: &mut Vec<u8>| drop(bytes.splice(..0, vec![0; zeros]));
        for field in &mut padded.r#match {
            match field.field_match_type.as_mut().unwrap() {
                FieldMatchType::Exact(exact) => pad(&mut exact.value),
                FieldMatchType::Lpm(lpm) => pad(&mut lpm.value),
                FieldMatchType::Ternary(ternary) => {
                    pad(&mut ternary.value);
                    pad(&mut ternary.mask);
                }
                FieldMatchType::Range(range) => {
                    pad(&mut range.low);
                    pad(&mut range.high);
                }
                FieldMatchType::Optional(_) | FieldMatchType::Other(_) => unreachable!(),
            }
        }
        padded.r#match.reverse();
        prop_assert_eq!(Entry::decode(&padded), Entry::decode(&wire));
    }

    #[test]
    fn a_missing_or_foreign_part_is_refused(wire in wire_entry()) {
        let mut twice = wire.clone();
        twice.r#match.extend(wire.r#match.first().cloned());
        if !wire.r#match.is_empty() {
            let refused = matches!(
                Entry::decode(&twice),
                Err(DecodeError::DuplicateField { .. })
            );
        prop_assert!(refused);
        }

        let mut foreign = wire.clone();
        foreign.r#match.push(v1::FieldMatch {
            field_id: 99,
            field_match_type: Some(FieldMatchType::Exact(Exact { value: vec![1] })),
        });
        let refused = matches!(
            Entry::decode(&foreign),
            Err(DecodeError::UnknownField { id: 99, .. })
        );
        prop_assert!(refused);

        let mut idle = wire.clone();
        idle.action = None;
        let refused = matches!(Entry::decode(&idle), Err(DecodeError::NoAction { .. }));
        prop_assert!(refused);

        let mut other = wire.clone();
        other.priority = if wire.priority == 0 { 1 } else { 0 };
        let refused = matches!(
            Entry::decode(&other),
            Err(DecodeError::Priority { .. } | DecodeError::PriorityForbidden { .. })
        );
        prop_assert!(refused);
    }
}

fn route() -> v1::TableEntry {
    mapping::Entry {
        key: mapping::Key {
            vpc: Bits::from(7_u8),
            dst: p4runtime::address::prefix("10.0.0.0".parse().unwrap(), 8).unwrap(),
        },
        action: mapping::Action::SetNexthop { nexthop_id: 0x0102 },
    }
    .encode()
}

#[test]
fn the_wire_looks_as_expected() {
    let wire = route();
    assert_eq!(wire.table_id, 0x0200_0009);
    let field = |id: usize| wire.r#match[id].field_match_type.clone().unwrap();
    assert_eq!(field(0), FieldMatchType::Exact(Exact { value: vec![7] }));
    assert_eq!(
        field(1),
        FieldMatchType::Lpm(Lpm {
            value: vec![0xff, 0xff, 10, 0, 0, 0],
            prefix_len: 104
        })
    );
    let Some(v1::table_action::Type::Action(action)) = wire.action.unwrap().r#type else {
        panic!("no action");
    };
    assert_eq!(action.params[0].value, [1, 2]);
}

/// Errors name the table, the field and the value, and carry the protocol's code.
#[test]
fn errors_say_what_and_where() {
    let exact = |value: &[u8]| {
        FieldMatchType::Exact(Exact {
            value: value.to_vec(),
        })
    };
    let lpm = |value: &[u8], prefix_len| {
        let value = value.to_vec();
        FieldMatchType::Lpm(Lpm { value, prefix_len })
    };
    let with = |index: usize, kind: FieldMatchType| {
        let mut wire = route();
        wire.r#match[index].field_match_type = Some(kind);
        wire
    };
    let changed = |change: &dyn Fn(&mut v1::TableEntry)| {
        let mut wire = route();
        change(&mut wire);
        wire
    };
    let cases = [
        (
            with(0, exact(&[1, 0, 0, 0])),
            "mapping: vpc: 0x01000000 does not fit into 24 bits",
        ),
        (
            with(0, exact(&[])),
            "mapping: vpc: the byte string is empty",
        ),
        (
            with(0, lpm(&[1], 24)),
            "mapping: vpc: a lpm match is given where exact is needed",
        ),
        (
            with(1, lpm(&[1], 127)),
            "mapping: dst: the value has bits outside",
        ),
        (
            with(1, lpm(&[0], 129)),
            "mapping: dst: prefix length 129: must be 0 to 128",
        ),
        (with(1, lpm(&[0], -1)), "mapping: dst: prefix length -1"),
        (with(1, lpm(&[0], 0)), "mapping: dst: matches everything"),
        (
            changed(&|wire| drop(wire.r#match.remove(0))),
            "mapping: vpc (id 1) is missing",
        ),
        (
            changed(&|wire| wire.r#match[0].field_match_type = None),
            "mapping: field 1: no match given",
        ),
        (
            changed(&|wire| wire.table_id = 5),
            "table_id 0x00000005: this pipeline has no such table",
        ),
        (
            changed(&|wire| wire.priority = 9),
            "mapping: priority 9: only tables with",
        ),
        (
            changed(&|wire| wire.is_default_action = true),
            "mapping: the default action is fixed",
        ),
        (
            changed(&|wire| wire.is_const = true),
            "mapping: the program has no constant entries",
        ),
        (
            changed(&|wire| wire.idle_timeout_ns = 1),
            "mapping: idle_timeout_ns",
        ),
        (
            changed(&|wire| wire.meter_config = Some(v1::MeterConfig::default())),
            "mapping: meter_config",
        ),
        (
            changed(&|wire| wire.action = Some(acl_ask())),
            "mapping: action 0x0100000c: not one of this table's",
        ),
        (
            changed(&|wire| params(wire).clear()),
            "mapping.set_nexthop: nexthop_id (id 1) is missing",
        ),
        (
            changed(&|wire| params(wire)[0].value = vec![1, 0, 0, 0, 0]),
            "mapping.set_nexthop: nexthop_id: 0x0100000000 does not fit into 32 bits",
        ),
        (
            changed(&|wire| params(wire)[0].param_id = 2),
            "mapping.set_nexthop: nexthop_id (id 1) is missing",
        ),
    ];
    for (wire, expected) in cases {
        let error = Entry::decode(&wire).unwrap_err();
        assert!(
            error.to_string().starts_with(expected),
            "{error} instead of {expected}"
        );
        let code = match error {
            DecodeError::TooWide { .. } => tonic::Code::OutOfRange,
            DecodeError::UnknownTable { .. } => tonic::Code::NotFound,
            DecodeError::Const { .. } | DecodeError::DefaultAction { .. } => {
                tonic::Code::PermissionDenied
            }
            _ => tonic::Code::InvalidArgument,
        };
        assert_eq!(error.code(), code);
    }
}

fn acl_ask() -> v1::TableAction {
    v1::TableAction {
        r#type: Some(v1::table_action::Type::Action(v1::Action {
            action_id: 0x0100_000c,
            params: Vec::new(),
        })),
    }
}

fn params(wire: &mut v1::TableEntry) -> &mut Vec<Param> {
    match wire.action.as_mut().unwrap().r#type.as_mut().unwrap() {
        v1::table_action::Type::Action(action) => &mut action.params,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_rule_with_everything_open_has_an_empty_match() {
    use p4runtime::{Priority, Range, Ternary};

    let key = acl::Key {
        priority: Priority::from_rank(0).unwrap(),
        direction: Ternary::any(),
        vpc: Ternary::any(),
        port_id: Ternary::any(),
        src: Ternary::any(),
        dst: Ternary::any(),
        proto: Ternary::any(),
        sport: Range::any(),
        dport: Range::any(),
    };
    assert_eq!(key.encode().r#match, []);
}

/// What a switch adds on reads is not part of the entry.
#[test]
fn observations_do_not_change_an_entry() {
    let entry = flow::Entry {
        key: flow::Key {
            ingress: 1,
            vpc: Bits::from(7_u8),
            src: 1,
            dst: 2,
            proto: 6,
            sport: 3,
            dport: 4,
        },
        action: flow::Action::Deny,
        idle_timeout_ns: 30_000_000_000,
    };
    let mut wire = entry.encode();
    wire.counter_data = Some(v1::CounterData {
        byte_count: 1,
        packet_count: 1,
    });
    wire.time_since_last_hit = Some(v1::table_entry::IdleTimeout { elapsed_ns: 5 });
    wire.metadata = vec![1, 2, 3];
    assert_eq!(flow::Entry::decode(&wire), Ok(entry));
    assert!(matches!(
        vport::Entry::decode(&wire),
        Err(DecodeError::OtherTable { .. })
    ));
}
