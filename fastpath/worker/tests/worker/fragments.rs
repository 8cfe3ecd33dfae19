//! Packets in fragments between real stacks: Linux cuts them, and puts them together.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket,
};
use p4runtime::pipeline::Entry;
use penstock_slowpath_api::v1;
use v1::policy_status::Result as Verdict;

use crate::bed::{Node, Workload, wait_until};
use crate::controller::{Controller, host_entries, port_entries, tunnel_entries};
use crate::fixture::{self, IP, MAC, VNI, allow};
use crate::netns;

const ICMP: u32 = 1;
const UDP: u32 = 17;
const ICMPV6: u32 = 58;
const PORT: u16 = 9000;
const IP6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
];
const VTEPS: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
/// Answered within this time, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(10);

fn policy() -> v1::PolicyUpdate {
    let rules = vec![
        allow("ping", ICMP, &[]),
        allow("ping6", ICMPV6, &[]),
        allow("udp", UDP, &[PORT.into()]),
    ];
    let mut update = fixture::snapshot(1, rules);
    let octets = |ip: Ipv6Addr| ip.octets().to_vec();
    let subnet = &mut update.subnets[0];
    subnet.prefixes.push(v1::Prefix {
        address: octets(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0)),
        length: 64,
    });
    for (i, ip) in IP6.into_iter().enumerate() {
        update.ports[i].ips.push(octets(ip));
        let mut endpoint = update.endpoints[i].clone();
        endpoint.key = Some(v1::EndpointKey {
            vni: VNI,
            ip: octets(ip),
        });
        update.endpoints.push(endpoint);
    }
    update
}

async fn in_force(controller: &mut Controller, update: v1::PolicyUpdate) -> Vec<v1::Attachment> {
    let status = controller.sync().await.send(update).await;
    assert_eq!(status.result(), Verdict::InForce, "{}", status.message);
    status.attachments
}

async fn bind(controller: &mut Controller, attachment: &v1::Attachment, i: usize) {
    let (port, id) = (attachment.device_port, attachment.port_id);
    let mut entries = port_entries(port, id, VNI as u16, MAC[i], fixture::bits(IP[i]));
    entries.extend(host_entries(id, VNI as u16, MAC[i], IP6[i].to_bits()));
    controller.insert(1, 1, &entries).await;
}

fn with_ipv6(workload: &Workload, i: usize) {
    let ns = &workload.ns;
    ns.exec("sysctl", &["-qw", "net.ipv6.conf.eth0.disable_ipv6=0"]);
    let address = format!("{}/64", IP6[i]);
    ns.ip(&["addr", "add", &address, "dev", "eth0", "nodad"]);
}

/// Whether pings of these many bytes are answered.
fn pings(from: &Workload, to: IpAddr, size: u32) -> bool {
    let (to, size) = (to.to_string(), size.to_string());
    let args = ["-c", "3", "-i", "0.2", "-W", "5", "-s", &size, &to];
    let output = from.ns.output("ping", &args);
    let said = String::from_utf8_lossy(&output.stdout);
    output.status.success() && said.contains(" 3 received")
}

/// A datagram there and back, whole and unharmed.
fn echoes(from: &Workload, to: &Workload, address: IpAddr, size: usize) {
    let any: IpAddr = match address {
        IpAddr::V4(_) => [0; 4].into(),
        IpAddr::V6(_) => [0; 16].into(),
    };
    let server = to
        .ns
        .thread(move || UdpSocket::bind((any, PORT)).expect("binds"));
    let server = server.join().expect("binds");
    let client = from
        .ns
        .thread(move || UdpSocket::bind((any, 0)).expect("binds"));
    let client = client.join().expect("binds");
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(PATIENCE)).expect("an option");
    }
    let sent: Vec<u8> = (0..size).map(|i| (i / 7 * 31 % 251) as u8).collect();
    let mut got = vec![0; 1 << 16];
    let to = SocketAddr::from((address, PORT));
    client.send_to(&sent, to).expect("sends");
    let (len, back) = server.recv_from(&mut got).expect("arrives");
    assert!(got[..len] == sent, "{size} bytes to {address}, {len} came");
    server.send_to(&sent, back).expect("answers");
    let (len, _) = client.recv_from(&mut got).expect("the answer");
    assert!(got[..len] == sent, "{size} bytes back, {len} came");
}

fn large_packets(a: &Workload, b: &Workload) {
    let addresses = [IpAddr::V4(IP[1]), IpAddr::V6(IP6[1])];
    for to in addresses {
        wait_until("the way is known", || pings(a, to, 56));
        for size in [4000, 60_000] {
            // It gives up after two round trips, which on a busy machine is early.
            let what = format!("ping of {size} to {to}");
            wait_until(&what, || pings(a, to, size));
        }
        for size in [2000, 60_000] {
            echoes(a, b, to, size);
        }
    }
}

/// What a node has counted of these reasons.
fn counted(node: &Node, reasons: &'static [&'static str]) -> u64 {
    let counters = node.control(|mut c| async move { c.drops().await });
    let of_these = |c: &&v1::DropCounter| reasons.contains(&c.reason.as_str());
    counters
        .counters
        .iter()
        .filter(of_these)
        .map(|c| c.packets)
        .sum()
}

const REFUSED: &[&str] = &["fragment", "fragment_timeout", "fragments_full"];

