//! P4Runtime, as a standard client meets it.

use p4runtime::batch::Outcome;
use p4runtime::pipeline::{Entry, Table, acl, entity, flow, nexthop, vport};
use p4runtime::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime::v1::write_request::Atomicity::{self, ContinueOnError, RollbackOnError};
use p4runtime::{Bits, Priority, Range, Ternary, role, update, v1};
use penstock_worker::agent::p4rt::files::DeviceFile;
use penstock_worker::agent::p4rt::pipeline::Loaded;
use penstock_worker::snapshot::Store;
use tonic::Code;

use crate::controller::{Controller, port_entries};
use crate::fixture::{IP, MAC, bits};
use crate::memory::Bed;

fn entries() -> Vec<Entry> {
    port_entries(17, 1, 7, MAC[0], bits(IP[0]))
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort();
    entries
}

/// What became of each update; all fine is `Code::Ok` throughout.
async fn codes(
    controller: &mut Controller,
    updates: Vec<v1::Update>,
    atomicity: Atomicity,
) -> Vec<Code> {
    let count = updates.len();
    match controller.write(1, 1, updates, atomicity).await {
        Ok(()) => vec![Code::Ok; count],
        Err(Outcome::Each(each)) => each
            .into_iter()
            .map(|one| one.map_or_else(|refusal| refusal.code, |()| Code::Ok))
            .collect(),
        Err(Outcome::Whole(status)) => panic!("{status}"),
    }
}

#[tokio::test]
async fn what_is_written_reads_back_and_survives_a_restart() {
    let bed = Bed::start().await;
    let mut controller = bed.controller().await;
    let primary = controller.take(1, 1).await;
    let mut wanted = entries();
    wanted.push(
        acl::Entry {
            key: acl::Key {
                priority: Priority::new(9).expect("one"),
                direction: Ternary::any(),
                vpc: Ternary::exact(Bits::from(7_u8)),
                port_id: Ternary::any(),
                src: Ternary::any(),
                dst: Ternary::any(),
                proto: Ternary::exact(17),
                sport: Range::any(),
                dport: Range::new(1000, 2000).expect("a range"),
            },
            action: acl::Action::AclDrop,
        }
        .into(),
    );
    // The uplink's own entry says what the soft NIC knows: taken, and kept.
    wanted.push(
        vport::Entry {
            key: vport::Key {
                device_port: 1,
                vlan: Bits::from(0_u8),
            },
            action: vport::Action::SetUplink,
            meter: None,
        }
        .into(),
    );
    controller.insert(1, 1, &wanted).await;
    let wanted = sorted(wanted);
    assert_eq!(sorted(controller.entries(1).await), wanted);
    let all = controller.read(1, entity(v1::TableEntry::default())).await;
    assert_eq!(all.len(), wanted.len(), "table_id 0 is all tables");
    for entry in &wanted {
        let one = controller.read(1, entity(entry.key().encode())).await;
        assert_eq!(one, [entry.encode()]);
    }
    assert_eq!(
        controller.entries_or(2).await,
        Err(Code::FailedPrecondition)
    );

    drop(primary);
    let bed = bed.restart().await;
    let mut controller = bed.controller().await;
    assert_eq!(sorted(controller.entries(1).await), wanted);
    let mut stream = controller.arbitrate().await;
    assert_eq!(stream.bid(1, "", 0).await.expect("listens"), Code::NotFound);
    assert_eq!(stream.bid(1, "", 1).await.expect("bids"), Code::Ok);
    let none = controller
        .set_pipeline(1, 1, Action::ReconcileAndCommit)
        .await;
    none.expect("commits");
    assert_eq!(sorted(controller.entries(1).await), wanted, "reconciled");
    let clears = controller.set_pipeline(1, 1, Action::VerifyAndCommit).await;
    clears.expect("commits");
    assert_eq!(controller.entries(1).await, []);
    // In the engine too: the keys are new again.
    controller.insert(1, 1, &wanted).await;
}

