//! Captures of the underlay.

use crate::frames::{ACK, End, GATEWAY, L4, SYN, frame, mac, tunnelled};
use crate::site::{Capture, MS, options, replay};

const A: [u8; 4] = [192, 0, 2, 1];
const B: [u8; 4] = [192, 0, 2, 2];

#[track_caller]
fn assert_replay(capture: &Capture, expected: &[&str]) {
    let lines = replay(capture, options()).unwrap();
    assert_eq!(lines, expected, "\n{}", lines.join("\n"));
}

/// Both nodes know the connection: each frame has passed its sender's.
#[test]
fn a_connection_is_known_at_both_ends() {
    let web: End<'_> = (mac(1), "10.0.0.11", 80);
    let client: End<'_> = (mac(2), "10.0.0.12", 40_000);
    let tcp = |from, to, flags, seq, ack| frame(from, to, 0, 64, L4::Tcp(flags, seq, ack), 0);
    let capture = vec![
        (0, tunnelled(B, A, 100, &tcp(client, web, SYN, 1000, 0))),
        (
            MS,
            tunnelled(A, B, 100, &tcp(web, client, SYN | ACK, 5000, 1001)),
        ),
        (
            2 * MS,
            tunnelled(B, A, 100, &tcp(client, web, ACK, 1001, 5001)),
        ),
        (
            3 * MS,
            tunnelled(B, A, 100, &tcp(client, web, ACK, 1001, 5001)),
        ),
        (
            4 * MS,
            tunnelled(A, B, 100, &tcp(web, client, ACK, 5001, 1001)),
        ),
    ];
    assert_replay(
        &capture,
        &[
            "1 0 forwarded | b software; client allows Egress by client/rules/http syn_sent | a software; web allows Ingress by web/rules/http syn_sent",
            "2 1 forwarded | a software; web allows Ingress by web/rules/http syn_received | b software; client allows Egress by client/rules/http syn_received",
            "3 2 forwarded | b software; client allows Egress by client/rules/http established | a software; web allows Ingress by web/rules/http established",
            "4 3 forwarded | b nic; client allows Egress by client/rules/http established | a nic; web allows Ingress by web/rules/http established",
            "5 4 forwarded | a nic; web allows Ingress by web/rules/http established | b nic; client allows Egress by client/rules/http established",
            r#"5 {"forwarded": 5} {} left ["nodes/a 1", "nodes/b 1"]"#,
        ],
    );
}

/// What had been routed has the gateway's MAC; what had a tag on its interface has none.
#[test]
fn senders_are_found_behind_the_gateway_and_their_tags() {
    let far: End<'_> = (mac(3), "10.0.9.13", 7);
    let client: End<'_> = (GATEWAY, "10.0.0.12", 40_000);
    let routed = frame(client, far, 0, 63, L4::Udp, 8);
    let tagged = frame(
        (mac(4), "10.0.0.14", 7),
        (mac(2), "10.0.0.12", 9),
        0,
        64,
        L4::Udp,
        8,
    );
    let capture = vec![
        (0, tunnelled(B, A, 100, &routed)),
        (MS, tunnelled(A, B, 100, &tagged)),
    ];
    assert_replay(
        &capture,
        &[
            "1 0 forwarded | b software; client allows Egress by client/rules/udp unreplied | a software; far allows Ingress by far/rules/from-all unreplied",
            "2 1 dropped | a software; tagged allows Egress by far/rules/to-all unreplied | b denied_ingress; client denies Ingress by - -",
            r#"2 {"dropped": 1, "forwarded": 1} {"denied_ingress": 1} left ["nodes/a 2", "nodes/b 1"]"#,
        ],
    );
}

#[test]
fn tunnels_that_nobody_has_lead_nowhere() {
    let inner = frame(
        (mac(2), "10.0.0.12", 1),
        (mac(1), "10.0.0.11", 80),
        0,
        64,
        L4::Tcp(SYN, 1, 0),
        0,
    );
    let twin: End<'_> = (mac(9), "10.0.0.19", 1);
    let elsewhere = frame(twin, (mac(2), "10.0.0.12", 9), 0, 64, L4::Udp, 8);
    let ping = frame(
        (mac(99), "192.0.2.99", 1),
        (mac(98), "192.0.2.1", 0),
        0,
        64,
        L4::Ping,
        8,
    );
    let capture = vec![
        // Of another VPC; from a VTEP that is not; from one that has not that source.
        (0, tunnelled(B, A, 200, &inner)),
        (MS, tunnelled([192, 0, 2, 77], A, 100, &inner)),
        (2 * MS, tunnelled(A, B, 100, &elsewhere)),
        // What would go back to where it came from.
        (2 * MS, tunnelled(A, B, 100, &inner)),
        // To nobody's VTEP.
        (3 * MS, tunnelled(B, [192, 0, 2, 77], 100, &inner)),
        (4 * MS, ping),
    ];
    assert_replay(
        &capture,
        &[
            "1 0 dropped | a unknown_tunnel",
            "2 1 dropped | a unknown_tunnel",
            "3 2 dropped | b wrong_vtep",
            "4 2 dropped | b reflected",
            "5 3 not from a port",
            "6 4 answered | a answered",
            r#"6 {"answered": 1, "dropped": 4, "not from a port": 1} {"reflected": 1, "unknown_tunnel": 2, "wrong_vtep": 1} left ["nodes/a 0", "nodes/b 0"]"#,
        ],
    );
}
