//! What a proof costs grows with the rows, and is told.

use std::fmt::Write as _;
use std::time::Instant;

use penstock_policies::{Ids, document};
use penstock_verify::{Limits, offline, reach};

const NODES: usize = 4;

/// So many ports of four VPCs, on four nodes.
fn network(ports: usize) -> String {
    let mut text = String::from("kind: Tenant\nname: tenants/t\n");
    for n in 0..NODES {
        let _ = write!(
            text,
            "---\nkind: Node\nname: nodes/n{n}\nspec: {{workerAddress: '10.9.0.{n}:1', nics: [{{deviceId: 1, vtep: \
             192.0.2.{}}}]}}\n---\nkind: Vpc\nname: tenants/t/vpcs/v{n}\nspec: {{vni: {}, cidrs: [10.0.0.0/16]}}\n---\n\
             kind: Subnet\nname: tenants/t/vpcs/v{n}/subnets/s\nspec: {{cidrs: [10.0.0.0/16]}}\n",
            n + 1,
            n + 1,
        );
    }
    for i in 0..ports {
        let (vpc, node) = (i % NODES, i / NODES % NODES);
        let (high, low) = ((i + 16) / 250, (i + 16) % 250 + 2);
        let _ = write!(
            text,
            "---\nkind: Port\nname: tenants/t/vpcs/v{vpc}/ports/p{i}\nspec: {{subnet: s, node: n{node}, attachment: \
             e{i}, mac: '02:00:00:00:{high:02x}:{low:02x}', ips: [10.0.{high}.{low}]}}\n",
        );
    }
    text
}

#[test]
fn a_thousand_ports_cost_milliseconds() {
    let mut cells = Vec::new();
    for ports in [500, 1000] {
        let model = document::parse("network", network(ports).as_bytes())
            .validate()
            .expect("a valid set");
        let mut ids = Ids::default();
        ids.assign(&model).expect("ids");
        let hosts = offline::hosts(&model, &ids).expect("programs");
        let begun = Instant::now();
        let report = penstock_verify::nodes(&model, &ids, &hosts, Limits::default());
        let proved = begun.elapsed();
        let reach = reach(&model, &ids, &hosts, Limits::default());
        println!(
            "{ports} ports, {NODES} NICs, {} rows: all NICs {proved:?}, reach {:?}",
            report.rows,
            begun.elapsed().checked_sub(proved),
        );
        assert!(report.is_proved() && report.gaps.is_empty(), "{report:#?}");
        assert_eq!(reach.leaks().count(), 0);
        assert_eq!(reach.pairs.len(), NODES);
        cells.push((report.cells, reach.cells));
    }
    // Twice as many ports: twice as much to look at.
    let ((half, half_reach), (all, all_reach)) = (cells[0], cells[1]);
    assert!(all <= 2 * half && all_reach <= 2 * half_reach, "{cells:?}");
}
