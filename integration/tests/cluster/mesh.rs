//! Workloads that all talk to each other, through their own kernels.

use std::time::Duration;

use penstock_integration::bed::{Netns, Workload, run};
use penstock_integration::lab::Lab;

/// Where every workload answers with its name.
pub(crate) const OPEN: u16 = 7000;
/// Where it would too, but no rule lets anybody in.
pub(crate) const CLOSED: u16 = 7001;

/// A workload, by the name of its port.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) node: usize,
    pub(crate) nic: u8,
    number: usize,
    pub(crate) ns: Netns,
}

impl Place {
    pub(crate) fn v4(&self) -> String {
        format!("10.0.0.{}", 10 + self.number)
    }

    pub(crate) fn v6(&self) -> String {
        format!("fd00:10::{}", 10 + self.number)
    }

    fn mac(number: usize) -> String {
        format!("02:00:00:00:01:{number:02x}")
    }

    /// Its resource.
    fn document(&self, node: &str) -> String {
        format!(
            "kind: Port\nname: tenants/blue/vpcs/main/ports/{0}\nspec:\n  subnet: main\n  node: {node}\n  \
             nic: {1}\n  attachment: {0}\n  mac: \"{2}\"\n  ips: [{3}, \"{4}\"]\n  \
             securityGroups: [mesh]\n---\n",
            self.name,
            self.nic,
            Self::mac(self.number),
            self.v4(),
            self.v6()
        )
    }
}

/// Port `number` of the mesh, on a NIC.
pub(crate) fn plug(lab: &mut Lab, number: usize, node: usize, nic: u8) -> Place {
    let name = format!("p{number}");
    let mut place = Place {
        name: name.clone(),
        node,
        nic,
        number,
        ns: lab.ctl().clone(),
    };
    let addrs = [format!("{}/24", place.v4()), format!("{}/64", place.v6())];
    let addrs = addrs.each_ref().map(String::as_str);
    let plugged = lab.plug(node, &name, &Place::mac(number), &addrs);
    let Workload { ns } = plugged.expect("plugs");
    // Its name at both ports; a UDP echo beside the first.
    let program = lab.binary("workload");
    for (port, udp) in [(OPEN, 7), (CLOSED, 8)] {
        let (port_, udp) = (port.to_string(), udp.to_string());
        let command = [
            &*program, "serve", "--token", &name, "--tcp", &port_, "--udp", &udp,
        ];
        let command = command.map(str::to_owned);
        let what = format!("{name}-{port}");
        lab.spawn(&ns, &what, &command).expect("starts");
    }
    place.ns = ns;
    place
}

/// The VPC of all places; `rules` are the group's.
pub(crate) fn documents(places: &[Place], nodes: &[&str], rules: &str) -> String {
    let mut all = format!(
        "kind: Tenant\nname: tenants/blue\nspec:\n  displayName: Blue\n---\n\
         kind: Vpc\nname: tenants/blue/vpcs/main\nspec:\n  vni: 1001\n  \
         cidrs: [10.0.0.0/16, \"fd00:10::/48\"]\n---\n\
         kind: Subnet\nname: tenants/blue/vpcs/main/subnets/main\nspec:\n  \
         cidrs: [10.0.0.0/24, \"fd00:10::/64\"]\n  mtu: 1500\n---\n\
         kind: SecurityGroup\nname: tenants/blue/vpcs/main/securityGroups/mesh\nspec:\n  rules:\n{rules}---\n"
    );
    for place in places {
        all += &place.document(nodes[place.node]);
    }
    all
}

/// Rules that open pings and one port of TCP, both ways.
pub(crate) fn rules(tcp: u16) -> String {
    let mut all = String::new();
    for way in ["INGRESS", "EGRESS"] {
        let peers = "peers: [{securityGroup: mesh}]";
        let low = way.to_lowercase();
        all += &format!(
            "    - {{name: tcp-{low}, direction: {way}, protocol: TCP, ports: [{{first: {tcp}}}], {peers}}}\n    \
             - {{name: ping-{low}, direction: {way}, protocol: ICMP, icmpType: 8, icmpCode: 0, {peers}}}\n    \
             - {{name: ping6-{low}, direction: {way}, protocol: ICMPV6, icmpType: 128, icmpCode: 0, {peers}}}\n"
        );
    }
    all
}

/// Everyone pings the next `most` others and asks them for their names, over both families;
/// what went wrong, a line each.
pub(crate) fn talk(lab: &Lab, places: &[&Place], most: usize) -> Vec<String> {
    let program = lab.binary("workload");
    let asking = places.iter().enumerate().map(|(i, from)| {
        let mut script = String::new();
        let behind = places.iter().cycle().skip(i + 1);
        for to in behind.take(most.min(places.len() - 1)) {
            for address in [to.v4(), to.v6()] {
                let pair = format!("{} to {} ({address})", from.name, to.name);
                script += &format!(
                    "ping -n -q -c 2 -i 0.01 -W 5 {address} >/dev/null || echo \"ping {pair}\"\n\
                     got=$({program} tcp-ask {address} {OPEN} 9000 2>&1)\n\
                     case \"$got\" in \"{} \"*) ;; *) echo \"tcp {pair}: $got\";; esac\n",
                    to.name
                );
            }
        }
        let ns = from.ns.name().to_owned();
        std::thread::spawn(move || {
            let command = ["ip", "netns", "exec", &ns, "sh", "-c", &script];
            let done = run(&command, Duration::from_secs(150)).expect("ends");
            done.success(&command).expect("a shell")
        })
    });
    let asking: Vec<_> = asking.collect();
    let mut wrong = Vec::new();
    for thread in asking {
        let out = thread.join().expect("a thread");
        wrong.extend(out.lines().map(str::to_owned));
    }
    wrong
}

/// Whether a TCP connection opens within a moment, and what is said if not.
pub(crate) fn opens(lab: &Lab, from: &Place, to: &Place, port: u16) -> Result<(), String> {
    let (program, port) = (lab.binary("workload"), port.to_string());
    let address = to.v4();
    let ns = from.ns.name();
    let command = [
        "ip", "netns", "exec", ns, &program, "tcp-ask", &address, &port, "1500",
    ];
    let done = run(&command, Duration::from_secs(30)).expect("ends");
    if done.status.success() {
        return Ok(());
    }
    Err(done.stderr)
}
