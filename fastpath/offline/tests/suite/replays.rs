//! Captures of hosts' interfaces, as tables.

use penstock_offline::capture::Captured;
use penstock_offline::replay::{Replay, ReplayError};

use crate::frames::{ACK, End, GATEWAY, L4, RST, SYN, arp, frame, mac};
use crate::site::{Capture, MS, in_vpc, line, model, options, replay};

const WEB: End<'_> = (mac(1), "10.0.0.11", 80);
const CLIENT: End<'_> = (mac(2), "10.0.0.12", 40_000);

fn tcp(from: End<'_>, to: End<'_>, flags: u8, seq: u32, ack: u32) -> Vec<u8> {
    frame(from, to, 0, 64, L4::Tcp(flags, seq, ack), 0)
}

/// SYN, SYN-ACK, ACK and data both ways.
fn talk(at: u64, a: End<'_>, b: End<'_>) -> Capture {
    let data = |from, to, seq, ack| frame(from, to, 0, 64, L4::Tcp(ACK, seq, ack), 100);
    vec![
        (at, tcp(a, b, SYN, 1000, 0)),
        (at + MS, tcp(b, a, SYN | ACK, 5000, 1001)),
        (at + 2 * MS, tcp(a, b, ACK, 1001, 5001)),
        (at + 3 * MS, data(a, b, 1001, 5001)),
        (at + 4 * MS, data(b, a, 5001, 1101)),
    ]
}

#[track_caller]
fn assert_replay(capture: &Capture, expected: &[&str]) {
    let lines = replay(capture, options()).unwrap();
    assert_eq!(lines, expected, "\n{}", lines.join("\n"));
}

#[test]
fn a_connection_between_two_nodes_goes_into_the_nic_and_ends() {
    let mut capture = talk(0, CLIENT, WEB);
    capture.push((20 * MS, tcp(CLIENT, WEB, RST | ACK, 1101, 5101)));
    assert_replay(
        &capture,
        &[
            "1 0 forwarded | b software; client allows Egress by client/rules/http syn_sent | a software; web allows Ingress by web/rules/http syn_sent",
            "2 1 forwarded | a software; web allows Ingress by web/rules/http syn_received | b software; client allows Egress by client/rules/http syn_received",
            "3 2 forwarded | b software; client allows Egress by client/rules/http established | a software; web allows Ingress by web/rules/http established",
            "4 3 forwarded | b nic; client allows Egress by client/rules/http established | a nic; web allows Ingress by web/rules/http established",
            "5 4 forwarded | a nic; web allows Ingress by web/rules/http established | b nic; client allows Egress by client/rules/http established",
            "6 20 forwarded | b software; client allows Egress by client/rules/http reset | a software; web allows Ingress by web/rules/http reset",
            r#"6 {"forwarded": 6} {} left ["nodes/a 1", "nodes/b 1"]"#,
        ],
    );
}

#[test]
fn each_way_to_be_refused_has_its_reason() {
    let at = |mac: [u8; 6], ip| (mac, ip, 5);
    let capture = vec![
        // No rule of the client's.
        (0, tcp(CLIENT, (mac(1), "10.0.0.11", 82), SYN, 1, 0)),
        // One of the client's, none of the web's.
        (MS, tcp(CLIENT, (mac(1), "10.0.0.11", 81), SYN, 1, 0)),
        // Of no connection.
        (2 * MS, tcp(CLIENT, WEB, ACK, 1, 1)),
        // Its MAC, not its address; neither.
        (3 * MS, tcp(at(mac(2), "10.0.0.99"), WEB, SYN, 1, 0)),
        (4 * MS, tcp(at(mac(77), "10.0.0.12"), WEB, SYN, 1, 0)),
        // Nobody has it.
        (5 * MS, tcp(CLIENT, (mac(1), "10.0.0.98", 80), SYN, 1, 0)),
        // Nonsense, and too short to be anything.
        (6 * MS, [mac(1), mac(2)].concat()),
        (7 * MS, vec![1, 2, 3]),
        // VLANs tell ports apart that share an interface.
        (
            8 * MS,
            frame((mac(4), "10.0.0.14", 9), WEB, 7, 64, L4::Udp, 9),
        ),
        (
            9 * MS,
            frame((mac(4), "10.0.0.14", 9), WEB, 0, 64, L4::Udp, 9),
        ),
    ];
    assert_replay(
        &capture,
        &[
            "1 0 dropped | b denied_egress; client denies Egress by - -",
            "2 1 dropped | b software; client allows Egress by client/rules/http syn_sent | a denied_ingress; web denies Ingress by - -",
            "3 2 dropped | b invalid_state",
            "4 3 not from a port | b spoofed",
            "5 4 not from a port",
            "6 5 dropped | b no_route",
            "7 6 dropped | b truncated",
            "8 7 not from a port",
            "9 8 dropped | a denied_ingress; tagged allows Egress by far/rules/to-all -; web denies Ingress by - -",
            "10 9 not from a port",
            r#"10 {"dropped": 6, "not from a port": 4} {"denied_egress": 1, "denied_ingress": 2, "invalid_state": 1, "no_route": 1, "truncated": 1} left ["nodes/a 0", "nodes/b 1"]"#,
        ],
    );
}

