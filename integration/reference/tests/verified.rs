//! The checker of NIC programs: it judges as the reference does, and proves what the
//! compiler makes of models by chance.

use penstock_policies::Ids;
use penstock_reference::random::{self, Random};
use penstock_reference::{Verdict, judge};
use penstock_verify::{Limits, Row, offline, reach};

fn seeds() -> u64 {
    if std::env::var_os("PENSTOCK_LONG").is_some() {
        2_000
    } else {
        60
    }
}

#[test]
fn the_checker_judges_as_the_reference_does() {
    let mut refused = 0;
    for seed in 0..seeds() {
        let mut random = Random::new(seed);
        let model = random::model(&mut random);
        let mut ids = Ids::default();
        ids.assign(&model).expect("ids");
        for packet in random::packets(&mut random, &model, 300) {
            let wanted = judge(&model, &packet).expect("a port");
            let service = (packet.protocol, packet.source_port, packet.destination_port);
            let (port, way) = (&packet.port, packet.direction);
            let found = penstock_verify::judge(&model, &ids, port, way, packet.peer, service);
            let found = found.expect("a port");
            let verdict = match found.verdict {
                penstock_verify::Verdict::Allow => Verdict::Allow,
                penstock_verify::Verdict::Deny => Verdict::Deny,
                penstock_verify::Verdict::Reject => Verdict::Reject,
            };
            assert_eq!(
                verdict, wanted.verdict,
                "seed {seed}: {packet:?} {wanted:?}"
            );
            assert_eq!(found.log, wanted.log, "seed {seed}: {packet:?} {wanted:?}");
            assert_eq!(
                found.audited,
                wanted.would_stop.is_some(),
                "seed {seed}: {packet:?} {wanted:?}"
            );
            if verdict == Verdict::Allow {
                assert_eq!(found.stateful, wanted.stateful, "seed {seed}: {packet:?}");
            } else {
                refused += 1;
            }
        }
    }
    assert!(refused > 1_000, "only {refused} packets were refused");
}

#[test]
fn programs_of_models_by_chance_are_proved() {
    for seed in 0..seeds() {
        let model = random::model(&mut Random::new(seed));
        let mut ids = Ids::default();
        ids.assign(&model).expect("ids");
        let hosts = offline::hosts(&model, &ids).expect("programs");
        let report = penstock_verify::nodes(&model, &ids, &hosts, Limits::default());
        assert!(report.is_proved(), "seed {seed}: {report:#?}");
        assert!(report.gaps.is_empty() && report.rows > 50, "seed {seed}");
        let reach = reach(&model, &ids, &hosts, Limits::default());
        assert_eq!(reach.leaks().count(), 0, "seed {seed}");
        assert!(reach.unproved.is_none());
    }
}

/// A row of another node's program, put where it does not belong, is told.
#[test]
fn a_row_taken_from_anywhere_is_told() {
    for seed in 0..seeds() {
        let mut random = Random::new(seed);
        let model = random::model(&mut random);
        let mut ids = Ids::default();
        ids.assign(&model).expect("ids");
        let right = offline::hosts(&model, &ids).expect("programs");
        let nodes: Vec<_> = right.keys().cloned().collect();
        let (from, to) = if random.once_in(2) { (0, 1) } else { (1, 0) };
        // A row of one node's is wrong on the other's.
        let foreign: Vec<Row> = right[&nodes[from]].programs[&1].clone();
        let row = *random.pick(&foreign);
        let mut hosts = right.clone();
        let rows = hosts
            .get_mut(&nodes[to])
            .and_then(|host| host.programs.get_mut(&1))
            .expect("a NIC");
        if rows.contains(&row) {
            continue;
        }
        rows.push(row);
        let report = penstock_verify::nodes(&model, &ids, &hosts, Limits::default());
        assert!(!report.is_proved(), "seed {seed}: {row}");
    }
}