#[tokio::test]
async fn each_update_has_its_own_outcome() {
    let bed = Bed::start().await;
    let mut controller = bed.controller().await;
    let _primary = controller.take(1, 1).await;
    controller.insert(1, 1, &entries()).await;
    let [hop, ..] = &entries()[..] else {
        panic!("entries")
    };
    let mine: Entry = flow::Entry {
        key: flow::Key {
            ingress: 1,
            vpc: Bits::from(7_u8),
            src: bits(IP[0]),
            dst: bits(IP[1]),
            proto: 6,
            sport: 1,
            dport: 2,
        },
        action: flow::Action::Deny,
        idle_timeout_ns: 0,
    }
    .into();
    let vlan = |vlan: u64, meter| -> Entry {
        vport::Entry {
            key: vport::Key {
                device_port: 18,
                vlan: Bits::truncate(vlan),
            },
            action: vport::Action::SetPort {
                port_id: 2,
                vpc: Bits::from(7_u8),
            },
            meter,
        }
        .into()
    };
    let meter = p4runtime::Meter {
        committed_rate: 1,
        committed_burst: 1,
        peak_rate: 1,
        peak_burst: 1,
    };
    let mut broken = update::insert(hop);
    if let Some(v1::entity::Entity::TableEntry(entry)) =
        broken.entity.as_mut().and_then(|e| e.entity.as_mut())
    {
        entry.r#match.clear();
    }
    let counter = v1::Update {
        r#type: v1::update::Type::Modify.into(),
        entity: Some(v1::Entity {
            entity: Some(v1::entity::Entity::CounterEntry(v1::CounterEntry::default())),
        }),
    };
    let updates = vec![
        update::insert(hop),
        update::insert(&mine),
        update::delete(&mine.key()),
        update::modify(&vlan(1, None)),
        update::insert(&vlan(1, None)),
        update::insert(&vlan(4095, None)),
        update::insert(&vlan(2, Some(meter))),
        broken,
        counter,
        v1::Update {
            r#type: 0,
            ..update::insert(hop)
        },
        update::modify(hop),
    ];
    let expected = [
        Code::AlreadyExists,
        Code::PermissionDenied,
        Code::PermissionDenied,
        Code::NotFound,
        Code::Ok,
        Code::InvalidArgument,
        Code::Unimplemented,
        Code::InvalidArgument,
        Code::Unimplemented,
        Code::InvalidArgument,
        Code::Ok,
    ];
    let outcomes = codes(&mut controller, updates, ContinueOnError).await;
    assert_eq!(outcomes, expected);
    let mut left = entries();
    left.push(vlan(1, None));
    assert_eq!(sorted(controller.entries(1).await), sorted(left));
}

#[tokio::test]
async fn a_rollback_leaves_no_trace() {
    let bed = Bed::start().await;
    let mut controller = bed.controller().await;
    let _primary = controller.take(1, 1).await;
    controller.insert(1, 1, &entries()).await;
    let changed: Entry = nexthop::Entry {
        key: nexthop::Key { nexthop_id: 1 },
        action: nexthop::Action::ToPort {
            device_port: 18,
            vlan: Bits::from(5_u8),
            dst_mac: Bits::from(MAC[1]),
        },
    }
    .into();
    // The engine alone knows that there is no device port 5000.
    let beyond: Entry = nexthop::Entry {
        key: nexthop::Key { nexthop_id: 2 },
        action: nexthop::Action::ToPort {
            device_port: 5000,
            vlan: Bits::from(0_u8),
            dst_mac: Bits::from(MAC[1]),
        },
    }
    .into();
    let others = port_entries(18, 3, 7, MAC[1], bits(IP[1]));
    for last in [update::insert(&beyond), update::insert(&others[0])] {
        let mut updates: Vec<_> = others.iter().map(update::insert).collect();
        updates.push(update::modify(&changed));
        updates.extend(entries().iter().skip(1).map(|e| update::delete(&e.key())));
        updates.push(last);
        for atomicity in [RollbackOnError, Atomicity::DataplaneAtomic] {
            let outcomes = codes(&mut controller, updates.clone(), atomicity).await;
            let (refused, aborted) = outcomes.split_last().expect("outcomes");
            assert!(aborted.iter().all(|code| *code == Code::Aborted));
            assert!(matches!(
                refused,
                Code::InvalidArgument | Code::AlreadyExists
            ));
            assert_eq!(sorted(controller.entries(1).await), sorted(entries()));
        }
    }
    // The engine holds what the agent reads back: the same batch without its end.
    let mut updates: Vec<_> = others.iter().map(update::insert).collect();
    updates.push(update::modify(&changed));
    updates.extend(entries().iter().skip(1).map(|e| update::delete(&e.key())));
    let outcomes = codes(&mut controller, updates, RollbackOnError).await;
    assert!(
        outcomes.iter().all(|code| *code == Code::Ok),
        "{outcomes:?}"
    );
    let mut left = others;
    left.push(changed);
    assert_eq!(sorted(controller.entries(1).await), sorted(left));
}

