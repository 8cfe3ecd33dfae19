//! Into tunnels, out of them, and what is no tunnel.

use p4runtime::reason::{Ask, Drop};

use super::Expected::{self, Out};
use super::{Cases, between, from_a, from_b};
use crate::frames::{ACK, FIN, Ip, crc32, ethernet, icmp, tagged, tcp, udp, vxlan};
use crate::tables::*;

/// A frame as it travels the underlay, `sport` included.
fn tunnel(outer: Ip, macs: [[u8; 6]; 2], sport: u16, vni: u32, inner: &[u8]) -> Vec<u8> {
    let payload = udp(sport, 4789, &vxlan(vni, inner));
    let (ether_type, mut packet) = outer.packet(17, &payload);
    if ether_type == 0x0800 {
        // Id 0 and DF, as this program sends it.
        packet = Ip { ..outer }.ipv4(17, 0x4000, &[], &payload);
        packet[4..6].copy_from_slice(&[0, 0]);
        let sum = u16::from_be_bytes([packet[10], packet[11]]);
        let fixed = u32::from(!sum) + u32::from(!0x1234_u16);
        let fixed = !((fixed & 0xffff) as u16 + (fixed >> 16) as u16);
        packet[10..12].copy_from_slice(&fixed.to_be_bytes());
    }
    ethernet(macs[0], macs[1], ether_type, &packet)
}

/// The outer source port of a flow.
pub(super) fn entropy(ends: [(u128, u16); 2], proto: u8) -> u16 {
    let [low, high] = if ends[0] <= ends[1] {
        ends
    } else {
        [ends[1], ends[0]]
    };
    let mut bytes = Vec::new();
    bytes.extend(low.0.to_be_bytes());
    bytes.extend(high.0.to_be_bytes());
    bytes.extend(&VPC.to_be_bytes()[1..]);
    bytes.push(proto);
    bytes.extend(low.1.to_be_bytes());
    bytes.extend(high.1.to_be_bytes());
    0xc000 | (crc32(&bytes) & 0x3fff) as u16
}

/// Outgoing.
pub(super) fn sent(inner: &[u8], tos: u8, sport: u16) -> Vec<u8> {
    let mut outer = Ip::new(HERE, THERE);
    outer.tos = tos;
    tunnel(outer, [MAC_THERE, MAC_HERE], sport, VNI, inner)
}

/// Incoming.
fn received(tos: u8, inner: &[u8]) -> Vec<u8> {
    let mut outer = Ip::new(THERE, HERE);
    outer.tos = tos;
    tunnel(outer, [MAC_HERE, MAC_THERE], 50_000, VNI, inner)
}

