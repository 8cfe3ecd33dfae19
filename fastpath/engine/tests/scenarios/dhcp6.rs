//! DHCPv6: who is answered what, and that nobody answers in the gateway's place.

use etherparse::PacketBuilder;
use penstock_flow::{Addr, DropReason};

use super::dhcp::{heard, tagged};
use crate::bed::Bed;
use crate::bed::world::{Place, addr};

const DUID: [u8; 10] = [0, 3, 0, 1, 2, 9, 9, 9, 9, 9];

fn option6(code: u16, value: &[u8]) -> Vec<u8> {
    let mut out = code.to_be_bytes().to_vec();
    out.extend((value.len() as u16).to_be_bytes());
    out.extend(value);
    out
}

fn ia(code: u16, id: u8, addrs: &[Addr]) -> Vec<u8> {
    let mut value = vec![0, 0, 0, id];
    if code != 4 {
        value.extend([0; 8]);
    }
    for addr in addrs {
        let mut body = addr.octets().to_vec();
        body.extend([0; 8]);
        value.extend(option6(5, &body));
    }
    option6(code, &value)
}

fn frame6(from: &Place, src: Addr, dst: Addr, kind: u8, options: &[Vec<u8>]) -> Vec<u8> {
    let mut message = vec![kind, 7, 8, 9];
    message.extend(options.concat());
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(from.mac.0, [0x33, 0x33, 0, 1, 0, 2])
        .ipv6(src.octets(), dst.octets(), 1)
        .udp(546, 547)
        .write(&mut frame, &message)
        .expect("writes");
    tagged(from.vlan, frame)
}

/// Options, in order.
fn options6(mut rest: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        let code = u16::from_be_bytes([rest[0], rest[1]]);
        let len = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        found.push((code, rest[4..4 + len].to_vec()));
        rest = &rest[4 + len..];
    }
    found
}

/// An association: its code, the status in it, and addresses with lifetimes.
type Binding = (u16, Option<u8>, Vec<(Addr, u32)>);

fn bindings(message: &[u8]) -> Vec<Binding> {
    let mut all = Vec::new();
    for (code, value) in options6(&message[4..]) {
        if !matches!(code, 3 | 4 | 25) {
            continue;
        }
        let (mut status, mut addrs) = (None, Vec::new());
        for (code, value) in options6(&value[if code == 4 { 4 } else { 12 }..]) {
            match code {
                13 => status = Some(value[1]),
                5 => {
                    let addr = Addr::from_octets(value[..16].try_into().expect("16"));
                    let valid = u32::from_be_bytes(value[20..24].try_into().expect("4"));
                    addrs.push((addr, valid));
                }
                other => panic!("{other}"),
            }
        }
        all.push((code, status, addrs));
    }
    all
}

#[test]
fn a_port_gets_its_ipv6_addresses() {
    let mut bed = Bed::new();
    let all = addr("ff02::1:2");
    for name in ["a", "b", "y"] {
        let me = bed.place(name);
        let own = me.ip(true);
        let alien = addr("fd00:1::77");
        let link_local = addr("fe80::7");
        let client = option6(1, &DUID);
        let server = option6(2, &[0, 3, 0, 1, 2, 0, 0x5e, 0, 0, 1]);
        let rapid = option6(14, &[]);
        let lease = vec![(own, 3600)];
        // Options beside the client's; answer's type, status of the whole,
        // associations.
        let cases = [
            (
                "solicit",
                1,
                vec![ia(3, 1, &[])],
                2,
                None,
                vec![(3, None, lease.clone())],
            ),
            (
                "rapid",
                1,
                vec![rapid, ia(3, 1, &[])],
                7,
                None,
                vec![(3, None, lease.clone())],
            ),
            (
                "request",
                3,
                vec![server.clone(), ia(3, 1, &[alien])],
                7,
                None,
                vec![(3, None, lease.clone())],
            ),
            (
                "renew",
                5,
                vec![server.clone(), ia(3, 1, &[own, alien])],
                7,
                None,
                vec![(3, None, vec![(own, 3600), (alien, 0)])],
            ),
            (
                "rebind",
                6,
                vec![ia(3, 1, &[own])],
                7,
                None,
                vec![(3, None, lease.clone())],
            ),
            (
                "two",
                1,
                vec![ia(3, 1, &[]), ia(3, 2, &[])],
                2,
                None,
                vec![(3, None, lease.clone()), (3, Some(2), vec![])],
            ),
            (
                "renews two",
                5,
                vec![server.clone(), ia(3, 1, &[]), ia(3, 2, &[])],
                7,
                None,
                vec![(3, None, lease.clone()), (3, Some(3), vec![])],
            ),
            (
                "renews in the second",
                5,
                vec![server.clone(), ia(3, 1, &[]), ia(3, 2, &[own, alien])],
                7,
                None,
                vec![(3, None, lease.clone()), (3, None, vec![(alien, 0)])],
            ),
            (
                "rebinds after a temporary one",
                6,
                vec![ia(4, 1, &[own]), ia(3, 2, &[])],
                7,
                None,
                vec![(4, Some(3), vec![]), (3, None, lease.clone())],
            ),
            (
                "rebinds a temporary one",
                6,
                vec![ia(4, 1, &[own])],
                7,
                None,
                vec![(4, None, vec![(own, 0)])],
            ),
            (
                "temporary",
                1,
                vec![ia(4, 1, &[])],
                2,
                None,
                vec![(4, Some(2), vec![])],
            ),
            (
                "prefix",
                1,
                vec![ia(25, 1, &[])],
                2,
                None,
                vec![(25, Some(6), vec![])],
            ),
            ("confirm", 4, vec![ia(3, 1, &[own])], 7, Some(0), vec![]),
            (
                "confirm",
                4,
                vec![ia(3, 1, &[own, alien])],
                7,
                Some(4),
                vec![],
            ),
            (
                "release",
                8,
                vec![server.clone(), ia(3, 1, &[own])],
                7,
                Some(0),
                vec![],
            ),
            (
                "decline",
                9,
                vec![server, ia(3, 1, &[own])],
                7,
                Some(0),
                vec![],
            ),
            ("inform", 11, vec![], 7, None, vec![]),
        ];
        for (what, kind, mut options, says, status, want) in cases {
            options.push(client.clone());
            for src in [link_local, own] {
                let fate = bed.send(name, &frame6(&me, src, all, kind, &options));
                assert_eq!(fate.at(), name, "{what}: {fate:?}");
                let answer = heard(fate.frame());
                assert_eq!((answer.dst, answer.dst_mac), (src, me.mac.0));
                assert_eq!(answer.message[..4], [says, 7, 8, 9], "{what}");
                assert_eq!(bindings(&answer.message), want, "{what}");
                let found = options6(&answer.message[4..]);
                let value = |code| found.iter().find(|o| o.0 == code).map(|o| &o.1);
                assert_eq!(value(1), Some(&DUID.to_vec()));
                assert!(value(2).is_some());
                assert_eq!(value(13).map(|v| v[1]), status, "{what}");
                assert_eq!(value(14).is_some(), what == "rapid");
            }
        }
    }
}