#[tokio::test]
async fn only_the_primary_writes_and_an_older_one_never_again() {
    let bed = Bed::start().await;
    let mut first = bed.controller().await;
    let mut second = bed.controller().await;
    let mut old = first.take(1, 5).await;
    let mut new = second.arbitrate().await;
    assert_eq!(
        new.bid(1, "", 5).await.map_err(|s| s.code()),
        Err(Code::InvalidArgument)
    );
    let mut new = second.arbitrate().await;
    assert_eq!(new.bid(1, "", 6).await.expect("bids"), Code::Ok);
    assert_eq!(old.standing().await.expect("told"), Code::AlreadyExists);

    let denied = |result: Result<(), Outcome>| match result {
        Err(Outcome::Whole(status)) => status.code() == Code::PermissionDenied,
        _ => false,
    };
    let insert = || vec![update::insert(&entries()[0])];
    assert!(denied(first.write(1, 5, insert(), ContinueOnError).await));
    assert!(denied(first.write(1, 0, insert(), ContinueOnError).await));
    let pipeline = first.set_pipeline(1, 5, Action::VerifyAndCommit).await;
    assert_eq!(pipeline.map_err(|s| s.code()), Err(Code::PermissionDenied));
    assert!(second.write(1, 6, insert(), ContinueOnError).await.is_ok());
    assert_eq!(first.entries(1).await.len(), 1, "everyone reads");
    let other = second.arbitrate().await.bid(2, "", 1).await;
    assert_eq!(
        other.expect("bids"),
        Code::Ok,
        "another NIC, another arbitration"
    );
    let mut role = first.arbitrate().await;
    assert_eq!(
        role.bid(1, role::CONTROLLER, 1).await.expect("bids"),
        Code::Ok
    );

    // The new one goes: the old one is told, and is still not let in.
    drop((new, second));
    assert_eq!(old.standing().await.expect("told"), Code::NotFound);
    assert_eq!(old.bid(1, "", 5).await.expect("bids"), Code::NotFound);
    assert!(denied(first.write(1, 5, insert(), ContinueOnError).await));
    drop((old, role, first));
    let bed = bed.restart().await;
    let mut first = bed.controller().await;
    let mut old = first.arbitrate().await;
    assert_eq!(
        old.bid(1, "", 5).await.expect("bids"),
        Code::NotFound,
        "not after a restart"
    );
    assert_eq!(old.bid(1, "", 7).await.expect("bids"), Code::Ok);
}

#[tokio::test]
async fn streams_say_what_they_do_not_carry() {
    use v1::stream_message_request::Update;
    let bed = Bed::start().await;
    let mut controller = bed.controller().await;
    let mut stream = controller.arbitrate().await;
    for update in [
        Update::Packet(v1::PacketOut::default()),
        Update::DigestAck(v1::DigestListAck::default()),
        Update::Other(Default::default()),
    ] {
        stream.send(update).await;
        let answer = stream.standing().await.expect("an error message");
        assert_eq!(answer, Code::Unimplemented);
    }
    let unknown = stream.bid(9, "", 1).await;
    assert_eq!(unknown.map_err(|s| s.code()), Err(Code::NotFound));
    let mut stream = controller.arbitrate().await;
    let role = stream.bid(1, role::WORKER, 1).await;
    assert_eq!(role.map_err(|s| s.code()), Err(Code::InvalidArgument));
    let mut stream = controller.arbitrate().await;
    assert_eq!(stream.bid(1, "", 1).await.expect("bids"), Code::Ok);
    let moved = stream.bid(2, "", 1).await;
    assert_eq!(moved.map_err(|s| s.code()), Err(Code::FailedPrecondition));
    let version = controller
        .p4
        .capabilities(v1::CapabilitiesRequest { device_id: 1 });
    let version = version.await.expect("answers").into_inner();
    assert_eq!(version.p4runtime_api_version, "1.4.1");
}

