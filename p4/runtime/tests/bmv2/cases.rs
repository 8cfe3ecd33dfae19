//! One frame each, and what becomes of it.

mod tunnels;

use p4runtime::pipeline::CPU_PORT;
use p4runtime::punt;
use p4runtime::reason::{Ask, Drop};

use crate::frames::{ACK, FIN, Ip, RST, SYN, ethernet, icmp, roce, tagged, tcp, udp, v4};
use crate::tables::*;
use tunnels::{entropy, sent};

pub struct Case {
    pub name: &'static str,
    /// Device port.
    pub at: u32,
    pub frame: Vec<u8>,
    pub expected: Expected,
}

pub enum Expected {
    Out(u32, Vec<u8>),
    /// Reason, ingress, VPC; always at the CPU port, and the frame unchanged.
    Ask(Ask, u32, u32),
    Drop(Drop),
}

use Expected::Out;

pub fn all() -> Vec<Case> {
    let mut cases = Cases(Vec::new());
    cases.attachment();
    cases.neighbour();
    cases.senders();
    cases.state();
    cases.local();
    cases.outbound();
    cases.inbound();
    cases.bad_tunnels();
    cases.fences_and_flows();
    cases.policy();
    cases.rdma();
    cases.reinjected();
    cases.0
}

struct Cases(Vec<Case>);

/// From A at port one, untagged.
fn from_a(dst_mac: [u8; 6], ip: Ip, proto: u8, payload: &[u8]) -> Vec<u8> {
    let (ether_type, packet) = ip.packet(proto, payload);
    ethernet(dst_mac, MAC_A, ether_type, &packet)
}

/// From B at port two, still untagged.
fn from_b(dst_mac: [u8; 6], ip: Ip, proto: u8, payload: &[u8]) -> Vec<u8> {
    let (ether_type, packet) = ip.packet(proto, payload);
    ethernet(dst_mac, MAC_B, ether_type, &packet)
}

/// The same packet between other MACs.
fn between(dst: [u8; 6], src: [u8; 6], frame: &[u8]) -> Vec<u8> {
    [&dst, &src, &frame[12..]].concat()
}

impl Cases {
    fn add(&mut self, name: &'static str, at: u32, frame: Vec<u8>, expected: Expected) {
        let same = |case: &&Case| case.at == at && case.frame == frame;
        assert!(self.0.iter().find(same).is_none(), "{name} repeats a frame");
        self.0.push(Case {
            name,
            at,
            frame,
            expected,
        });
    }

    fn ask_a(&mut self, name: &'static str, frame: Vec<u8>, reason: Ask) {
        self.add(name, ONE, frame, Expected::Ask(reason, PORT_A, VPC));
    }

    fn drop_a(&mut self, name: &'static str, frame: Vec<u8>, reason: Drop) {
        self.add(name, ONE, frame, Expected::Drop(reason));
    }

    fn attachment(&mut self) {
        let frame = from_a(MAC_B, Ip::new(A, B), 6, &tcp(KNOWN, 80, ACK, b"attachment"));
        self.add(
            "no port there",
            NOBODY,
            frame.clone(),
            Expected::Drop(Drop::NoVport),
        );
        self.add(
            "no port on that VLAN",
            ONE,
            tagged(5, &frame),
            Expected::Drop(Drop::NoVport),
        );
        let untagged = from_b(MAC_A, Ip::new(B, A), 6, &tcp(80, KNOWN, ACK, b"untagged"));
        self.add(
            "no port without VLAN",
            TWO,
            untagged,
            Expected::Drop(Drop::NoVport),
        );
        self.add(
            "a cut Ethernet header",
            ONE,
            vec![1; 10],
            Expected::Drop(Drop::Malformed),
        );
        self.add(
            "from the front-end",
            FRONT_END,
            frame,
            Expected::Ask(Ask::FrontEnd, 0, VPC),
        );
    }

    fn neighbour(&mut self) {
        let arp = |payload: &[u8]| ethernet([0xff; 6], MAC_A, 0x0806, payload);
        self.ask_a("ARP", arp(&[0; 28]), Ask::Neighbour);
        let strange = Ip::new(0, 0xff02 << 112 | 2);
        for kind in 133..=137 {
            let frame = from_a(MAC_B, strange, 58, &icmp(kind, 0, 0));
            self.ask_a("neighbour discovery, any source", frame, Ask::Neighbour);
        }
        let frame = from_a(MAC_B, strange, 58, &icmp(138, 0, 0));
        self.drop_a("other ICMPv6 from any source", frame, Drop::Spoofed);
        let nobody = Ip::new(v4([0; 4]), v4([255; 4]));
        let frame = from_a([0xff; 6], nobody, 17, &udp(68, 67, b"discover"));
        self.ask_a("DHCP", frame, Ask::Dhcp);
        let frame = from_a([0xff; 6], strange, 17, &udp(546, 547, b"solicit"));
        self.ask_a("DHCPv6", frame, Ask::Dhcp);
        let frame = from_a([0xff; 6], nobody, 17, &udp(68, 547, b"DHCPv6 over IPv4"));
        self.drop_a("DHCPv6's port over IPv4", frame, Drop::Spoofed);
    }