#[test]
fn dhcpv6_from_or_to_the_wrong_one_is_refused() {
    let mut bed = Bed::new();
    let me = bed.place("a");
    let (all, link_local) = (addr("ff02::1:2"), addr("fe80::7"));
    let client = option6(1, &DUID);
    let server = option6(2, &[0, 3, 0, 1, 9, 9, 9, 9, 9, 9]);
    let spoofed = DropReason::SpoofedNeighbour;
    let unhandled = DropReason::UnhandledControl;
    let malformed = DropReason::Malformed;
    let stolen = bed.place("b").ip(true);
    for (what, src, dst, kind, options, want) in [
        ("source", stolen, all, 1, vec![client.clone()], spoofed),
        (
            "advertises",
            link_local,
            all,
            2,
            vec![client.clone()],
            spoofed,
        ),
        ("replies", link_local, all, 7, vec![client.clone()], spoofed),
        (
            "relays",
            link_local,
            all,
            12,
            vec![client.clone()],
            unhandled,
        ),
        (
            "to another",
            link_local,
            stolen,
            1,
            vec![client.clone()],
            unhandled,
        ),
        ("no client", link_local, all, 1, vec![], malformed),
        (
            "twice",
            link_local,
            all,
            1,
            vec![client.clone(), client.clone()],
            malformed,
        ),
        (
            "no server",
            link_local,
            all,
            3,
            vec![client.clone()],
            malformed,
        ),
        (
            "a server",
            link_local,
            all,
            1,
            vec![client.clone(), server.clone()],
            malformed,
        ),
        (
            "another server",
            link_local,
            all,
            3,
            vec![client.clone(), server],
            unhandled,
        ),
        (
            "nothing",
            link_local,
            all,
            4,
            vec![client.clone()],
            malformed,
        ),
        (
            "asks",
            link_local,
            all,
            11,
            vec![client.clone(), ia(3, 1, &[])],
            malformed,
        ),
        (
            "cut",
            link_local,
            all,
            1,
            vec![client.clone(), vec![0, 3, 0, 9]],
            malformed,
        ),
        (
            "cut inside",
            link_local,
            all,
            1,
            vec![
                client.clone(),
                option6(3, &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0]),
            ],
            malformed,
        ),
    ] {
        let fate = bed.send("a", &frame6(&me, src, dst, kind, &options));
        assert_eq!(fate.reason(), Some(want), "{what}: {fate:?}");
    }
    // More associations than an answer has room for.
    let many: Vec<Vec<u8>> = (0..80).map(|id| ia(3, id, &[])).collect();
    let options = [&[client][..], &many[..]].concat();
    let fate = bed.send("a", &frame6(&me, link_local, all, 1, &options));
    assert_eq!(fate.reason(), Some(DropReason::NoHeadroom));
}