#[tokio::test]
async fn reads_of_what_is_not_there_say_so() {
    let bed = Bed::start().await;
    let mut controller = bed.controller().await;
    let _primary = controller.take(1, 1).await;
    assert_eq!(controller.read(1, Table::Flow.read_all()).await, []);
    let unknown = entity(v1::TableEntry {
        table_id: 77,
        ..Default::default()
    });
    let by_action = entity(v1::TableEntry {
        action: Some(v1::TableAction::default()),
        ..Default::default()
    });
    let counters = v1::Entity {
        entity: Some(v1::entity::Entity::CounterEntry(v1::CounterEntry::default())),
    };
    let cases = [
        (unknown, Code::NotFound),
        (by_action, Code::Unimplemented),
        (counters, Code::Unimplemented),
        (v1::Entity::default(), Code::InvalidArgument),
    ];
    for (entity, code) in cases {
        let error = controller.try_read(1, entity).await.expect_err("refused");
        assert_eq!(error.code(), code, "{error}");
    }
    let too_many = vec![update::insert(&entries()[0]); 1001];
    match controller.write(1, 1, too_many, ContinueOnError).await {
        Err(Outcome::Whole(status)) => assert_eq!(status.code(), Code::InvalidArgument),
        other => panic!("{other:?}"),
    }
}

/// Stops a worker that holds entries, changes a file of it, and starts it again.
async fn restarted_with(edit: impl FnOnce(&std::path::Path)) -> Result<Bed, String> {
    let bed = Bed::start().await;
    let mut controller = bed.controller().await;
    let primary = controller.take(1, 1).await;
    controller.insert(1, 1, &entries()).await;
    drop((primary, controller));
    bed.restart_with(edit).await
}

#[tokio::test]
async fn damaged_tables_start_empty_and_are_kept_aside() {
    let flip = |dir: &std::path::Path| {
        let path = dir.join("device-1.snapshot");
        let mut bytes = std::fs::read(&path).expect("is kept");
        *bytes.last_mut().expect("bytes") ^= 1;
        std::fs::write(path, bytes).expect("damages");
    };
    // Entries that the engine refuses: there is no device port 5000.
    let refuse = |dir: &std::path::Path| {
        let mut all = entries();
        all.extend(port_entries(5000, 9, 7, MAC[1], bits(IP[1])));
        let file = DeviceFile {
            committed: Some(Loaded::default()),
            saved: None,
            entries: all.iter().map(Entry::encode).collect(),
        };
        let store = Store::open(dir).expect("opens");
        store.save("device-1", &file).expect("saves");
    };
    // Entries that may be of other interfaces.
    let unnumbered = |dir: &std::path::Path| {
        std::fs::write(dir.join("ports.snapshot"), b"PENSTOCK").expect("damages");
    };
    for edit in [&flip as &dyn Fn(&std::path::Path), &refuse, &unnumbered] {
        let bed = restarted_with(edit).await.expect("starts");
        assert!(bed.dir.path().join("device-1.damaged").exists());
        let mut controller = bed.controller().await;
        assert_eq!(
            controller.entries_or(1).await,
            Err(Code::FailedPrecondition)
        );
        // Empty in the engine too.
        let _primary = controller.take(1, 2).await;
        assert_eq!(controller.entries(1).await, []);
        controller.insert(1, 2, &entries()).await;
    }
}

#[tokio::test]
async fn damaged_election_ids_stop_the_start() {
    let cut = |dir: &std::path::Path| {
        std::fs::write(dir.join("election-1.snapshot"), b"PENSTOCK").expect("damages");
    };
    let error = restarted_with(cut).await.err().expect("does not start");
    assert!(error.contains("could win again"), "{error}");
}