    fn senders(&mut self) {
        let data = tcp(KNOWN, 80, ACK, b"spoofed");
        let frame = from_a(MAC_B, Ip::new(v4([10, 0, 0, 3]), B), 6, &data);
        self.drop_a("another's address", frame, Drop::Spoofed);
        let frame = between(MAC_B, MAC_B, &from_a(MAC_B, Ip::new(A, B), 6, &data));
        self.drop_a("another's MAC", frame, Drop::Spoofed);
        self.drop_a(
            "no IP",
            ethernet(MAC_B, MAC_A, 0x88cc, &[0; 30]),
            Drop::NotIp,
        );
        self.drop_a(
            "two tags",
            tagged(0, &tagged(0, &from_a(MAC_B, Ip::new(A, B), 6, &data))),
            Drop::NotIp,
        );
        let packet = Ip::new(A, B).ipv6(6, &data);
        let frame = ethernet(MAC_B, MAC_A, 0x86dd, &packet);
        self.drop_a("IPv4 in an IPv6 coat", frame, Drop::MappedAddress);
        let packet = Ip::new(A6, B).ipv6(6, &data);
        let frame = ethernet(MAC_B, MAC_A, 0x86dd, &packet);
        self.drop_a("IPv6 to IPv4", frame, Drop::MappedAddress);
        let packet = Ip::new(A, B6).ipv6(6, &data);
        let frame = ethernet(MAC_B, MAC_A, 0x86dd, &packet);
        self.drop_a("IPv6 from IPv4", frame, Drop::MappedAddress);

        let whole = Ip::new(A, B).ipv4(6, 0, &[], &data);
        for length in [0, 19, 39] {
            let frame = ethernet(MAC_B, MAC_A, 0x0800, &whole[..length]);
            self.drop_a("cut short", frame, Drop::Malformed);
        }
        for first in [0x44, 0x65] {
            let mut packet = whole.clone();
            packet[0] = first;
            let frame = ethernet(MAC_B, MAC_A, 0x0800, &packet);
            self.drop_a(
                "a header length or version that cannot be",
                frame,
                Drop::Malformed,
            );
        }
        let mut packet = Ip::new(A6, B6).ipv6(6, &data);
        packet[0] = 0x40;
        let frame = ethernet(MAC_B, MAC_A, 0x86dd, &packet);
        self.drop_a("IPv6 with version 4", frame, Drop::Malformed);
        for (proto, payload) in [(17, &udp(1, 2, b"")[..7]), (132, &[0; 11]), (1, &[8; 7])] {
            let frame = from_a(MAC_B, Ip::new(A, B), proto, payload);
            self.drop_a("a cut transport header", frame, Drop::Malformed);
        }
    }

    fn state(&mut self) {
        let ip = Ip::new(A, B);
        for flags in [SYN, SYN | ACK, FIN | ACK, RST] {
            let frame = from_a(MAC_B, ip, 6, &tcp(KNOWN, 80, flags, b""));
            self.ask_a("TCP flags", frame, Ask::TcpState);
        }
        let data = tcp(KNOWN, 80, ACK, b"state");
        for offset in [0x2000, 0x2001, 0x0010] {
            let frame = ethernet(MAC_B, MAC_A, 0x0800, &ip.ipv4(6, offset, &[], &data));
            self.ask_a("a fragment", frame, Ask::Fragment);
        }
        let frame = ethernet(MAC_B, MAC_A, 0x0800, &ip.ipv4(6, 0, &[1; 4], &data));
        self.ask_a("IPv4 options", frame, Ask::Options);
        let ip6 = Ip::new(A6, B6);
        for next in [0, 43, 51, 60, 135, 139, 140] {
            let frame = from_a(MAC_B, ip6, next, &data);
            self.ask_a("an extension header", frame, Ask::Options);
        }
        let frame = from_a(MAC_B, ip6, 44, &data);
        self.ask_a("an IPv6 fragment", frame, Ask::Fragment);
        for kind in [3, 4, 5, 11, 12] {
            let frame = from_a(MAC_B, ip, 1, &icmp(kind, 1, 0));
            self.ask_a("an ICMP error", frame, Ask::IcmpError);
        }
        for kind in [1, 2, 3, 4, 127] {
            let frame = from_a(MAC_B, ip6, 58, &icmp(kind, 0, 0));
            self.ask_a("an ICMPv6 error", frame, Ask::IcmpError);
        }
        for ttl in [0, 1] {
            let last = Ip { ttl, ..ip };
            let frame = from_a(GATEWAY, last, 6, &data);
            self.ask_a("routed with no TTL left", frame, Ask::Ttl);
        }
    }

