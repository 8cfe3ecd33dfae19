//! Real DHCP clients, and the kernel's own router discovery, on a port that policy
//! closes for everything else.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use penstock_integration::bed::{Interrupt, Workload, eventually, run};
use penstock_integration::lab::{Lab, NodeSpec, SOON, can_run};

use crate::binaries;

const NODES: [NodeSpec; 1] = [NodeSpec {
    name: "n0",
    nics: 1,
}];
const POLICY: &str = "kind: Tenant\nname: tenants/blue\n---\n\
    kind: Vpc\nname: tenants/blue/vpcs/main\nspec: {vni: 1001, cidrs: [10.0.0.0/16, \"fd00:10::/48\"]}\n---\n\
    kind: Subnet\nname: tenants/blue/vpcs/main/subnets/main\nspec: {cidrs: [10.0.0.0/24, \"fd00:10::/64\"], mtu: 1400}\n---\n\
    kind: SecurityGroup\nname: tenants/blue/vpcs/main/securityGroups/closed\nspec: {directions: [INGRESS, EGRESS]}\n---\n\
    kind: Port\nname: tenants/blue/vpcs/main/ports/p0\nspec: {subnet: main, node: n0, attachment: p0, \
    mac: \"02:00:00:00:01:10\", ips: [10.0.0.16, \"fd00:10::10\"], securityGroups: [closed]}\n";

/// Runs a client, whose script says what it was told; `None`: it is not installed.
fn ask(lab: &Lab, at: &Workload, client: &[&str], script: &str) -> Option<String> {
    let here = ["sh", "-c", &format!("command -v {}", client[0])];
    if !run(&here, Duration::from_secs(9))
        .expect("a shell")
        .status
        .success()
    {
        eprintln!("SKIPPED: {} is not installed; run tools/setup", client[0]);
        return None;
    }
    let file = lab.file("script");
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("the script");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&file, mode).expect("executable");
    let file = file.display().to_string();
    let mut command = vec!["ip", "netns", "exec", at.ns.name()];
    command.extend(client.iter().map(|word| match *word {
        "SCRIPT" => &*file,
        word => word,
    }));
    let done = run(&command, SOON).expect("ends");
    assert!(done.status.success(), "{}{}", done.stdout, done.stderr);
    Some(done.stdout)
}

#[test]
fn stock_clients_come_up() {
    if !can_run(binaries()) {
        return;
    }
    let mut lab = Lab::build("pc", binaries(), &NODES).expect("a lab");
    lab.start(|_, _| "").expect("starts");
    let workload = lab.plug(0, "p0", "02:00:00:00:01:10", &[]).expect("plugs");
    let accept = ["sysctl", "-qw", "net.ipv6.conf.eth0.accept_ra=1"];
    workload.ns.run(&accept).expect("listens to routers");
    let documents = lab.node_documents() + POLICY;
    lab.apply(&documents).expect("programmed");

    let udhcpc = [
        "udhcpc", "-f", "-q", "-n", "-i", "eth0", "-t", "9", "-O", "mtu", "-s", "SCRIPT",
    ];
    let say = "[ \"$1\" = bound ] || exit 0\n\
               echo got $ip $subnet $router $mtu $lease $serverid\n\
               ip addr add $ip/24 dev eth0";
    if let Some(told) = ask(&lab, &workload, &udhcpc, say) {
        let want = "got 10.0.0.16 255.255.255.0 10.0.0.1 1400 3600 10.0.0.1\n";
        assert!(told.contains(want), "{told}");
        let ping = ["ping", "-n", "-q", "-c", "1", "-W", "9", "10.0.0.1"];
        workload.ns.run(&ping).expect("the gateway answers");
    }
    // DHCPv6 asks from the link-local address, once it is sure.
    let link_local = [
        "ip",
        "-6",
        "addr",
        "show",
        "dev",
        "eth0",
        "scope",
        "link",
        "-tentative",
    ];
    eventually(&Interrupt::none(), SOON, "a link-local address", || {
        let shown = workload.ns.run(&link_local)?;
        anyhow::ensure!(shown.contains("fe80::"), "{shown}");
        Ok(())
    })
    .expect("an address");
    let leases = lab.file("leases").display().to_string();
    let pid = lab.file("dhclient.pid").display().to_string();
    for (family, say, want) in [
        (
            "-4",
            "case $reason in BOUND) echo got $new_ip_address $new_subnet_mask $new_routers \
             $new_dhcp_lease_time;; esac",
            "got 10.0.0.16 255.255.255.0 10.0.0.1 3600\n",
        ),
        (
            "-6",
            "case $reason in BOUND6) echo got $new_ip6_address $new_max_life; \
             ip addr add $new_ip6_address/128 dev eth0 nodad;; esac",
            "got fd00:10::10 3600\n",
        ),
    ] {
        let client = [
            "dhclient",
            family,
            "-1",
            "-cf",
            "/dev/null",
            "-lf",
            &leases,
            "-pf",
            &pid,
            "-sf",
            "SCRIPT",
            "eth0",
        ];
        std::fs::write(&leases, "").expect("an empty file");
        if let Some(told) = ask(&lab, &workload, &client, say) {
            assert!(told.contains(want), "{told}");
            let stop = ["sh", "-c", &format!("kill $(cat {pid})")];
            run(&stop, Duration::from_secs(9)).expect("a shell");
        }
    }
    // What the kernel has made of the advertisement.
    eventually(&Interrupt::none(), SOON, "a default route", || {
        let routes = workload.ns.run(&["ip", "-6", "route"])?;
        let default = routes.lines().any(|line| {
            line.starts_with("default via fe80::5eff:fe00:1 dev eth0") && line.contains("proto ra")
        });
        let prefix = routes
            .lines()
            .any(|line| line.starts_with("fd00:10::/64 dev eth0 proto kernel"));
        anyhow::ensure!(default && prefix, "{routes}");
        Ok(())
    })
    .expect("routes");
    let mtu = workload
        .ns
        .run(&["sysctl", "-n", "net.ipv6.conf.eth0.mtu"])
        .expect("a number");
    assert_eq!(mtu.trim(), "1400");
    // No address of its own making.
    let addresses = workload
        .ns
        .run(&["ip", "-6", "addr", "show", "scope", "global"])
        .expect("a list");
    assert!(!addresses.contains("dynamic mngtmpaddr"), "{addresses}");
    lab.check_alive().expect("all run");
}