#[test]
fn the_gateway_answers() {
    let far = (GATEWAY, "10.0.9.13", 7);
    let capture = vec![
        (0, arp(mac(2), [10, 0, 0, 12], [10, 0, 0, 1])),
        (MS, arp(mac(2), [10, 0, 0, 12], [10, 0, 0, 11])),
        (2 * MS, arp(mac(2), [10, 0, 0, 12], [10, 0, 0, 99])),
        (3 * MS, arp(mac(2), [10, 0, 0, 66], [10, 0, 0, 1])),
        (4 * MS, arp(mac(2), [10, 0, 0, 12], [10, 0, 0, 12])),
        (
            5 * MS,
            frame(CLIENT, (GATEWAY, "10.0.0.1", 0), 0, 64, L4::Ping, 8),
        ),
        (6 * MS, frame(CLIENT, far, 0, 1, L4::Udp, 8)),
        (7 * MS, frame(CLIENT, far, 0, 64, L4::Udp, 8)),
        (8 * MS, frame(CLIENT, far, 0, 64, L4::Udp, 1540)),
    ];
    assert_replay(
        &capture,
        &[
            "1 0 answered | b answered",
            "2 1 answered | b answered",
            "3 2 dropped | b unknown_neighbour",
            "4 3 not from a port | b spoofed_neighbour",
            "5 4 consumed | b",
            "6 5 answered | b answered",
            "7 6 answered | b answered",
            "8 7 forwarded | b software; client allows Egress by client/rules/udp unreplied | a software; far allows Ingress by far/rules/from-all unreplied",
            "9 8 answered | b answered; client allows Egress by client/rules/udp unreplied",
            r#"9 {"answered": 5, "consumed": 1, "dropped": 1, "forwarded": 1, "not from a port": 1} {"unknown_neighbour": 1} left ["nodes/a 1", "nodes/b 1"]"#,
        ],
    );
}

#[test]
fn timers_run_between_packets() {
    let udp = |from, to| frame(from, to, 0, 64, L4::Udp, 8);
    let far = (GATEWAY, "10.0.9.13", 7);
    let back: End<'_> = (mac(3), "10.0.9.13", 7);
    let hour = 3_600_000 * MS;
    let capture = vec![
        (0, udp(CLIENT, far)),
        (MS, udp(back, (GATEWAY, CLIENT.1, CLIENT.2))),
        // Long after it has been forgotten: the echo opens one of its own, and may not.
        (hour, udp(back, (GATEWAY, CLIENT.1, CLIENT.2))),
        // Days later neighbours are known still.
        (100 * hour, udp(CLIENT, far)),
    ];
    assert_replay(
        &capture,
        &[
            "1 0 forwarded | b software; client allows Egress by client/rules/udp unreplied | a software; far allows Ingress by far/rules/from-all unreplied",
            "2 1 forwarded | a software; far allows Ingress by far/rules/from-all replied | b software; client allows Egress by client/rules/udp replied",
            "3 3600000 dropped | a software; far allows Egress by far/rules/to-all unreplied | b denied_ingress; client denies Ingress by - -",
            "4 360000000 forwarded | b software; client allows Egress by client/rules/udp unreplied | a software; far allows Ingress by far/rules/from-all unreplied",
            r#"4 {"dropped": 1, "forwarded": 3} {"denied_ingress": 1} left ["nodes/a 1", "nodes/b 1"]"#,
        ],
    );
}