    fn local(&mut self) {
        let ip = Ip::new(A, B);
        let data = |text: &[u8]| tcp(KNOWN, 80, ACK, text);
        let frame = from_a(MAC_B, ip, 6, &data(b"switched"));
        let out = tagged(VLAN_B, &between(MAC_B, MAC_A, &frame));
        self.add("switched to a tagged port", ONE, frame, Out(TWO, out));

        let other = from_a([2, 9, 9, 9, 9, 9], ip, 6, &data(b"stale MAC"));
        let out = tagged(VLAN_B, &between(MAC_B, MAC_A, &other));
        self.add("a stale MAC is put right", ONE, other, Out(TWO, out));

        let frame = from_a(MAC_B, ip, 6, &data(b"VLAN 0"));
        let out = tagged(VLAN_B, &frame);
        self.add(
            "a priority tag is no VLAN",
            ONE,
            tagged(0, &frame),
            Out(TWO, out),
        );

        let back = from_b(MAC_A, Ip::new(B, A), 6, &tcp(80, KNOWN, ACK, b"back"));
        self.add("back, untagged", TWO, tagged(VLAN_B, &back), Out(ONE, back));

        // All checksums on the way of a TTL, one that wraps around among them.
        for ttl in [2, 3, 64, 128, 255] {
            for tos in [0, 0xb8] {
                let before = from_a(GATEWAY, Ip { ttl, tos, ..ip }, 6, &data(b"routed"));
                let after = Ip {
                    ttl: ttl - 1,
                    tos,
                    ..ip
                };
                let after = from_a(MAC_B, after, 6, &data(b"routed"));
                let out = tagged(VLAN_B, &between(MAC_B, GATEWAY, &after));
                self.add("routed", ONE, before, Out(TWO, out));
            }
        }
        let frame = from_a(MAC_B, Ip { ttl: 1, ..ip }, 6, &data(b"switched with TTL 1"));
        let out = tagged(VLAN_B, &frame);
        self.add("switching leaves the TTL alone", ONE, frame, Out(TWO, out));

        let mut sctp = Vec::from(KNOWN.to_be_bytes());
        sctp.extend([0, 80, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let frame = from_a(MAC_B, ip, 132, &sctp);
        self.add(
            "SCTP has ports",
            ONE,
            frame.clone(),
            Out(TWO, tagged(VLAN_B, &frame)),
        );
        let frame = from_a(MAC_B, ip, 47, b"no ports");
        self.add(
            "GRE has none",
            ONE,
            frame.clone(),
            Out(TWO, tagged(VLAN_B, &frame)),
        );
    }

    fn fences_and_flows(&mut self) {
        let ip = Ip::new(A, B);
        self.ask_a("fenced", from_a(MAC_B, ip, FENCED, b"fenced"), Ask::Fence);
        self.drop_a("shut", from_a(MAC_B, ip, SHUT, b"shut"), Drop::Fence);
        let frame = from_a(MAC_B, Ip::new(A6, B6), FENCED, b"not fenced");
        self.ask_a("not in the fence's region", frame, Ask::NoAcl);
        let flow = |sport, text: &[u8]| from_a(MAC_B, ip, 6, &tcp(sport, 80, ACK, text));
        self.drop_a("denied", flow(DENIED, b"denied"), Drop::Flow);
        self.ask_a(
            "no such next hop",
            flow(TO_NOWHERE, b"nowhere"),
            Ask::NoNexthop,
        );
        self.drop_a(
            "no such device port",
            flow(TO_BAD_EGRESS, b"bad"),
            Drop::BadEgress,
        );
        self.ask_a(
            "next hop 0 decides nothing",
            flow(UNDECIDED, b"zero"),
            Ask::NoAcl,
        );
        // The reply's entry is for port B, and only for it.
        let reply = from_a(MAC_B, Ip::new(A, A), 6, &tcp(80, KNOWN, ACK, b"not B"));
        self.ask_a("another port's flow", reply, Ask::NoAcl);
        let frame = from_a(MAC_B, ip, 1, &icmp(8, 0, ECHO + 1));
        self.ask_a("another echo", frame, Ask::NoAcl);
        let frame = from_a(MAC_B, Ip::new(A, R), 1, &icmp(0, 0, ECHO));
        self.ask_a("the echo's reply is another flow", frame, Ask::NoAcl);
    }

    fn policy(&mut self) {
        let ip = Ip::new(A, B);
        let to = |dport, text: &[u8]| from_a(MAC_B, ip, 17, &udp(1, dport, text));
        let open = to(OPEN, b"open");
        self.add(
            "allowed",
            ONE,
            open.clone(),
            Out(TWO, tagged(VLAN_B, &open)),
        );
        let last = to(CLOSED - 1, b"last");
        self.add(
            "the range's end",
            ONE,
            last.clone(),
            Out(TWO, tagged(VLAN_B, &last)),
        );
        self.drop_a("the first rank wins", to(CLOSED, b"closed"), Drop::Acl);
        self.ask_a("asked", to(ASKED + 9, b"asked"), Ask::Acl);
        self.ask_a("behind the range", to(ASKED + 10, b"behind"), Ask::NoAcl);
        let frame = from_a(MAC_B, ip, 6, &tcp(1, OPEN, ACK, b"another protocol"));
        self.ask_a("another protocol", frame, Ask::NoAcl);
        let far = |dst: [u8; 4]| {
            let payload = udp(1, OPEN, &dst);
            from_a(MAC_B, Ip::new(A, v4(dst)), 17, &payload)
        };
        let frame = far([10, 0, 0, 15]);
        let sport = entropy([(A, 1), (v4([10, 0, 0, 15]), OPEN)], 17);
        let out = sent(&frame, 0, sport);
        self.add("by prefix", ONE, frame, Out(UPLINK, out));
        self.ask_a("no mapping", far([10, 0, 0, 16]), Ask::NoMapping);
        self.ask_a("mapped to nothing", far([10, 0, 1, 1]), Ask::NoNexthop);
    }

    fn rdma(&mut self) {
        let to = |dst, qp| from_a(MAC_B, Ip::new(A, dst), 17, &roce(KNOWN, qp));
        let frame = to(R, QP);
        let sport = entropy([(A, KNOWN), (R, 4791)], 17);
        let out = sent(&frame, 0, sport);
        self.add("a queue pair", ONE, frame, Out(UPLINK, out));
        self.ask_a("another queue pair", to(R, QP + 1), Ask::NoAcl);
        let frame = to(B, 99);
        let out = tagged(VLAN_B, &frame);
        self.add("any queue pair of a pair", ONE, frame, Out(TWO, out));
        self.ask_a("connection management", to(B, 1), Ask::Cm);
        let frame = from_a(MAC_B, Ip::new(A, B), 17, &udp(KNOWN, 4791, &[0; 11]));
        self.drop_a("no BTH", frame, Drop::BadBth);
        let frame = from_a(MAC_B, Ip::new(A, B), 17, &udp(KNOWN, 4791, &[0; 12]));
        self.drop_a("no ICRC", frame, Drop::BadBth);
        let mut bth = [0; 24];
        bth[1] = 1;
        let frame = from_a(MAC_B, Ip::new(A, B), 17, &udp(KNOWN, 4791, &bth));
        self.drop_a("another BTH version", frame, Drop::BadBth);
    }

    fn reinjected(&mut self) {
        let frame = from_a(
            MAC_B,
            Ip::new(A, B),
            6,
            &tcp(KNOWN, 80, SYN, b"re-injected"),
        );
        let wrapped = [&punt::header(TWO)[..], &frame].concat();
        self.add(
            "re-injected as it is",
            CPU_PORT,
            wrapped.clone(),
            Out(TWO, frame.clone()),
        );
        let mut other = wrapped;
        other[3] = 0;
        let dropped = Expected::Drop(Drop::BadReinject);
        self.add("without the envelope", CPU_PORT, other, dropped);
        let nowhere = [&punt::header(512)[..], &frame].concat();
        let dropped = Expected::Drop(Drop::BadEgress);
        self.add("to no device port", CPU_PORT, nowhere, dropped);
        let dropped = Expected::Drop(Drop::BadReinject);
        self.add("too short", CPU_PORT, vec![2; 17], dropped);
    }
}
