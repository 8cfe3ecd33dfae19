//! The worker's files, whatever is in them: it starts with all that a file says or with
//! nothing of it, and again the same; the file of connections is used once; only unreadable
//! election ids stop it.

use std::fs;
use std::sync::Arc;

use p4runtime::pipeline::{Entry, Table};
use p4runtime::v1 as p4;
use penstock_rules::Ruleset;
use penstock_slowpath_api::v1;
use penstock_worker::agent::p4rt::Device;
use penstock_worker::agent::p4rt::device::ResumeError;
use penstock_worker::agent::p4rt::files::{DeviceFile, ElectionFile, Seen};
use penstock_worker::agent::p4rt::pipeline::Loaded;
use penstock_worker::agent::p4rt::read::Query;
use penstock_worker::agent::slowpath::node::{Number, PortsFile};
use penstock_worker::flows::file::{FlowsPart, Moment};
use penstock_worker::policy::decode;
use penstock_worker::ports::memory;
use penstock_worker::snapshot::{SnapshotError, Store, encode, parts};
use prost::Message;

use crate::entries;
use crate::host::{Choices, Host, NICS};
use crate::slowpath;
use crate::updates::{self, INTERFACES};

/// The property.
pub(crate) fn snapshot(bytes: &[u8]) {
    let mut c = Choices(bytes);
    let mut host = Host::new();
    for _ in 0..1 + c.byte() % 5 {
        write(&host, &mut c);
    }
    let first = resume(&mut host);
    let mut host = host.again();
    let again = resume(&mut host);
    assert!(
        first == again,
        "another start finds {again:?}\nafter {first:?}"
    );
}

/// Puts a file in the data directory.
fn write(host: &Host, c: &mut Choices<'_>) {
    let (name, content) = match c.byte() % 8 {
        0..2 => ("policy", message(c, updates::update)),
        2 => ("policy", message(c, |_, _| updates::good(3))),
        3 => ("ports", message(c, |c, _| ports(c))),
        4 | 5 => ("device-1", message(c, |c, _| device(c))),
        6 => ("election-2", message(c, |c, _| elections(c))),
        _ => ("flows", file(c, some_parts, connections)),
    };
    let path = host.dir.path().join(format!("{name}.snapshot"));
    fs::write(path, content).expect("writes");
}

/// The message as a file.
fn message<M: Message + Default>(
    c: &mut Choices<'_>,
    make: impl Fn(&mut Choices<'_>, u64) -> M,
) -> Vec<u8> {
    let some = |bytes: &[u8]| M::decode(bytes).map_or(Vec::new(), |message| encode(&message));
    file(c, some, |c| encode(&make(c, 0)))
}

/// A file; damaged inside or outside, or other bytes, if so chosen.
fn file(
    c: &mut Choices<'_>,
    some: impl Fn(&[u8]) -> Vec<u8>,
    make: impl Fn(&mut Choices<'_>) -> Vec<u8>,
) -> Vec<u8> {
    match c.byte() % 8 {
        0 => c.some().to_vec(),
        1 => some(c.some()),
        2 => {
            let mut bytes = make(c);
            let at = (usize::from(c.byte()) | usize::from(c.byte()) << 8) % bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= c.byte();
            }
            bytes.truncate(bytes.len().saturating_sub(usize::from(c.byte() % 4)));
            bytes
        }
        _ => make(c),
    }
}

fn ports(c: &mut Choices<'_>) -> PortsFile {
    PortsFile {
        numbers: (0..c.byte() % 6)
            .map(|_| Number {
                interface: c.of(&INTERFACES).into(),
                device_port: c.of(&[17, 18, 63, 64, 1, 0, u32::MAX]),
            })
            .collect(),
    }
}

fn device(c: &mut Choices<'_>) -> DeviceFile {
    let loaded = |c: &mut Choices<'_>| Loaded {
        cookie: c.byte().into(),
        device_config: c.some().to_vec(),
    };
    DeviceFile {
        committed: (!c.rarely(4)).then(|| loaded(c)),
        saved: c.rarely(4).then(|| loaded(c)),
        entries: (0..c.byte() % 8)
            .map(|_| {
                let entry = entries::entry(c).encode();
                if c.rarely(8) { c.damage(entry) } else { entry }
            })
            .collect(),
    }
}