#[test]
fn fragments_pass_on_one_node() {
    if !netns::available("fragments_pass_on_one_node") {
        return;
    }
    let mut node = Node::new("node", VTEPS[0]);
    node.lone_uplink();
    let (a, b) = (Workload::new(0, &node), Workload::new(1, &node));
    for (i, workload) in [&a, &b].into_iter().enumerate() {
        with_ipv6(workload, i);
    }
    node.start();
    node.control(|mut controller| async move {
        let attachments = in_force(&mut controller, policy()).await;
        let _primary = controller.take(1, 1).await;
        for (i, attachment) in attachments.iter().enumerate() {
            bind(&mut controller, attachment, i).await;
        }
    });
    large_packets(&a, &b);
    assert_eq!(counted(&node, REFUSED), 0);
    // What policy refuses is refused piece by piece, and none was put together before.
    let to = IpAddr::V4(IP[1]);
    let other = a.ns.thread(move || {
        let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("binds");
        socket.send_to(&[0; 4000], (to, PORT + 1)).expect("sends");
    });
    other.join().expect("sends");
    wait_until("three are denied", || {
        counted(&node, &["denied_ingress"]) == 3
    });
    jumbled(&a, &b, &node);
}

/// Pieces that overtake one another and come twice; a stack does not send such, and this
/// kernel may have no netem.
fn jumbled(a: &Workload, b: &Workload, node: &Node) {
    let server =
        b.ns.thread(|| UdpSocket::bind(("0.0.0.0", PORT)).expect("binds"));
    let server = server.join().expect("binds");
    server.set_read_timeout(Some(PATIENCE)).expect("an option");
    let data: Vec<u8> = (0..5992).map(|i| (i / 7 % 251) as u8).collect();
    let mut got = vec![0; 1 << 16];
    for (id, order) in (1..).zip(["543210", "501234", "05544332211", "215340"]) {
        let order = order.bytes().map(|digit| usize::from(digit - b'0'));
        let pieces: Vec<_> = order.map(|i| piece(id, i, &data)).collect();
        let sender = a.ns.thread(move || {
            let kind = (AddressFamily::Inet, SockType::Raw, SockFlag::empty());
            let raw = socket(kind.0, kind.1, kind.2, SockProtocol::Raw).expect("raw");
            let to = SockaddrIn::from(SocketAddrV4::new(IP[1], 0));
            for piece in pieces {
                sendto(raw.as_raw_fd(), &piece, &to, MsgFlags::empty()).expect("sends");
            }
        });
        sender.join().expect("sends");
        let (len, from) = server.recv_from(&mut got).expect("arrives");
        assert!(got[..len] == data, "{len} bytes came");
        assert_eq!(from.port(), PORT);
    }
    let twice = counted(node, &["fragment_duplicate"]);
    assert_eq!(
        twice, 4,
        "the last one's is another packet's, for all we know"
    );
}

/// One of six pieces of a datagram from the first workload to the second.
fn piece(id: u16, i: usize, data: &[u8]) -> Vec<u8> {
    const SIZE: usize = 1000;
    let len = (8 + data.len()) as u16;
    let [port, len] = [PORT, len].map(u16::to_be_bytes);
    let mut datagram = [port, port, len, [0; 2]].concat();
    datagram.extend(data);
    let more = if i == 5 { 0 } else { 0x2000 };
    let offset = more | (i * SIZE / 8) as u16;
    // The kernel fills in length and checksum.
    let mut packet = vec![0x45, 0, 0, 0];
    packet.extend(id.to_be_bytes());
    packet.extend(offset.to_be_bytes());
    packet.extend([64, UDP as u8, 0, 0]);
    packet.extend(IP[0].octets());
    packet.extend(IP[1].octets());
    packet.extend(&datagram[i * SIZE..(i * SIZE + SIZE).min(datagram.len())]);
    packet
}

#[test]
fn fragments_pass_between_two_nodes() {
    if !netns::available("fragments_pass_between_two_nodes") {
        return;
    }
    let mut nodes = [Node::new("n1", VTEPS[0]), Node::new("n2", VTEPS[1])];
    nodes[0].connect(&nodes[1]);
    let workloads = [Workload::new(0, &nodes[0]), Workload::new(1, &nodes[1])];
    for (i, node) in nodes.iter_mut().enumerate() {
        with_ipv6(&workloads[i], i);
        node.start();
        let mtu = node.inner_mtu();
        node.control(move |mut controller| async move {
            let vteps = VTEPS.map(|vtep| vtep.parse().expect("an address"));
            let mut update = policy();
            update.ports.remove(1 - i);
            update.vteps.push(v1::Vtep {
                address: fixture::bytes(vteps[1 - i]),
                node: "the other".into(),
            });
            let attachments = in_force(&mut controller, update).await;
            let _primary = controller.take(1, 1).await;
            bind(&mut controller, &attachments[0], i).await;
            let remote = fixture::bits(IP[1 - i]);
            let [near, far] = [vteps[i], vteps[1 - i]].map(fixture::bits);
            let mut entries = tunnel_entries(VNI as u16, near, far, remote, mtu);
            // Next hop and tunnel are there; the address is one more.
            let six = IP6[1 - i].to_bits();
            let more = tunnel_entries(VNI as u16, near, far, six, mtu);
            entries.extend(more.into_iter().filter(|e| matches!(e, Entry::Mapping(_))));
            controller.insert(1, 1, &entries).await;
        });
    }
    let [a, b] = &workloads;
    large_packets(a, b);
    for node in &nodes {
        assert_eq!(counted(node, REFUSED), 0);
    }
}
