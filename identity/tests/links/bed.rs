//! An authority in a folder, and servers whose log can be read.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use penstock_identity::authority::{Authority, Issued};
use penstock_identity::server::Door;
use penstock_identity::{Credentials, Files, Identity, Kind};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::timeout;

/// No answer takes as long.
pub(crate) const SOON: Duration = Duration::from_secs(10);

pub(crate) fn identity(kind: Kind, name: &str) -> Identity {
    Identity::new(kind, name).unwrap()
}

/// An authority and what it has issued.
pub(crate) struct Issuer {
    authority: Authority,
    dir: TempDir,
    count: AtomicU32,
}

impl Issuer {
    pub(crate) fn new() -> Self {
        let (authority, kept) = Authority::create().unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.crt"), &kept.certificate).unwrap();
        std::fs::write(dir.path().join("ca.key"), &kept.key).unwrap();
        Self {
            authority,
            dir,
            count: AtomicU32::new(0),
        }
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.crt")
    }

    pub(crate) fn ca_key(&self) -> PathBuf {
        self.dir.path().join("ca.key")
    }

    fn write(&self, issued: &Issued) -> Files {
        let n = self.count.fetch_add(1, Ordering::Relaxed);
        let files = Files {
            ca: self.ca(),
            certificate: self.dir.path().join(format!("{n}.crt")),
            key: self.dir.path().join(format!("{n}.key")),
        };
        std::fs::write(&files.certificate, &issued.certificate).unwrap();
        std::fs::write(&files.key, &issued.key).unwrap();
        files
    }

    pub(crate) fn files(&self, identity: &Identity) -> Files {
        self.write(&self.authority.issue(identity, 1).unwrap())
    }

    /// Valid since so long ago, until in so many seconds.
    pub(crate) fn files_between(&self, identity: &Identity, since: Duration, until: f64) -> Files {
        let now = SystemTime::now();
        let end = match Duration::try_from_secs_f64(until) {
            Ok(ahead) => now + ahead,
            Err(_) => now - Duration::from_secs_f64(-until),
        };
        let issued = self.authority.issue_between(identity, now - since, end);
        self.write(&issued.unwrap())
    }

    pub(crate) fn node(&self, name: &str) -> Credentials {
        Credentials::load(&self.files(&identity(Kind::Node, name))).unwrap()
    }

    pub(crate) fn controller(&self) -> Credentials {
        Credentials::load(&self.files(&identity(Kind::Controller, "main"))).unwrap()
    }

    /// Ours, and ready to believe another authority as well.
    pub(crate) fn controller_trusting(&self, other: &Self) -> Credentials {
        let mut files = self.files(&identity(Kind::Controller, "main"));
        let both = [self.ca(), other.ca()].map(|ca| std::fs::read_to_string(ca).unwrap());
        files.ca = self.dir.path().join("both.crt");
        std::fs::write(&files.ca, both.concat()).unwrap();
        Credentials::load(&files).unwrap()
    }

    pub(crate) fn operator(&self) -> Credentials {
        Credentials::load(&self.files(&identity(Kind::Operator, "admin"))).unwrap()
    }

    pub(crate) fn lasting(&self, identity: Identity, time: Duration) -> Credentials {
        let files = self.files_between(&identity, Duration::from_secs(60), time.as_secs_f64());
        Credentials::load(&files).unwrap()
    }
}

/// Servers on this thread, and what they log.
pub(crate) struct Bed {
    log: Log,
    _subscriber: tracing::subscriber::DefaultGuard,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::WARN)
            .with_writer(move || writer.clone())
            .finish();
        Self {
            log,
            _subscriber: tracing::subscriber::set_default(subscriber),
        }
    }

    /// The address of a server of the health service.
    pub(crate) fn serve(&self, door: Door) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let listener = TcpListener::from_std(listener).unwrap();
        let (_, health) = tonic_health::server::health_reporter();
        let server = tonic::transport::Server::builder()
            .layer(door.guard())
            .add_service(health)
            .serve_with_incoming(door.accept(listener));
        tokio::spawn(server);
        address
    }

    pub(crate) fn log(&self) -> String {
        String::from_utf8(self.log.0.lock().unwrap().clone()).unwrap()
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What a server says to these bytes until it hangs up.
pub(crate) async fn speak(address: &str, bytes: &[u8]) -> String {
    let exchange = async {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    timeout(SOON, exchange).await.expect("in time")
}
