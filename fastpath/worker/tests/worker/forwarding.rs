//! Workloads on one node and on two, through worker processes.

use std::net::Ipv4Addr;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use p4runtime::pipeline::Table;
use penstock_slowpath_api::v1;
use v1::policy_status::Result as Verdict;

use crate::bed::{Node, Workload, wait_until};
use crate::controller::{Controller, port_entries, tunnel_entries};
use crate::fixture::{self, INTERFACE, IP, MAC, VNI, allow};
use crate::netns;

const ICMP: u32 = 1;
const TCP: u32 = 6;

/// One node, two workloads.
pub(crate) struct Bed {
    pub(crate) node: Node,
    pub(crate) a: Workload,
    pub(crate) b: Workload,
}

impl Bed {
    pub(crate) fn start() -> Self {
        Self::with(|node| node)
    }

    /// On a node that `edit` makes of the usual one.
    pub(crate) fn with(edit: impl FnOnce(Node) -> Node) -> Self {
        let mut node = edit(Node::new("node", "192.0.2.1"));
        node.lone_uplink();
        let (a, b) = (Workload::new(0, &node), Workload::new(1, &node));
        node.start();
        Self { node, a, b }
    }

    fn ping(&self) -> bool {
        self.a.pings(56)
    }

    /// What a controller does on a node: policy first, then the tables for the device
    /// ports it is told.
    pub(crate) fn program(&self, rules: Vec<v1::Rule>) {
        self.node.control(move |mut controller| async move {
            let attachments = in_force(&mut controller, fixture::snapshot(1, rules)).await;
            let _primary = controller.take(1, 1).await;
            for (i, attachment) in attachments.iter().enumerate() {
                bind(&mut controller, attachment, 1, i).await;
            }
        });
    }

    /// The same policy, and tables anew for the device ports of now.
    pub(crate) fn rebind(&self, rules: Vec<v1::Rule>) {
        self.node.control(move |mut controller| async move {
            let attachments = in_force(&mut controller, fixture::snapshot(1, rules)).await;
            let _primary = controller.take(1, 2).await;
            for (i, attachment) in attachments.iter().enumerate() {
                bind(&mut controller, attachment, 2, i).await;
            }
        });
    }

    fn change(&self, generation: u64, base: u64, rules: Vec<v1::Rule>) {
        self.node.control(move |mut controller| async move {
            in_force(&mut controller, fixture::delta(generation, base, rules)).await;
        });
    }

    fn drops(&self) -> Vec<v1::Drop> {
        self.node
            .control(|mut c| async move { c.drops().await })
            .drops
    }
}

async fn in_force(controller: &mut Controller, update: v1::PolicyUpdate) -> Vec<v1::Attachment> {
    let status = controller.sync().await.send(update).await;
    assert_eq!(status.result(), Verdict::InForce, "{}", status.message);
    status.attachments
}

async fn bind(
    controller: &mut Controller,
    attachment: &v1::Attachment,
    election_id: u64,
    i: usize,
) {
    assert_eq!(attachment.error, "");
    let (port, id) = (attachment.device_port, attachment.port_id);
    let entries = port_entries(port, id, VNI as u16, MAC[i], fixture::bits(IP[i]));
    controller.insert(1, election_id, &entries).await;
}

#[test]
fn policy_decides_between_two_workloads_of_a_node() {
    if !netns::available("policy_decides_between_two_workloads_of_a_node") {
        return;
    }
    let mut bed = Bed::start();
    assert!(!bed.ping(), "closed before the first policy");

    bed.program(vec![allow("ping", ICMP, &[]), allow("web", TCP, &[8080])]);
    assert!(bed.ping(), "rule `ping`");
    let mut web = bed.a.connect(&bed.b, 8080).expect("rule `web`");
    assert!(web.passes(4));
    assert!(bed.a.connect(&bed.b, 9090).is_none(), "no rule");

    let drops = bed.drops();
    let denied = drops.iter().find(|d| d.reason == "denied_ingress");
    let denied = denied.expect("the attempt on 9090");
    let key = denied.key.as_ref().expect("a key");
    assert_eq!((denied.port_id, key.destination_port), (2, 9090));
    let explanation = &denied.explanation;
    assert!(explanation.contains("closed"), "{explanation}");

    // The NIC's tables answer what has been decided.
    for _ in 0..20 {
        assert!(web.passes(4));
    }
    let flows = bed.node.control(|mut c| async move { c.flows(2).await });
    let of_web = |f: &&v1::Flow| f.key.as_ref().is_some_and(|k| k.destination_port == 8080);
    let flow = flows.iter().find(of_web).expect("the connection");
    assert!(flow.offloaded && flow.nic_packets >= 20, "{flow:?}");
    assert_eq!((flow.rule.as_str(), flow.ingress), ("g/rules/web", true));
    let flow_table = Table::Flow.read_all();
    let rows = bed
        .node
        .control(|mut c| async move { c.read(1, flow_table).await });
    let counted = |row: &&p4runtime::v1::TableEntry| {
        row.time_since_last_hit.is_some() && row.counter_data.is_some_and(|c| c.packet_count >= 20)
    };
    assert!(rows.iter().filter(counted).count() >= 2, "{rows:?}");

    web.carries("on one node", 20_000_000);

    // A change that closes it cuts what is open.
    bed.change(2, 1, vec![allow("ping", ICMP, &[])]);
    assert!(!web.passes(4), "revoked");
    assert!(bed.ping(), "not concerned");
    let drops = bed.drops();
    let cut = |d: &&v1::Drop| d.reason == "revoked" && d.port_id == 2;
    let revoked = drops.iter().find(cut).expect("the cut");
    assert_eq!(revoked.rule, "g/rules/web", "{revoked:?}");

    let folder = Path::new("/var/run/dpdk").join(&bed.node.ns.name);
    assert!(!folder.exists(), "EAL leaves nothing behind");
    bed.node.stop();
    assert!(!bed.ping(), "nobody forwards");
}

