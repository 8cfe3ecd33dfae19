//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;

use super::File;

/// The Penstock worker: a node's slow path and its NICs' agent.
#[derive(Clone, Debug, Parser)]
#[command(name = "penstock-worker", version)]
pub struct Args {
    /// Configuration file.
    #[arg(long, default_value = "/etc/penstock/worker.toml")]
    pub config: PathBuf,
    /// Overrides the file's `node`.
    #[arg(long)]
    pub node: Option<String>,
    /// Overrides the file's `listen`; port 0 lets the system choose.
    #[arg(long)]
    pub listen: Option<SocketAddr>,
    /// Overrides the file's `data_dir`.
    #[arg(long)]
    pub data_dir: Option<PathBuf>,
    /// Serve without TLS: whoever reaches `listen`, a loopback address then, programs the node.
    #[arg(long)]
    pub insecure: bool,
    /// Write the gRPC address to this file once the worker serves.
    #[arg(long)]
    pub ready_file: Option<PathBuf>,
}

impl Args {
    pub(super) fn apply(&self, file: &mut File) {
        if let Some(node) = &self.node {
            file.node.clone_from(node);
        }
        if let Some(listen) = self.listen {
            file.listen = listen;
        }
        if let Some(data_dir) = &self.data_dir {
            file.data_dir.clone_from(data_dir);
        }
    }
}
