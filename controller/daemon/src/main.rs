//! penstockd: arguments, logs, signals; the rest is in the library.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use penstock_daemon::server::{self, Options};
use penstock_daemon::store::Embedded;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// The Penstock controller: keeps what operators declare, and brings every
/// node to it.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Where to serve penstock.v1.
    #[arg(long, default_value = "127.0.0.1:9500")]
    listen: SocketAddr,
    /// The store's directory; it is created where it does not exist.
    #[arg(long)]
    data_dir: PathBuf,
    /// Serve on an address that other machines can reach, although whoever
    /// reaches it may change everything.
    #[arg(long)]
    insecure_listen: bool,
    /// How to write the log, which goes to standard error. RUST_LOG filters it.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    log(arguments.log_format);
    if !arguments.listen.ip().is_loopback() && !arguments.insecure_listen {
        anyhow::bail!(
            "--listen {} can be reached from other machines, and the API is not protected; \
             listen on a loopback address, or add --insecure-listen",
            arguments.listen
        );
    }
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(run(arguments))
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    // Signals first: one that comes during the start must not kill half of it.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let directory = arguments.data_dir;
    let store = tokio::task::spawn_blocking(move || Embedded::open(&directory)).await??;
    let listener = TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    tracing::info!(address = %listener.local_addr()?, "serving penstock.v1");
    server::serve(listener, Arc::new(store), Options::default(), stop).await?;
    Ok(())
}

fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}