#[test]
fn a_restarted_worker_forwards_without_a_controller() {
    if !netns::available("a_restarted_worker_forwards_without_a_controller") {
        return;
    }
    let mut bed = Bed::start();
    bed.program(vec![allow("ping", ICMP, &[])]);
    assert!(bed.ping());
    // Tables are kept soon after they are written; a stop would keep them at once.
    sleep(Duration::from_secs(1));
    drop(bed.node.worker.take());
    assert!(!bed.ping(), "killed");
    bed.node.start();
    assert!(bed.ping(), "resumed from disk");
    let generation = bed.node.control(|mut c| async move {
        let info = c.slow.get_node(v1::GetNodeRequest {}).await;
        info.expect("answers").into_inner().generation
    });
    assert_eq!(generation, 1);
    assert!(bed.a.connect(&bed.b, 8080).is_none(), "still closed");
}

#[test]
fn permitted_tcp_survives_a_crash() {
    if !netns::available("permitted_tcp_survives_a_crash") {
        return;
    }
    let mut bed = Bed::start();
    bed.program(vec![allow("web", TCP, &[8080])]);
    let mut web = bed.a.connect(&bed.b, 8080).expect("allowed");
    assert!(web.passes(4));
    sleep(Duration::from_secs(1));
    drop(bed.node.worker.take());
    bed.node.start();
    assert!(web.passes(4), "taken up in its midst");
    bed.change(2, 1, Vec::new());
    assert!(!web.passes(4), "and cut like any other");
}

#[test]
fn an_interface_that_comes_back_is_attached_again() {
    if !netns::available("an_interface_that_comes_back_is_attached_again") {
        return;
    }
    let bed = Bed::start();
    let rules = || vec![allow("ping", ICMP, &[])];
    bed.program(rules());
    assert!(bed.ping());
    let errors = || {
        bed.node.control(move |mut controller| async move {
            // The policy in force once more: no change, but an answer.
            let attachments = in_force(&mut controller, fixture::snapshot(1, rules())).await;
            let errors = attachments.into_iter().map(|a| a.error);
            errors.collect::<Vec<_>>()
        })
    };
    bed.node.ns.ip(&["link", "del", INTERFACE[1]]);
    wait_until("its absence is reported", || {
        errors()
            .iter()
            .any(|error| error.contains("no interface vb"))
    });
    bed.b.plug(&bed.node);
    wait_until("it forwards again", || bed.ping());
    assert_eq!(errors(), ["", ""]);
}

