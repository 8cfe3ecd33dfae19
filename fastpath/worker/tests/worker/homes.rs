//! A worker whose tables and policy number its interfaces differently.

use penstock_worker::agent::slowpath::node::{Number, PortsFile};
use penstock_worker::snapshot;

use crate::bed::{Workload, wait_until};
use crate::fixture::{INTERFACE, IP, MAC, allow};
use crate::forwarding::Bed;
use crate::netns;

const ICMP: u32 = 1;

/// Gives a workload the identity of another.
fn pose_as(workload: &Workload, i: usize) {
    let [a, b, c, d, e, f] = MAC[i];
    let mac = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
    let ns = &workload.ns;
    ns.ip(&["link", "set", "eth0", "address", &mac]);
    ns.ip(&["addr", "flush", "dev", "eth0"]);
    ns.ip(&["addr", "add", &format!("{}/24", IP[i]), "dev", "eth0"]);
}

/// The numbers are exchanged while the worker is away, as when the file with them was lost
/// or older than the tables: each interface has the number that the tables know as the
/// other port's. Posing as the other, nobody passes.
#[test]
fn nobody_passes_by_a_number_that_was_another_interfaces() {
    if !netns::available("nobody_passes_by_a_number_that_was_another_interfaces") {
        return;
    }
    let mut bed = Bed::start();
    let rules = vec![allow("ping", ICMP, &[])];
    bed.program(rules.clone());
    wait_until("a reaches b", || bed.a.pings(56));
    bed.node.stop();

    let path = bed.node.data_dir().join("ports.snapshot");
    let kept = std::fs::read(&path).expect("is kept");
    let file: PortsFile = snapshot::decode(&kept).expect("is whole");
    let number = |interface: &str| {
        let found = file.numbers.iter().find(|n| n.interface == interface);
        found.expect("has a number").device_port
    };
    let exchanged = [
        (INTERFACE[0], number(INTERFACE[1])),
        (INTERFACE[1], number(INTERFACE[0])),
    ];
    let numbers = exchanged.map(|(interface, device_port)| Number {
        interface: interface.to_owned(),
        device_port,
    });
    let numbers = numbers.to_vec();
    std::fs::write(&path, snapshot::encode(&PortsFile { numbers })).expect("writes");
    pose_as(&bed.a, 1);
    pose_as(&bed.b, 0);
    bed.node.start();
    for _ in 0..3 {
        let to = IP[0].to_string();
        let ping = bed
            .a
            .ns
            .output("ping", &["-c", "3", "-i", "0.2", "-W", "1", &to]);
        assert!(!ping.status.success(), "as the port that the tables see");
    }

    // As themselves they pass once the tables agree with the policy again.
    pose_as(&bed.a, 0);
    pose_as(&bed.b, 1);
    assert!(!bed.a.pings(56), "the tables still say otherwise");
    bed.rebind(rules);
    wait_until("a reaches b", || bed.a.pings(56));
}
