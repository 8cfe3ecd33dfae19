//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as Group, Parser, Subcommand, ValueEnum};

/// Declare tenant networks and policies, see what became of them, and ask why.
#[derive(Debug, Parser)]
#[command(name = "penstock", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the documents have problems; each is told with its line. `verify`: not proved
  2  the command line, or a file that it names, cannot be understood
  3  the server cannot be reached, did not answer in time, or failed
  4  the server refused: not there, changed meanwhile, still referred to
  5  `wait`: not everything was programmed in time";

#[derive(Debug, Group)]
pub(crate) struct Global {
    /// The controller: https://HOST:PORT, or http://HOST:PORT for one without TLS on this
    /// machine. Default: port 9500 of this machine, with https if TLS files are given
    #[arg(long, global = true, env = "PENSTOCK_SERVER")]
    pub(crate) server: Option<String>,
    /// Longest time for one call, in seconds
    #[arg(long, global = true, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) call_timeout: Duration,
    /// PEM file of the authority that vouches for the controller and for us
    #[arg(long, global = true, env = "PENSTOCK_CA", value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// PEM file of our certificate
    #[arg(long, global = true, env = "PENSTOCK_CERT", value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// PEM file of our key
    #[arg(long, global = true, env = "PENSTOCK_KEY", value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// How to print
    #[arg(short, long, global = true, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
    /// For `apply`
    Yaml,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Store what documents declare: all of it, or nothing
    Apply {
        /// A document, a folder of them, or - for standard input
        #[arg(short, long = "file", value_name = "FILE|DIR", required = true)]
        files: Vec<PathBuf>,
        /// Have everything checked, store nothing, and tell what NICs would carry
        #[arg(long)]
        dry_run: bool,
    },
    /// Show one resource, or all of a kind
    Get {
        /// A kind (ports), a name (nodes/host-a), a collection
        /// (tenants/blue/vpcs/main/ports), or all
        #[arg(value_name = "KIND|NAME", default_value = "all")]
        what: String,
        /// Only what is below this name
        #[arg(long = "in", value_name = "NAME")]
        parent: Option<String>,
    },
    /// Remove resources: all of them, or none
    Delete {
        /// Full names
        #[arg(value_name = "NAME", required_unless_present = "files")]
        names: Vec<String>,
        /// Remove what these documents declare
        #[arg(short, long = "file", value_name = "FILE|DIR")]
        files: Vec<PathBuf>,
        /// Names that do not exist are no error
        #[arg(long)]
        ignore_missing: bool,
    },
    /// Show nodes, their NICs, and what they run
    Nodes,
    /// Show connections that workers hold now
    Flows {
        #[command(flatten)]
        scope: Scope,
    },
    /// Show what was dropped lately, and why, and what policies in audit would drop
    Drops {
        #[command(flatten)]
        scope: Scope,
    },
    /// Show the same and what rules with `log` have let pass
    Log {
        #[command(flatten)]
        scope: Scope,
    },
    /// Say whether a packet would pass, and which rule decides
    Explain(Explain),
    /// Say who may talk to whom in another way once documents are applied
    ///
    /// Exit codes: 0 nothing changes, 1 something does, 2 it cannot be said.
    Diff(Diff),
    /// Run a capture through the engines that documents make, without a server
    Replay(Replay),
    /// Prove that NICs would do what is declared and nothing else
    Verify(Verify),
    /// Check documents without a server
    Check {
        /// Documents that are complete together
        #[arg(value_name = "FILE|DIR", required = true)]
        files: Vec<PathBuf>,
    },
    /// Wait until everything is programmed
    Wait {
        /// Full names; none: everything
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Wait for what these documents declare
        #[arg(short, long = "file", value_name = "FILE|DIR")]
        files: Vec<PathBuf>,
        /// Longest time to wait, in seconds
        #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
        timeout: Duration,
    },
    /// Set Penstock up
    #[command(subcommand)]
    Admin(Admin),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Admin {
    /// Issue certificates for development: an authority, and one certificate per program
    ///
    /// Run again with the same folder, it adds what is new and keeps what is there.
    Certs(Certs),
}

#[derive(Debug, Group)]
pub(crate) struct Certs {
    /// The folder; it is made where it does not exist
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// A node, by the name that its worker has; may be repeated
    #[arg(long = "node", value_name = "NAME")]
    pub(crate) nodes: Vec<String>,
    /// A penstockd; may be repeated. Default for a new authority: main
    #[arg(long = "controller", value_name = "NAME")]
    pub(crate) controllers: Vec<String>,
    /// Somebody who declares resources; may be repeated. Default for a new authority: admin
    #[arg(long = "operator", value_name = "NAME")]
    pub(crate) operators: Vec<String>,
    /// How long certificates are valid
    #[arg(long, value_name = "N", default_value = "365", value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub(crate) days: u32,
    /// Issue anew what is named and exists; the authority stays
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Scope {
    /// Only this node
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,
    /// Only this port: a full name, or TENANT/VPC/PORT
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<String>,
    /// Most entries per node
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u32>,
}

#[derive(Debug, Group)]
pub(crate) struct Explain {
    /// The sender: a full name, or TENANT/VPC/PORT
    #[arg(long, value_name = "PORT")]
    pub(crate) from: String,
    /// The receiver: a port, or an address in the sender's VPC
    #[arg(long, value_name = "PORT|IP")]
    pub(crate) to: String,
    /// What is sent
    #[arg(long, value_enum, ignore_case = true)]
    pub(crate) proto: Protocol,
    /// Destination port, for TCP and UDP
    #[arg(long, value_name = "PORT")]
    pub(crate) dport: Option<u16>,
    /// Source port, for TCP and UDP
    #[arg(long, value_name = "PORT")]
    pub(crate) sport: Option<u16>,
    /// ICMP type; default: echo request
    #[arg(long, value_name = "TYPE")]
    pub(crate) icmp_type: Option<u8>,
    /// ICMP code; default: 0
    #[arg(long, value_name = "CODE")]
    pub(crate) icmp_code: Option<u8>,
    /// IPv6, where both ends have both
    #[arg(short = '6', long)]
    pub(crate) ipv6: bool,
    /// Ask documents, and no server; needs --file
    #[arg(long, requires = "files")]
    pub(crate) offline: bool,
    /// Ask these documents instead of a server
    #[arg(short, long = "file", value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Group)]
pub(crate) struct Diff {
    /// The documents; against a server, those that would be applied
    #[arg(short, long = "file", value_name = "FILE|DIR", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Compare with these documents instead of what a server has
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) against: Vec<PathBuf>,
    /// Only in this VPC: a full name, or TENANT/VPC
    #[arg(long, value_name = "VPC")]
    pub(crate) vpc: Option<String>,
    /// Changes that are shown at most
    #[arg(long, value_name = "N", default_value = "100")]
    pub(crate) most: usize,
    /// Packets that are judged at most
    #[arg(long, value_name = "N", default_value_t = penstock_policies::diff::LIMIT)]
    pub(crate) limit: u64,
}

#[derive(Debug, Group)]
pub(crate) struct Replay {
    /// The documents
    #[arg(short, long = "file", value_name = "FILE|DIR", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// A pcap or pcapng file of Ethernet frames, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: PathBuf,
    /// Only this VPC's ports send: a full name, or TENANT/VPC
    #[arg(long, value_name = "VPC")]
    pub(crate) vpc: Option<String>,
    /// Only so many packets
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, Group)]
pub(crate) struct Verify {
    /// Prove these documents, complete together, instead of what a server has
    #[arg(short, long = "file", value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// Whether packets get from one VPC to the other, either way: full names, or TENANT/VPC
    #[arg(long, num_args = 2, value_names = ["VPC", "VPC"])]
    pub(crate) isolated: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Icmpv6,
    Rocev2,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "write seconds, e.g. 30 or 0.5".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if (0.001..=86_400.0).contains(&seconds) => Ok(time),
        _ => Err("use 0.001 to 86400 seconds".to_owned()),
    }
}
