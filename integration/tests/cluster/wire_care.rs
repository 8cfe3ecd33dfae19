//! Frames that nobody should believe, sent through raw sockets: each is counted under
//! its reason, and nothing of it arrives.

use std::time::Duration;

use penstock_integration::bed::{Interrupt, Netns, eventually, run};
use penstock_integration::lab::{Lab, NodeSpec, SOON, can_run, vtep};

use crate::binaries;
use crate::mesh::{OPEN, documents, plug, rules};

const NODES: [NodeSpec; 2] = [
    NodeSpec {
        name: "n0",
        nics: 1,
    },
    NodeSpec {
        name: "n1",
        nics: 1,
    },
];

/// What the scripts below share. A frame is written in hexadecimal, blanks ignored.
const TOOLS: &str = r#"
import socket, struct, sys
def hexa(text): return bytes.fromhex(text.replace(" ", "").replace(":", ""))
def mac(text): return hexa(text)
def csum(data):
    if len(data) % 2: data += b"\0"
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
def a4(text): return socket.inet_pton(socket.AF_INET, text)
def a6(text): return socket.inet_pton(socket.AF_INET6, text)
def eth(dst, src, kind, data): return mac(dst) + mac(src) + struct.pack("!H", kind) + data
def ip4(src, dst, proto, data):
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(data), 0, 0x4000, 64, proto, 0) + a4(src) + a4(dst)
    return head[:10] + struct.pack("!H", csum(head)) + head[12:] + data
def ip6(src, dst, proto, hops, data):
    return struct.pack("!IHBB", 0x60000000, len(data), proto, hops) + a6(src) + a6(dst) + data
def udp(sport, dport, data): return struct.pack("!HHHH", sport, dport, 8 + len(data), 0) + data
def echo4(): 
    m = hexa("0800 0000 0007 0001") + b"penstock"
    return m[:2] + struct.pack("!H", csum(m)) + m[4:]
def icmp6(src, dst, m):
    s = csum(a6(src) + a6(dst) + struct.pack("!II", len(m), 58) + m)
    return m[:2] + struct.pack("!H", s) + m[4:]
def arp(op, smac, sip, tip): return hexa("0001 0800 0604") + struct.pack("!H", op) + mac(smac) + a4(sip) + bytes(6) + a4(tip)
def ns(src, dst, target, option): 
    return icmp6(src, dst, hexa("87000000 00000000") + a6(target) + b"\1\1" + mac(option))
def vxlan(vni, inner): return struct.pack("!II", 0x08000000, vni << 8) + inner
def send(interface, frame):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    s.bind((interface, 0))
    s.send(frame + bytes(max(0, 60 - len(frame))))
"#;

fn python(ns: &Netns, script: &str) {
    let whole = format!("{TOOLS}{script}");
    let command = ["ip", "netns", "exec", ns.name(), "python3", "-c", &whole];
    let done = run(&command, Duration::from_secs(30)).expect("ends");
    done.success(&["python3", "-c", script]).expect("is sent");
}

fn drops(lab: &Lab, node: usize, reason: &str) -> u64 {
    let name = format!("penstock_drops_total{{reason=\"{reason}\"}}");
    lab.metric(node, &name).expect("a counter")
}

/// Runs the script in `ns`; exactly `count` frames end at `node` for `reason`.
fn ends(lab: &Lab, ns: &Netns, script: &str, node: usize, reason: &str, count: u64) {
    let before = drops(lab, node, reason);
    python(ns, script);
    eventually(
        &Interrupt::none(),
        SOON,
        &format!("{reason}: {script}"),
        || {
            let now = drops(lab, node, reason) - before;
            anyhow::ensure!(now == count, "{now} of {count}");
            Ok(())
        },
    )
    .expect("is counted");
}

