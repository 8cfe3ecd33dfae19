//! Kernels that begin with an MTU of 1500, over an underlay of 1500 or less: they
//! learn what fits, and nothing is lost.

use std::time::Duration;

use penstock_integration::bed::run;
use penstock_integration::lab::{Lab, NodeSpec, SOON, Underlay, can_run};

use crate::binaries;
use crate::mesh::{documents, plug, rules};

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
const BLOB: usize = 10_000_000;

#[test]
fn ten_megabytes_over_1500_bytes_of_ipv4() {
    transfer(false, None, 1450);
}

#[test]
fn ten_megabytes_over_1500_bytes_of_ipv6() {
    transfer(true, None, 1430);
}

#[test]
fn ten_megabytes_through_a_narrower_ipv4_router() {
    transfer(false, Some(1400), 1350);
}

#[test]
fn ten_megabytes_through_a_narrower_ipv6_router() {
    transfer(true, Some(1400), 1330);
}

/// HTTP from one node to the other over both families inside; `learnt` is what the
/// server's kernel then knows of the way.
fn transfer(v6: bool, routed: Option<u16>, learnt: u16) {
    if !can_run(binaries()) {
        return;
    }
    let underlay = Underlay {
        v6,
        mtu: 1500,
        routed,
    };
    let mut lab = Lab::over("pm", binaries(), &NODES, underlay).expect("a lab");
    lab.start(|_, _| "").expect("starts");
    let places = [plug(&mut lab, 0, 0, 1), plug(&mut lab, 1, 1, 1)];
    let [server, client] = &places;
    let www = lab.file("www");
    std::fs::create_dir_all(&www).expect("a folder");
    std::fs::write(www.join("blob"), noise(BLOB)).expect("the file");
    let www = www.display().to_string();
    let serve = [
        "python3",
        "-u",
        "-m",
        "http.server",
        "--bind",
        "::",
        "--directory",
        &www,
        "80",
    ];
    let serve = serve.map(str::to_owned);
    lab.spawn(&server.ns, "http", &serve).expect("starts");
    let policy = lab.node_documents() + &documents(&places, &["n0", "n1"], &rules(80));
    lab.apply(&policy).expect("programmed");

    // The document is accepted, and what does not fit is said where it can be read.
    let overhead = if v6 { 70 } else { 50 };
    let arithmetic = format!("1500 + {overhead} > underlay MTU 1500 of NIC 1 of nodes/n");
    for name in [
        "nodes/n0",
        "nodes/n1",
        "tenants/blue/vpcs/main/subnets/main",
    ] {
        let shown = lab
            .penstock()
            .json(&["get", name])
            .expect("is there")
            .to_string();
        assert!(shown.contains("MtuTooSmall"), "{shown}");
        assert!(shown.contains(&arithmetic), "{shown}");
    }

    for address in [server.v4(), server.v6()] {
        let url = format!("http://{address}/blob");
        let url = if address.contains(':') {
            format!("http://[{address}]/blob")
        } else {
            url
        };
        let file = lab.file("got").display().to_string();
        let script = format!(
            "curl -sS --retry 9 --retry-connrefused --retry-delay 1 --max-time 50 -o {file} \"{url}\" \
             && cmp {file} {www}/blob && rm {file}"
        );
        let command = ["ip", "netns", "exec", client.ns.name(), "sh", "-c", &script];
        let done = run(&command, SOON + Duration::from_secs(30)).expect("ends");
        let failure = done
            .success(&command)
            .err()
            .map(|error| format!("{error:#}"));
        assert_eq!(failure, None, "{}\n{}", lab.tail("n0"), lab.tail("n1"));
    }
    for address in [client.v4(), client.v6()] {
        let route = server
            .ns
            .run(&["ip", "route", "get", &address])
            .expect("a route");
        assert!(route.contains(&format!("mtu {learnt}")), "{route}");
    }
    lab.check_alive().expect("all run");
}

/// Bytes that no other place of the file has.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