impl Cases {
    pub(super) fn outbound(&mut self) {
        let ip = Ip::new(A, R);
        let frame = from_a(MAC_B, ip, 6, &tcp(KNOWN, 80, ACK, b"tunnelled"));
        let sport = entropy([(A, KNOWN), (R, 80)], 6);
        self.add(
            "into an IPv4 tunnel",
            ONE,
            frame.clone(),
            Out(UPLINK, sent(&frame, 0, sport)),
        );

        let before = Ip { tos: 0xba, ..ip };
        let after = Ip { ttl: 63, ..before };
        let frame = from_a(GATEWAY, before, 17, &udp(KNOWN, 80, b"routed"));
        let inner = from_a(GATEWAY, after, 17, &udp(KNOWN, 80, b"routed"));
        let inner = between(GATEWAY, GATEWAY, &inner);
        let sport = entropy([(A, KNOWN), (R, 80)], 17);
        self.add(
            "routed into a tunnel, DSCP and ECN outside",
            ONE,
            frame,
            Out(UPLINK, sent(&inner, 0xba, sport)),
        );

        let echo = from_a(MAC_B, ip, 1, &icmp(8, 0, ECHO));
        let sport = entropy([(A, ECHO), (R, ECHO)], 1);
        self.add(
            "an echo",
            ONE,
            echo.clone(),
            Out(UPLINK, sent(&echo, 0, sport)),
        );

        let echo = from_a(MAC_B, ip, 1, &icmp(0, 0, ECHO + 2));
        let sport = entropy([(A, ECHO + 2), (R, ECHO + 2)], 1);
        self.add(
            "an echo reply",
            ONE,
            echo.clone(),
            Out(UPLINK, sent(&echo, 0, sport)),
        );
        for kind in [128, 129] {
            let echo = from_a(MAC_B, Ip::new(A6, R6), 58, &icmp(kind, 0, ECHO));
            let sport = entropy([(A6, ECHO), (R6, ECHO)], 58);
            let outer = Ip::new(HERE6, THERE6);
            let out = tunnel(outer, [MAC_THERE, MAC_HERE], sport, VNI, &echo);
            self.add("an ICMPv6 echo or its reply", ONE, echo, Out(UPLINK, out));
        }
        let other = from_a(MAC_B, ip, 1, &icmp(13, 0, ECHO));
        let sport = entropy([(A, 0), (R, 0)], 1);
        self.add(
            "ICMP without identifier",
            ONE,
            other.clone(),
            Out(UPLINK, sent(&other, 0, sport)),
        );

        let frame = from_b(MAC_A, Ip::new(B6, R6), 17, &udp(KNOWN, 80, b"IPv6 in IPv6"));
        let sport = entropy([(B6, KNOWN), (R6, 80)], 17);
        let out = tunnel(
            Ip::new(HERE6, THERE6),
            [MAC_THERE, MAC_HERE],
            sport,
            VNI,
            &frame,
        );
        self.add(
            "into an IPv6 tunnel, the tag taken off",
            TWO,
            tagged(VLAN_B, &frame),
            Out(UPLINK, out),
        );

        // 20 + 8 + payload.
        let fits = from_a(MAC_B, ip, 17, &udp(KNOWN, 80, &[7; MTU as usize - 28]));
        let sport = entropy([(A, KNOWN), (R, 80)], 17);
        self.add(
            "just fits",
            ONE,
            fits.clone(),
            Out(UPLINK, sent(&fits, 0, sport)),
        );
        let big = from_a(MAC_B, ip, 17, &udp(KNOWN, 80, &[7; MTU as usize - 27]));
        self.ask_a("one byte too big", big, Ask::TooBig);
        // 40 + 8 + payload, and a tag that does not count.
        let six = |more| {
            let payload = udp(KNOWN, 80, &vec![7; MTU as usize - 48 + more]);
            from_b(MAC_A, Ip::new(B6, R6), 17, &payload)
        };
        let sport = entropy([(B6, KNOWN), (R6, 80)], 17);
        let outer = Ip::new(HERE6, THERE6);
        let out = tunnel(outer, [MAC_THERE, MAC_HERE], sport, VNI, &six(0));
        self.add(
            "just fits, tagged",
            TWO,
            tagged(VLAN_B, &six(0)),
            Out(UPLINK, out),
        );
        let ask = Expected::Ask(Ask::TooBig, PORT_B, VPC);
        self.add(
            "one byte too big, tagged",
            TWO,
            tagged(VLAN_B, &six(1)),
            ask,
        );

        let frame = from_a(GATEWAY, Ip::new(A, F), 17, &udp(KNOWN, 80, b"front-end"));
        let out = Ip {
            ttl: 63,
            ..Ip::new(A, F)
        };
        let out = from_a(GATEWAY, out, 17, &udp(KNOWN, 80, b"front-end"));
        let out = between(MAC_BEHIND, MAC_FRONT, &out);
        self.add("to the front-end", ONE, frame, Out(FRONT_END, out));

        // A tenant's own VXLAN is payload: between A and R it is an unknown flow,
        // and no way into another VPC.
        let inner = from_a(MAC_A, Ip::new(R, A), 6, &tcp(80, KNOWN, ACK, b"forged"));
        let frame = from_a(
            MAC_B,
            Ip::new(A, HERE),
            17,
            &udp(50_000, 4789, &vxlan(VNI, &inner)),
        );
        self.ask_a("a tenant's VXLAN", frame, Ask::NoAcl);
        let cut = udp(50_000, 4789, &vxlan(VNI, &inner[..20]));
        let frame = from_a(MAC_B, Ip::new(A, B), 17, &cut);
        self.ask_a("a tenant's cut VXLAN is no error", frame, Ask::NoAcl);
    }