#[test]
fn fragments_wait_for_the_first_one() {
    let whole = frame(CLIENT, (GATEWAY, "10.0.9.13", 7), 0, 64, L4::Udp, 1200);
    let piece = |id: u8, from: usize, to: usize, more: bool| {
        let mut piece = whole[..34].to_vec();
        piece.extend(&whole[34 + from..34 + to]);
        let len = (20 + to - from) as u16;
        piece[16..18].copy_from_slice(&len.to_be_bytes());
        piece[19] = id;
        let offset = (from / 8) as u16 | u16::from(more) << 13;
        piece[20..22].copy_from_slice(&offset.to_be_bytes());
        piece[24..26].fill(0);
        let mut sum: u32 = (14..34)
            .step_by(2)
            .map(|i| u32::from(u16::from_be_bytes([piece[i], piece[i + 1]])))
            .sum();
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        piece[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        piece
    };
    let capture = vec![
        (0, piece(1, 800, 1208, false)),
        (5 * MS, piece(1, 0, 800, true)),
        (6 * MS, piece(2, 800, 1208, false)),
    ];
    assert_replay(
        &capture,
        &[
            "1 0 waiting | b",
            "2 5 forwarded | b software; client allows Egress by client/rules/udp unreplied | a software; far allows Ingress by far/rules/from-all unreplied",
            "1 5 forwarded | b software | a software (it has waited for the first fragment of its packet)",
            "3 6 waiting | b",
            "3 1007 dropped | b fragment_timeout (it has waited for the first fragment of its packet)",
            r#"3 {"dropped": 1, "forwarded": 2} {"fragment_timeout": 1} left ["nodes/a 1", "nodes/b 1"]"#,
        ],
    );
}

#[test]
fn who_sends_what_two_ports_send_must_say_whose_it_is() {
    let twin = (mac(9), "10.0.0.19", 1);
    let capture = vec![
        (
            0,
            frame(CLIENT, (mac(9), "10.0.0.19", 7), 0, 64, L4::Udp, 1),
        ),
        (MS, frame(twin, WEB, 0, 64, L4::Tcp(SYN, 1, 0), 1)),
    ];
    match replay(&capture, options()) {
        Err(error @ ReplayError::Ambiguous { .. }) => assert_eq!(
            error.to_string(),
            "packet 2 can come from each of tenants/t/vpcs/v/ports/twin, \
             tenants/t/vpcs/w/ports/twin: they have the same MAC and address; choose a VPC"
        ),
        other => panic!("{other:?}"),
    }
    let of = |vpc| replay(&capture, in_vpc(vpc)).unwrap();
    assert_eq!(
        of("tenants/t/vpcs/v"),
        [
            "1 0 forwarded | b software; client allows Egress by client/rules/udp unreplied; twin allows Ingress by far/rules/from-all unreplied",
            "2 1 forwarded | b software; twin allows Egress by far/rules/to-all syn_sent | a software; web allows Ingress by web/rules/http syn_sent",
            r#"2 {"forwarded": 2} {} left ["nodes/a 1", "nodes/b 3"]"#,
        ]
    );
    assert_eq!(
        of("tenants/t/vpcs/w"),
        [
            "1 0 not from a port",
            "2 1 dropped | a no_route",
            r#"2 {"dropped": 1, "not from a port": 1} {"no_route": 1} left ["nodes/a 0"]"#
        ]
    );
    let none = replay(&capture, in_vpc("tenants/t/vpcs/x"));
    assert!(matches!(none, Err(ReplayError::NoVpc(_))), "{none:?}");
}

#[test]
fn what_a_capture_lacks_is_said() {
    let model = model();
    let mut run = Replay::new(&model, options()).unwrap();
    let syn = tcp(CLIENT, WEB, SYN, 1000, 0);
    let mut lines = Vec::new();
    let mut put = |time, data: &[u8]| {
        let packet = Captured {
            time,
            length: 1500,
            data,
        };
        for record in run.packet(&packet).unwrap() {
            lines.push(line(&run, &record));
        }
    };
    put(None, &syn);
    put(Some(77), &syn[..30]);
    put(Some(76), &syn);
    put(Some(75), &syn);
    put(None, &syn);
    assert_eq!(
        lines,
        [
            "1 0 forwarded | b software; client allows Egress by client/rules/http syn_sent | a software; web allows Ingress by web/rules/http syn_sent (the capture has no time for this packet: it has the time of the one before it, and so have all others without) (truncated in the capture: 54 of 1500 bytes are there, and are judged as they are)",
            "2 0 dropped | b truncated (truncated in the capture: 30 of 1500 bytes are there, and are judged as they are)",
            "3 0 forwarded | b software; client allows Egress by client/rules/http syn_sent | a software; web allows Ingress by web/rules/http syn_sent (time runs backwards by 1 ns: the clock stands still until the capture is past it, here and whenever it does so again) (truncated in the capture: 54 of 1500 bytes are there, and are judged as they are)",
            "4 0 forwarded | b software; client allows Egress by client/rules/http syn_sent | a software; web allows Ingress by web/rules/http syn_sent (truncated in the capture: 54 of 1500 bytes are there, and are judged as they are)",
            "5 0 forwarded | b software; client allows Egress by client/rules/http syn_sent | a software; web allows Ingress by web/rules/http syn_sent (truncated in the capture: 54 of 1500 bytes are there, and are judged as they are)",
        ],
        "\n{}",
        lines.join("\n")
    );
    assert_eq!((run.summary().cut, run.summary().clamped), (5, 2));
}
