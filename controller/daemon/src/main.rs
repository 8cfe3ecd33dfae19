//! penstockd: arguments, logs, signals; the rest is in the library.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use penstock_daemon::server::{self, Options};
use penstock_daemon::store::Embedded;
use penstock_identity::{Credentials, Files, Kind};
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
    /// PEM file of the authority that operators, controllers and nodes are from.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// PEM file of this controller's certificate.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// PEM file of its key.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Run without TLS, on loopback addresses only: whoever reaches them may
    /// change everything.
    #[arg(long)]
    insecure: bool,
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
    let credentials = credentials(&arguments)?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(run(arguments, credentials))
}

/// Who this controller is; nobody if insecurity was asked for and stays on this machine.
fn credentials(arguments: &Arguments) -> anyhow::Result<Option<Credentials>> {
    let Arguments {
        listen,
        tls_ca,
        tls_cert,
        tls_key,
        insecure,
        ..
    } = arguments;
    match (tls_ca, tls_cert, tls_key) {
        (Some(ca), Some(certificate), Some(key)) if !insecure => {
            let credentials = Credentials::load(&Files {
                ca: ca.clone(),
                certificate: certificate.clone(),
                key: key.clone(),
            })?;
            if credentials.identity().kind() != Kind::Controller {
                anyhow::bail!(
                    "--tls-cert {} is a certificate of {}, and penstockd is a controller; \
                     `penstock admin certs --controller NAME` issues one for development",
                    certificate.display(),
                    credentials.identity()
                );
            }
            Ok(Some(credentials))
        }
        (None, None, None) if *insecure && listen.ip().is_loopback() => {
            tracing::warn!(%listen, "--insecure: whoever reaches this address may change everything");
            Ok(None)
        }
        (None, None, None) if *insecure => anyhow::bail!(
            "--listen {listen} can be reached from other machines, which --insecure does not \
             allow; listen on a loopback address, or give --tls-ca, --tls-cert and --tls-key"
        ),
        (None, None, None) => anyhow::bail!(
            "give --tls-ca, --tls-cert and --tls-key (`penstock admin certs` issues them for \
             development), or --insecure to run without TLS on this machine only"
        ),
        _ if *insecure => anyhow::bail!("--insecure excludes --tls-ca, --tls-cert and --tls-key"),
        _ => anyhow::bail!("--tls-ca, --tls-cert and --tls-key go together: give all three"),
    }
}

async fn run(arguments: Arguments, credentials: Option<Credentials>) -> anyhow::Result<()> {
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
    tracing::info!(
        address = %listener.local_addr()?,
        identity = credentials.as_ref().map(|it| it.identity().to_string()),
        "serving penstock.v1"
    );
    let options = Options {
        credentials,
        ..Options::default()
    };
    server::serve(listener, Arc::new(store), options, stop).await?;
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