    pub(super) fn inbound(&mut self) {
        // The far gateway's MACs do not matter.
        let inner = |dst, proto, payload: &[u8], tos| {
            let mut ip = Ip::new(R, dst);
            ip.tos = tos;
            let (ether_type, packet) = ip.packet(proto, payload);
            ethernet(GATEWAY, GATEWAY, ether_type, &packet)
        };
        let data = |text: &[u8]| tcp(80, KNOWN, ACK, text);
        let frame = inner(A, 6, &data(b"to A"), 0);
        let out = between(MAC_A, GATEWAY, &frame);
        self.add(
            "out of a tunnel",
            UPLINK,
            received(0, &frame),
            Out(ONE, out),
        );
        let frame = inner(B, 17, &udp(80, KNOWN, b"to B"), 0);
        let out = tagged(VLAN_B, &between(MAC_B, GATEWAY, &frame));
        self.add(
            "out of a tunnel into a VLAN",
            UPLINK,
            received(0, &frame),
            Out(TWO, out),
        );
        let frame = inner(F, 17, &udp(80, KNOWN, b"to F"), 0);
        let out = between(MAC_BEHIND, MAC_FRONT, &frame);
        self.add(
            "out of a tunnel to the front-end",
            UPLINK,
            received(0, &frame),
            Out(FRONT_END, out),
        );
        let (_, packet) = Ip::new(R6, B6).packet(17, &udp(80, KNOWN, b"IPv6"));
        let frame = ethernet(GATEWAY, GATEWAY, 0x86dd, &packet);
        let outer = Ip::new(THERE6, HERE6);
        let wire = tunnel(outer, [MAC_HERE, MAC_THERE], 50_000, VNI, &frame);
        let out = tagged(VLAN_B, &between(MAC_B, GATEWAY, &frame));
        self.add("out of an IPv6 tunnel", UPLINK, wire, Out(TWO, out));

        // Congestion marks move inside where the sender understands them.
        for ecn in [1, 2, 3] {
            let text = [b'0' + ecn];
            let frame = inner(A, 6, &data(&text), 0xb8 | ecn);
            let out = between(MAC_A, GATEWAY, &inner(A, 6, &data(&text), 0xbb));
            self.add(
                "a mark moves inside",
                UPLINK,
                received(0xb8 | 3, &frame),
                Out(ONE, out),
            );
        }
        for ecn in [0, 1, 2] {
            let text = [b'5' + ecn];
            let frame = inner(A, 6, &data(&text), 0xb8);
            let out = between(MAC_A, GATEWAY, &frame);
            self.add(
                "no mark, no change",
                UPLINK,
                received(ecn, &frame),
                Out(ONE, out),
            );
        }
        let mut ip = Ip::new(R6, B6);
        ip.tos = 2;
        let (_, packet) = ip.packet(17, &udp(80, KNOWN, b"marked"));
        let frame = ethernet(GATEWAY, GATEWAY, 0x86dd, &packet);
        ip.tos = 3;
        let (_, packet) = ip.packet(17, &udp(80, KNOWN, b"marked"));
        let out = tagged(VLAN_B, &ethernet(MAC_B, GATEWAY, 0x86dd, &packet));
        self.add("and into IPv6", UPLINK, received(3, &frame), Out(TWO, out));
        let frame = inner(A, 6, &data(b"marked"), 0xb8);
        self.add(
            "a mark that nobody would understand",
            UPLINK,
            received(3, &frame),
            Expected::Drop(Drop::Congested),
        );

        let frame = inner(R, 17, &udp(80, KNOWN, b"back to the wire"), 0);
        let ask = Expected::Ask(Ask::WireToWire, 0, VPC);
        self.add("from wire to wire", UPLINK, received(0, &frame), ask);
        let frame = inner(A, 47, b"no ports, and none of the tunnel's", 0);
        let out = between(MAC_A, GATEWAY, &frame);
        self.add(
            "GRE out of a tunnel",
            UPLINK,
            received(0, &frame),
            Out(ONE, out),
        );
        let frame = inner(A, 17, &udp(1, 2, b"unknown"), 0);
        let ask = Expected::Ask(Ask::NoAcl, 0, VPC);
        self.add(
            "an unknown flow, outer headers and all",
            UPLINK,
            received(0, &frame),
            ask,
        );
        let frame = inner(A, 6, &tcp(80, KNOWN, FIN | ACK, b""), 0);
        let ask = Expected::Ask(Ask::TcpState, 0, VPC);
        self.add("a FIN from the wire", UPLINK, received(0, &frame), ask);
        let frame = inner(A, 17, &udp(1, OPEN, b"open"), 0);
        let out = between(MAC_A, GATEWAY, &frame);
        self.add(
            "statelessly open",
            UPLINK,
            received(0, &frame),
            Out(ONE, out),
        );
        let frame = inner(A, 17, &udp(1, CLOSED, b"other direction"), 0);
        let ask = Expected::Ask(Ask::NoAcl, 0, VPC);
        self.add(
            "a rule for the other direction",
            UPLINK,
            received(0, &frame),
            ask,
        );
    }

