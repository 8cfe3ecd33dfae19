//! The table: who talks to whom, what policy says, what was seen.

use anyhow::{Context as _, Result};
use comfy_table::Table;
use serde_json::Value;

use super::command::Penstock;
use super::stage::TENANTS;

/// How a pair talks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Talk {
    Ping,
    /// A token and a 10 MB file over HTTP.
    Http,
    Tcp(u16),
    Udp(u16),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    NotTried,
    /// An answer, with what it said and how long the first one took.
    Answer {
        token: String,
        first_us: u64,
    },
    Silence,
    /// Neither: what went wrong.
    Broken(String),
}

/// One line of the table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) tenant: &'static str,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    pub(super) addr: String,
    pub(super) talk: Talk,
    pub(super) allowed: bool,
    pub(super) seen: Seen,
    pub(super) slow_packets: u64,
    pub(super) nic_packets: u64,
}

/// A transfer's packets must be the NIC's, all but the first few.
const NIC_SHARE: f64 = 0.95;

impl Row {
    pub(super) fn is_as_expected(&self) -> bool {
        match (&self.seen, self.allowed) {
            (Seen::Answer { token, .. }, true) => {
                self.is_right_token(token) && self.is_nic_enough()
            }
            (Seen::Silence, false) => true,
            _ => false,
        }
    }

    /// Ping carries no token; everything else must come from this tenant.
    fn is_right_token(&self, token: &str) -> bool {
        self.talk == Talk::Ping || token == format!("{}-{}-token", self.tenant, self.to)
    }

    fn is_nic_enough(&self) -> bool {
        let all = self.slow_packets + self.nic_packets;
        self.talk != Talk::Http || (all > 0 && self.nic_packets as f64 >= NIC_SHARE * all as f64)
    }

    /// IANA protocol and, where there is one, the destination port.
    fn protocol(&self) -> (u64, Option<u64>) {
        match self.talk {
            Talk::Ping if self.addr.contains(':') => (58, None),
            Talk::Ping => (1, None),
            Talk::Http => (6, Some(80)),
            Talk::Tcp(port) => (6, Some(port.into())),
            Talk::Udp(port) => (17, Some(port.into())),
        }
    }
}

/// Every row of the demo.
pub(super) fn all() -> Vec<Row> {
    let mut rows = Vec::new();
    for tenant in TENANTS {
        for v6 in [false, true] {
            let mut row = |from, to, talk, allowed| {
                let last = match to {
                    "web" => "11",
                    "db" => "12",
                    "client" => "21",
                    _ => "31",
                };
                let addr = if v6 {
                    format!("fd00:10::{last}")
                } else {
                    format!("10.0.0.{last}")
                };
                let (slow_packets, nic_packets) = (0, 0);
                let seen = Seen::NotTried;
                rows.push(Row {
                    tenant,
                    from,
                    to,
                    addr,
                    talk,
                    allowed,
                    seen,
                    slow_packets,
                    nic_packets,
                });
            };
            row("client", "web", Talk::Ping, true);
            row("client", "web", Talk::Http, true);
            row("client", "web", Talk::Udp(7), true);
            row("web", "db", Talk::Tcp(5432), true);
            // Only blue has a cache: red must not reach it at the same address.
            row("client", "cache", Talk::Udp(7), tenant == "blue");
            row("client", "db", Talk::Ping, false);
            row("client", "db", Talk::Tcp(5432), false);
            row("db", "client", Talk::Ping, false);
            row("db", "web", Talk::Udp(7), false);
        }
    }
    rows
}

/// Adds what the sender's node counted for each row.
pub(super) fn count_packets(penstock: &Penstock, rows: &mut [Row]) -> Result<()> {
    let flows = penstock.json(&["flows"])?;
    let flows = flows
        .as_array()
        .context("`penstock flows -o json` is no list")?;
    for row in rows {
        let own: Vec<&Value> = flows.iter().filter(|f| is_of(f, row)).collect();
        for flow in own {
            row.slow_packets += number(flow, "slowPackets")?;
            row.nic_packets += number(flow, "nicPackets")?;
        }
    }
    Ok(())
}

fn is_of(flow: &Value, row: &Row) -> bool {
    let (protocol, port) = row.protocol();
    let sender = format!("tenants/{}/vpcs/main/ports/{}", row.tenant, row.from);
    flow["port"] == sender.as_str()
        && flow["destinationIp"] == row.addr.as_str()
        && flow["protocol"] == protocol
        && port.is_none_or(|p| flow["destinationPort"] == p)
}

fn number(flow: &Value, field: &str) -> Result<u64> {
    let value = &flow[field];
    let number = value
        .as_u64()
        .or_else(|| value.as_str().and_then(|s| s.parse().ok()));
    number.with_context(|| format!("{field} is missing from {flow}"))
}

pub(super) fn print(rows: &[Row]) {
    let mut table = Table::new();
    table.set_header([
        "pair",
        "to",
        "protocol",
        "expected",
        "observed",
        "first packet (RTT)",
        "slow path",
        "NIC",
        "",
    ]);
    for row in rows {
        let talk = match row.talk {
            Talk::Ping => "ICMP echo".to_owned(),
            Talk::Http => "HTTP, 10 MB".to_owned(),
            Talk::Tcp(port) => format!("TCP {port}"),
            Talk::Udp(port) => format!("UDP {port}"),
        };
        let (seen, first) = match &row.seen {
            Seen::NotTried => ("not tried".to_owned(), String::new()),
            Seen::Silence => ("no answer".to_owned(), String::new()),
            Seen::Broken(why) => (why.clone(), String::new()),
            Seen::Answer { token, first_us } if token.is_empty() => {
                ("answer".to_owned(), format!("{first_us} us"))
            }
            Seen::Answer { token, first_us } => (token.clone(), format!("{first_us} us")),
        };
        table.add_row([
            format!("{0} {1} -> {2}", row.tenant, row.from, row.to),
            row.addr.clone(),
            talk,
            if row.allowed { "allowed" } else { "closed" }.to_owned(),
            seen,
            first,
            row.slow_packets.to_string(),
            row.nic_packets.to_string(),
            if row.is_as_expected() { "ok" } else { "WRONG" }.to_owned(),
        ]);
    }
    println!("{table}");
    println!(
        "First packet: round trip seen by the client's kernel, measured. Slow path and NIC: packets"
    );
    println!(
        "of both directions as counted on the sender's node; here the NIC is the worker's soft NIC."
    );
}
