//! Virtual cables and the workloads at their ends.

use anyhow::Result;

use super::netns::{Netns, ip};

/// A workload: a namespace with one interface, `eth0`, whose other end hangs
/// in a host's namespace.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Where it lives.
    pub ns: Netns,
}

impl Workload {
    /// Plugs `ns` into `host` with a veth whose host end is `attachment`, and
    /// gives it its addresses (`ADDR/LEN`).
    ///
    /// # Errors
    /// What `ip` says.
    pub fn plug(
        ns: Netns,
        host: &Netns,
        attachment: &str,
        mac: &str,
        addrs: &[&str],
        mtu: u16,
    ) -> Result<Self> {
        cable(host, attachment, &ns, "eth0", mtu)?;
        quiet(host, attachment)?;
        offloads_off(&ns, "eth0")?;
        ns.run(&["ip", "link", "set", "eth0", "address", mac])?;
        for addr in addrs {
            ns.run(&["ip", "addr", "add", addr, "dev", "eth0"])?;
        }
        host.run(&["ip", "link", "set", attachment, "up"])?;
        ns.run(&["ip", "link", "set", "eth0", "up"])?;
        Ok(Self { ns })
    }
}

/// A veth pair between two namespaces, both ends down.
///
/// # Errors
/// What `ip` says.
pub fn cable(a: &Netns, a_name: &str, b: &Netns, b_name: &str, mtu: u16) -> Result<()> {
    let mtu = mtu.to_string();
    ip(&[
        "link",
        "add",
        a_name,
        "mtu",
        &mtu,
        "netns",
        a.name(),
        "type",
        "veth",
        "peer",
        "name",
        b_name,
        "mtu",
        &mtu,
        "netns",
        b.name(),
    ])
}

/// Makes an interface carry only what the worker sends: the kernel keeps out.
///
/// # Errors
/// What `sysctl` or `ethtool` says.
pub fn quiet(ns: &Netns, interface: &str) -> Result<()> {
    ns.run(&[
        "sysctl",
        "-qw",
        &format!("net.ipv6.conf.{interface}.disable_ipv6=1"),
    ])?;
    offloads_off(ns, interface)
}

/// A frame on a veth otherwise carries no valid checksum, and may be 64 KiB.
fn offloads_off(ns: &Netns, interface: &str) -> Result<()> {
    ns.run(&[
        "ethtool", "-K", interface, "tx", "off", "rx", "off", "gso", "off", "gro", "off", "tso",
        "off",
    ])?;
    Ok(())
}