    pub(super) fn bad_tunnels(&mut self) {
        let inner = from_a(MAC_A, Ip::new(R, A), 6, &tcp(80, KNOWN, ACK, b"bad tunnel"));
        let macs = [MAC_HERE, MAC_THERE];
        let outer = Ip::new(THERE, HERE);
        let dropped = |reason| Expected::Drop(reason);
        let unknown = [
            tunnel(outer, macs, 1, VNI + 1, &inner),
            tunnel(Ip::new(THERE + 1, HERE), macs, 1, VNI, &inner),
            tunnel(Ip::new(THERE, HERE + 1), macs, 1, VNI, &inner),
        ];
        for frame in unknown {
            self.add(
                "an unknown tunnel",
                UPLINK,
                frame,
                dropped(Drop::NoUnderlay),
            );
        }
        let mut frame = tunnel(outer, macs, 1, VNI, &inner);
        frame[14 + 20 + 8] = 0;
        self.add("VXLAN without VNI", UPLINK, frame, dropped(Drop::BadTunnel));
        let frame = tunnel(outer, macs, 1, VNI, &tagged(1, &inner));
        self.add(
            "a tagged inner frame",
            UPLINK,
            frame,
            dropped(Drop::BadTunnel),
        );
        let frame = tunnel(outer, macs, 1, VNI, &inner[..13]);
        self.add("a cut inner frame", UPLINK, frame, dropped(Drop::BadTunnel));
        let frame = tunnel(outer, macs, 1, VNI, &inner[..30]);
        self.add(
            "a cut inner packet",
            UPLINK,
            frame,
            dropped(Drop::Malformed),
        );
        let frame = tunnel(
            outer,
            macs,
            1,
            VNI,
            &ethernet(MAC_A, MAC_B, 0x88cc, &[0; 40]),
        );
        self.add("no IP inside", UPLINK, frame, dropped(Drop::NotIp));
        let (_, packet) = outer.packet(17, &udp(1, 4790, &vxlan(VNI, &inner)));
        let frame = ethernet(MAC_HERE, MAC_THERE, 0x0800, &packet);
        self.add("another UDP port", UPLINK, frame, dropped(Drop::NotTunnel));
        let frame = ethernet(MAC_HERE, MAC_THERE, 0x88cc, &[0; 40]);
        self.add("no IP outside", UPLINK, frame, dropped(Drop::NotTunnel));
        let mapped = outer.ipv6(17, &udp(1, 4789, &vxlan(VNI, &inner)));
        let frame = ethernet(MAC_HERE, MAC_THERE, 0x86dd, &mapped);
        self.add(
            "an IPv4 VTEP in an IPv6 coat",
            UPLINK,
            frame,
            dropped(Drop::MappedAddress),
        );

        let ask = || Expected::Ask(Ask::Underlay, 0, 0);
        let frame = ethernet([0xff; 6], MAC_THERE, 0x0806, &[0; 28]);
        self.add("ARP for the VTEP", UPLINK, frame, ask());
        let (_, packet) = outer.packet(1, &icmp(3, 4, 0));
        let frame = ethernet(MAC_HERE, MAC_THERE, 0x0800, &packet);
        self.add("ICMP for the VTEP", UPLINK, frame, ask());
        let (_, packet) = Ip::new(THERE6, HERE6).packet(58, &icmp(135, 0, 0));
        let frame = ethernet(MAC_HERE, MAC_THERE, 0x86dd, &packet);
        self.add("ND for the VTEP", UPLINK, frame, ask());
    }
}