#[test]
fn what_is_forged_is_counted_and_goes_nowhere() {
    if !can_run(binaries()) {
        return;
    }
    let mut lab = Lab::build("pw", binaries(), &NODES).expect("a lab");
    // The third is one of the test's own: an uplink that belongs to no node.
    lab.start(|_, _| "").expect("starts");
    let places = [plug(&mut lab, 0, 0, 1), plug(&mut lab, 1, 1, 1)];
    let policy = lab.node_documents() + &documents(&places, &["n0", "n1"], &rules(OPEN));
    lab.apply(&policy).expect("programmed");
    let [a, b] = &places;

    // The gateway answers ping.
    for gateway in ["10.0.0.1", "fd00:10::1"] {
        let ping = [
            "ping", "-n", "-q", "-c", "2", "-i", "0.1", "-W", "9", gateway,
        ];
        // Once the kernel is sure that nobody else has its address.
        eventually(&Interrupt::none(), SOON, gateway, || a.ns.run(&ping))
            .expect("the gateway answers");
    }
    let ask = ["ping", "-n", "-q", "-c", "1", "-W", "9", "10.0.0.11"];
    a.ns.run(&ask).expect("the way is known");

    // From a port: every sender field.
    let (own, other) = ("02:00:00:00:01:00", "02:00:00:00:01:01");
    let to = format!("\"{other}\", ");
    let all = "\"ff:ff:ff:ff:ff:ff\", ";
    let sends = |frame: &str| format!("send(\"eth0\", {frame})");
    let ping = "ip4(\"10.0.0.10\", \"10.0.0.11\", 1, echo4())";
    for (reason, frame) in [
        ("spoofed", format!("eth({to}\"{other}\", 0x0800, {ping})")),
        (
            "spoofed",
            format!("eth({to}\"{own}\", 0x0800, ip4(\"10.0.0.77\", \"10.0.0.11\", 1, echo4()))"),
        ),
        (
            "spoofed",
            format!(
                "eth({to}\"{own}\", 0x86dd, ip6(\"fd00:10::77\", \"fd00:10::11\", 17, 64, udp(9, 9, b\"\")))"
            ),
        ),
        (
            "spoofed_neighbour",
            format!("eth({all}\"{own}\", 0x0806, arp(1, \"{own}\", \"10.0.0.11\", \"10.0.0.1\"))"),
        ),
        (
            "spoofed_neighbour",
            format!(
                "eth({all}\"{own}\", 0x0806, arp(2, \"{other}\", \"10.0.0.10\", \"10.0.0.1\"))"
            ),
        ),
        (
            "spoofed_neighbour",
            format!(
                "eth(\"33:33:ff:00:00:01\", \"{own}\", 0x86dd, ip6(\"fd00:10::11\", \"ff02::1:ff00:1\", 58, 255, \
                 ns(\"fd00:10::11\", \"ff02::1:ff00:1\", \"fd00:10::1\", \"{own}\")))"
            ),
        ),
        (
            "spoofed_neighbour",
            format!(
                "eth(\"33:33:ff:00:00:01\", \"{own}\", 0x86dd, ip6(\"fd00:10::10\", \"ff02::1:ff00:1\", 58, 255, \
                 ns(\"fd00:10::10\", \"ff02::1:ff00:1\", \"fd00:10::1\", \"{other}\")))"
            ),
        ),
        (
            "spoofed_neighbour",
            format!(
                "eth({all}\"{own}\", 0x0800, ip4(\"10.0.0.10\", \"255.255.255.255\", 17, udp(67, 68, bytes(300))))"
            ),
        ),
        (
            // About a flow that nobody knows.
            "unrelated_error",
            format!(
                "eth({to}\"{own}\", 0x0800, ip4(\"10.0.0.10\", \"10.0.0.11\", 1, (lambda m: m[:2] + \
                 struct.pack(\"!H\", csum(m)) + m[4:])(hexa(\"0303 0000 00000000\") + \
                 ip4(\"10.0.0.11\", \"10.0.0.10\", 17, udp(5, 6, b\"\")))))"
            ),
        ),
    ] {
        let received = lab
            .metric(1, "penstock_frames_total{path=\"received\"}")
            .expect("a counter");
        ends(&lab, &a.ns, &sends(&frame), 0, reason, 1);
        let now = lab
            .metric(1, "penstock_frames_total{path=\"received\"}")
            .expect("a counter");
        assert!(now - received < 5, "it has left its node: {frame}");
    }

    // From the wire, towards node 1: who nobody knows, and who lies.
    let wire = lab.wire().clone();
    let inner = |src: &str| {
        format!("eth(\"{other}\", \"{own}\", 0x0800, ip4(\"{src}\", \"10.0.0.11\", 1, echo4()))")
    };
    let uplink = lab
        .node(1)
        .expect("a node")
        .run(&["cat", "/sys/class/net/u1/address"])
        .expect("a MAC");
    let uplink = uplink.trim().to_owned();
    let (far, near) = (vtep(0, 1), vtep(1, 1));
    let tunnel = |src: &str, vni: u32, inner: &str| {
        format!(
            "send(\"n1-u1\", eth(\"{uplink}\", \"02:00:00:00:00:99\", 0x0800, \
             ip4(\"{src}\", \"{near}\", 17, udp(50000, 4789, vxlan({vni}, {inner})))))"
        )
    };
    let delivered = lab
        .metric(1, "penstock_frames_total{path=\"sent\"}")
        .expect("a counter");
    ends(
        &lab,
        &wire,
        &tunnel("192.168.50.200", 1001, &inner("10.0.0.10")),
        1,
        "unknown_tunnel",
        1,
    );
    ends(
        &lab,
        &wire,
        &tunnel(&far, 4242, &inner("10.0.0.10")),
        1,
        "unknown_tunnel",
        1,
    );
    ends(
        &lab,
        &wire,
        &tunnel(&far, 1001, &inner("10.0.0.99")),
        1,
        "wrong_vtep",
        1,
    );
    ends(
        &lab,
        &wire,
        &tunnel(&far, 1001, &inner("10.0.0.11")),
        1,
        "wrong_vtep",
        1,
    );
    // Towards somebody who is elsewhere: it does not go back to the wire.
    let back = format!(
        "eth(\"{own}\", \"{other}\", 0x0800, ip4(\"10.0.0.10\", \"10.0.0.10\", 1, echo4()))"
    );
    ends(&lab, &wire, &tunnel(&far, 1001, &back), 1, "reflected", 1);
    let arp = format!(
        "eth(\"ff:ff:ff:ff:ff:ff\", \"{own}\", 0x0806, arp(1, \"{own}\", \"10.0.0.10\", \"10.0.0.11\"))"
    );
    ends(
        &lab,
        &wire,
        &tunnel(&far, 1001, &arp),
        1,
        "unhandled_control",
        1,
    );
    let now = lab
        .metric(1, "penstock_frames_total{path=\"sent\"}")
        .expect("a counter");
    assert!(now - delivered < 10, "something of it was sent on");

    let table = lab.penstock().run(&["drops"]).expect("a table");
    for reason in [
        "spoofed",
        "spoofed_neighbour",
        "unknown_tunnel",
        "wrong_vtep",
        "reflected",
        "unrelated_error",
    ] {
        assert!(table.contains(reason), "{reason}: {table}");
    }
    // All the same, what is right still goes.
    b.ns.run(&[
        "ping",
        "-n",
        "-q",
        "-c",
        "2",
        "-i",
        "0.1",
        "-W",
        "9",
        "10.0.0.10",
    ])
    .expect("an answer");
    lab.check_alive().expect("all run");
}