#[test]
fn a_workload_does_not_reach_the_host() {
    if !netns::available("a_workload_does_not_reach_the_host") {
        return;
    }
    let mut bed = Bed::start();
    // The host has an address, and a workload sends to its interface's MAC.
    let [a, b, c, d, e, f] = MAC[0];
    let mac = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
    let host_mac = "02:00:00:00:00:99";
    let node = &bed.node.ns;
    let workload = &bed.a.ns;
    node.ip(&["link", "set", "va", "address", host_mac, "up"]);
    node.ip(&["addr", "add", "203.0.113.1/32", "dev", "lo"]);
    node.ip(&["route", "add", "10.0.0.1/32", "dev", "va"]);
    node.ip(&["neigh", "add", "10.0.0.1", "lladdr", &mac, "dev", "va"]);
    workload.ip(&[
        "neigh",
        "add",
        "10.0.0.99",
        "lladdr",
        host_mac,
        "dev",
        "eth0",
    ]);
    workload.ip(&["route", "add", "203.0.113.1/32", "via", "10.0.0.99"]);
    let args = ["-c", "2", "-i", "0.2", "-W", "1", "203.0.113.1"];
    let reaches = |bed: &Bed| bed.a.ns.output("ping", &args).status.success();
    assert!(reaches(&bed), "before it is a port");
    bed.program(vec![allow("ping", ICMP, &[])]);
    assert!(bed.ping());
    assert!(!reaches(&bed), "as a port");
    bed.node.stop();
    assert!(!reaches(&bed), "without a worker");
    bed.node.start();
    assert!(bed.ping());
    bed.node.control(|mut controller| async move {
        let mut gone = fixture::delta(2, 1, vec![]);
        gone.deleted_ports = vec![1];
        in_force(&mut controller, gone).await;
    });
    assert!(reaches(&bed), "a port no more");
}

#[test]
fn two_nodes_carry_a_vpc_between_them() {
    if !netns::available("two_nodes_carry_a_vpc_between_them") {
        return;
    }
    two_nodes([Node::new("n1", VTEPS[0]), Node::new("n2", VTEPS[1])]);
}

#[test]
fn two_nodes_carry_jumbo_frames() {
    if !netns::available("two_nodes_carry_jumbo_frames") {
        return;
    }
    let [a, b] = [Node::new("n1", VTEPS[0]), Node::new("n2", VTEPS[1])];
    two_nodes([a.jumbo(), b.jumbo()]);
}

const VTEPS: [&str; 2] = ["192.0.2.1", "192.0.2.2"];

fn two_nodes(mut nodes: [Node; 2]) {
    let vteps = VTEPS.map(|vtep| vtep.parse::<Ipv4Addr>().expect("an address"));
    nodes[0].connect(&nodes[1]);
    let a = Workload::new(0, &nodes[0]);
    let b = Workload::new(1, &nodes[1]);
    let mtu = nodes[0].inner_mtu();
    for (i, node) in nodes.iter_mut().enumerate() {
        node.start();
        node.control(move |mut controller| async move {
            let rules = vec![allow("ping", ICMP, &[]), allow("web", TCP, &[8080])];
            let mut update = fixture::snapshot(1, rules);
            update.ports.remove(1 - i);
            update.subnets[0].mtu = mtu.into();
            update.vteps.push(v1::Vtep {
                address: fixture::bytes(vteps[1 - i]),
                node: "the other".into(),
            });
            let attachments = in_force(&mut controller, update).await;
            let _primary = controller.take(1, 1).await;
            bind(&mut controller, &attachments[0], 1, i).await;
            let remote = fixture::bits(IP[1 - i]);
            let [near, far] = [vteps[i], vteps[1 - i]].map(fixture::bits);
            let entries = tunnel_entries(VNI as u16, near, far, remote, mtu);
            controller.insert(1, 1, &entries).await;
        });
    }
    wait_until("neighbours are known", || a.pings(56));
    assert!(a.pings(mtu - 28), "as large as a packet may be");
    let mut web = a.connect(&b, 8080).expect("rule `web`");
    for _ in 0..20 {
        assert!(web.passes(10_000));
    }
    web.carries("over VXLAN", 20_000_000);
    assert!(a.connect(&b, 9090).is_none(), "no rule");
    for (node, port) in [(&nodes[0], 1), (&nodes[1], 2)] {
        let flows = node.control(move |mut c| async move { c.flows(port).await });
        let of_web = |f: &&v1::Flow| f.key.as_ref().is_some_and(|k| k.destination_port == 8080);
        let flow = flows.iter().find(of_web).expect("the connection");
        assert!(flow.offloaded && flow.nic_packets > 100, "{flow:?}");
    }
}

#[test]
fn an_idle_worker_leaves_the_processor_alone() {
    if !netns::available("an_idle_worker_leaves_the_processor_alone") {
        return;
    }
    let bed = Bed::start();
    bed.program(vec![allow("ping", ICMP, &[])]);
    assert!(bed.ping());
    sleep(Duration::from_secs(2));
    let before = bed.node.cpu_time();
    sleep(Duration::from_secs(2));
    let used = bed.node.cpu_time().saturating_sub(before);
    eprintln!("idle worker: {used:?} of processor time in 2 s");
    // Unoptimised code on a shared machine; a thread that spins uses 2 s.
    assert!(used < Duration::from_millis(600), "{used:?} in 2 s");
}