fn elections(c: &mut Choices<'_>) -> ElectionFile {
    ElectionFile {
        roles: (0..c.byte() % 4)
            .map(|_| Seen {
                role: c.of(&["", "penstock.controller"]).into(),
                id: (!c.rarely(4)).then(|| p4::Uint128 {
                    high: c.of(&[0, u64::MAX]),
                    low: c.byte().into(),
                }),
            })
            .collect(),
    }
}

/// Up to three parts, then what a file ends with or not.
fn connections(c: &mut Choices<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..c.byte() % 4 {
        bytes.extend(encode(&part(c)));
    }
    if !c.rarely(8) {
        bytes.extend(parts::end());
    }
    bytes
}

fn some_parts(bytes: &[u8]) -> Vec<u8> {
    FlowsPart::decode(bytes).map_or(Vec::new(), |part| {
        [&encode(&part)[..], &parts::end()].concat()
    })
}

fn part(c: &mut Choices<'_>) -> FlowsPart {
    FlowsPart {
        written: match c.byte() % 4 {
            0..2 => Moment::now().ok(),
            2 => Some(Moment {
                boot: "another".into(),
                uptime_ms: u64::MAX,
                wall_ms: c.of(&[0, 1 << 40, u64::MAX]),
            }),
            _ => None,
        },
        flows: (0..c.byte() % 8).map(|_| updates::connection(c)).collect(),
    }
}

/// What a start finds: per device its entries or why it does not start, and the policy.
type Found = (
    Vec<Result<Vec<Entry>, String>>,
    Option<penstock_rules::model::Policy>,
);

fn resume(host: &mut Host) -> Found {
    let mut devices = Vec::new();
    for id in NICS {
        let file: Option<DeviceFile> = readable(&host.store, &format!("device-{id}"));
        let resuming = Device::resume(id, id, host.lcores.clone(), Arc::clone(&host.store));
        devices.push(match host.run(resuming) {
            Ok(device) => Ok(entries_of(host, &device, file.unwrap_or_default())),
            Err(error @ ResumeError::Elections { .. }) => {
                let file = host.store.load::<ElectionFile>(&format!("election-{id}"));
                assert!(file.is_err(), "{error}");
                Err(error.to_string())
            }
            Err(error) => panic!("{error}"),
        });
    }
    let file: Option<v1::PolicyUpdate> = readable(&host.store, "policy");
    let interfaces = Arc::new(memory::Host::new(["va", "vb", "vc"]));
    let node = slowpath::resume(host, interfaces);
    for name in ["flows.snapshot", "flows.taken"] {
        assert!(!host.dir.path().join(name).exists(), "{name} is used again");
    }
    let policy = node.ruleset().map(|ruleset| Ruleset::policy(&ruleset));
    match &policy {
        // Wholly, or not at all.
        Some(policy) => {
            let file = file.expect("a policy from nowhere");
            assert_eq!(decode::snapshot(file).as_ref(), Ok(policy));
        }
        None => {
            let left: Option<v1::PolicyUpdate> = readable(&host.store, "policy");
            assert_eq!(left, None, "it cannot be used, and lies there still");
        }
    }
    (devices, policy)
}

/// The device has all entries of its file, or none and no pipeline.
fn entries_of(host: &mut Host, device: &Device, file: DeviceFile) -> Vec<Entry> {
    let queries = Table::ALL.map(|table| Query::decode(&table.read_all()).expect("a query"));
    let entities = match host.run(device.read(&queries)) {
        Ok(entities) => entities,
        Err(status) => {
            assert_eq!(status.code(), tonic::Code::FailedPrecondition, "{status}");
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for entity in entities {
        match entity.entity {
            Some(p4::entity::Entity::TableEntry(entry)) => {
                found.push(Entry::decode(&entry).expect("ours"));
            }
            other => panic!("{other:?}"),
        }
    }
    let kept = file.entries.iter().map(Entry::decode);
    let mut kept: Vec<Entry> = kept
        .collect::<Result<_, _>>()
        .expect("half a file is in use");
    kept.sort();
    kept.dedup();
    let mut sorted = found.clone();
    sorted.sort();
    assert_eq!(sorted, kept);
    found
}

fn readable<M: Message + Default>(store: &Store, name: &str) -> Option<M> {
    match store.load(name) {
        Ok(file) => file,
        Err(SnapshotError::Damaged { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}
