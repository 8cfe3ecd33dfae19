//! penstockd with certificates, as a process: who may call it, and whom it believes to be a
//! node.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use penstock_api::client::{Client, Options, connect};
use penstock_api::v1;
use penstock_identity::authority::Authority;
use penstock_identity::server::Door;
use penstock_identity::{Credentials, Files, Identity, Kind};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(15);

struct Issuer(Authority, TempDir);

impl Issuer {
    fn new() -> Self {
        let (authority, kept) = Authority::create().unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("ca.crt"), kept.certificate).unwrap();
        Self(authority, directory)
    }

    fn files(&self, kind: Kind, name: &str) -> Files {
        let identity = Identity::new(kind, name).unwrap();
        let issued = self.0.issue(&identity, 1).unwrap();
        let path = |end: &str| self.1.path().join(format!("{kind}-{name}.{end}"));
        std::fs::write(path("crt"), issued.certificate).unwrap();
        std::fs::write(path("key"), issued.key).unwrap();
        Files {
            ca: self.1.path().join("ca.crt"),
            certificate: path("crt"),
            key: path("key"),
        }
    }

    fn credentials(&self, kind: Kind, name: &str) -> Credentials {
        Credentials::load(&self.files(kind, name)).unwrap()
    }
}

fn command(data: &Path, files: Option<&Files>, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_penstockd"));
    command.arg("--data-dir").arg(data);
    if let Some(files) = files {
        command.arg("--tls-ca").arg(&files.ca);
        command.arg("--tls-cert").arg(&files.certificate);
        command.arg("--tls-key").arg(&files.key);
    }
    command
        .args(["--listen", "127.0.0.1:0", "--log-format", "json"])
        .args(more)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

struct Process {
    child: Child,
    address: String,
    _data: TempDir,
}

impl Process {
    fn start(files: Option<&Files>, more: &[&str]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut child = command(data.path(), files, more).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "it does not start");
            if let Some((_, rest)) = line.split_once("\"address\":\"") {
                break rest.split('"').next().unwrap().to_owned();
            }
        };
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self {
            child,
            address,
            _data: data,
        }
    }

    async fn client(&self, credentials: Credentials) -> Result<Client, String> {
        let options = Options {
            server: format!("https://{}", self.address),
            connect_timeout: Duration::from_secs(5),
            tls: Some(credentials),
        };
        connect(options).await.map_err(|error| error.to_string())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn refusal(files: Option<&Files>, more: &[&str]) -> String {
    let data = tempfile::tempdir().unwrap();
    let mut child = command(data.path(), files, more).spawn().unwrap();
    let deadline = Instant::now() + SOON;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "it does not refuse to start");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(!status.success());
    let mut text = String::new();
    child.stderr.unwrap().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn it_does_not_start_as_somebody_else_or_half_protected() {
    let issuer = Issuer::new();
    let good = issuer.files(Kind::Controller, "main");
    let mixed = Files {
        key: issuer.files(Kind::Controller, "other").key,
        ..good.clone()
    };
    for (files, more, expected) in [
        (
            None,
            &[][..],
            "or --insecure to run without TLS on this machine only",
        ),
        (
            Some(issuer.files(Kind::Node, "host-a")),
            &[],
            "is a certificate of spiffe://penstock/node/host-a, and penstockd is a controller",
        ),
        (Some(good), &["--insecure"], "--insecure excludes"),
        (Some(mixed), &[], "issued together"),
        (None, &["--tls-ca", "x"], "give all three"),
    ] {
        let told = refusal(files.as_ref(), more);
        assert!(told.contains(expected), "{expected}: {told}");
    }
}

#[tokio::test]
async fn operators_and_controllers_are_heard_and_nobody_else() {
    let (ours, theirs) = (Issuer::new(), Issuer::new());
    let process = Process::start(Some(&ours.files(Kind::Controller, "main")), &[]);
    for (credentials, expected) in [
        (ours.credentials(Kind::Operator, "admin"), None),
        (ours.credentials(Kind::Controller, "other"), None),
        (
            ours.credentials(Kind::Node, "host-a"),
            Some("refused our certificate of spiffe://penstock/node/host-a"),
        ),
        (
            theirs.credentials(Kind::Operator, "admin"),
            Some(
                "presented a certificate of spiffe://penstock/controller/main, where any controller must be: it is not signed by the authority",
            ),
        ),
    ] {
        match (process.client(credentials).await, expected) {
            (Ok(client), None) => {
                let mut resources = client.resources;
                let listed = resources.list(v1::ListRequest::default());
                timeout(SOON, listed).await.unwrap().unwrap();
            }
            (Err(told), Some(expected)) => assert!(told.contains(expected), "{told}"),
            (told, expected) => panic!("{:?}, not {expected:?}", told.map(drop)),
        }
    }
    let plain = connect(Options {
        server: format!("http://{}", process.address),
        connect_timeout: Duration::from_secs(5),
        tls: None,
    })
    .await
    .unwrap();
    let mut resources = plain.resources;
    let listed = resources.list(v1::ListRequest::default());
    let status = timeout(SOON, listed).await.unwrap().unwrap_err();
    assert!(
        format!("{status:?}").contains("speaks TLS only"),
        "{status:?}"
    );
}

/// A server with this identity that knows no call: what is beyond TLS fails in another way.
async fn worker(door: Door) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = tonic::transport::Server::builder()
        .layer(door.guard())
        .add_routes(tonic::service::Routes::default())
        .serve_with_incoming(door.accept(listener));
    tokio::spawn(server);
    address
}

/// Declares a node at this address, and waits until its status has something to say.
async fn status(client: &Client, name: &str, address: &str) -> String {
    let node = v1::Node {
        worker_address: address.to_owned(),
        nics: vec![v1::Nic {
            device_id: 1,
            // One of its own: the last letter of its name.
            vtep: format!("192.0.2.{}", name.as_bytes()[name.len() - 1]),
            ..Default::default()
        }],
    };
    let mut resources = client.resources.clone();
    let request = v1::ApplyRequest {
        resources: vec![v1::Resource {
            name: name.to_owned(),
            spec: Some(v1::resource::Spec::Node(node)),
            ..Default::default()
        }],
        ..Default::default()
    };
    timeout(SOON, resources.apply(request))
        .await
        .unwrap()
        .unwrap();
    let looking = async {
        loop {
            let name = name.to_owned();
            let resource = resources.get(v1::GetRequest { name }).await.unwrap();
            let status = resource.into_inner().status.unwrap();
            let unreachable = status
                .conditions
                .into_iter()
                .find(|it| it.reason == "NodeUnreachable");
            if let Some(condition) = unreachable {
                return condition.message;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(SOON, looking).await.unwrap()
}

#[tokio::test]
async fn a_node_is_who_its_certificate_says() {
    let issuer = Issuer::new();
    let process = Process::start(Some(&issuer.files(Kind::Controller, "main")), &[]);
    let operator = issuer.credentials(Kind::Operator, "admin");
    let client = process.client(operator).await.unwrap();
    let locked = |name| Door::locked(issuer.credentials(Kind::Node, name), &[Kind::Controller]);
    // The right one: what it does not know is the call.
    let told = status(&client, "nodes/host-a", &worker(locked("host-a")).await).await;
    assert!(told.contains("does not answer GetNode"), "{told}");
    let told = status(&client, "nodes/host-b", &worker(locked("host-c")).await).await;
    assert!(
        told.contains("presented a certificate of spiffe://penstock/node/host-c, where spiffe://penstock/node/host-b must be"),
        "{told}"
    );
    let told = status(&client, "nodes/host-d", &worker(Door::open()).await).await;
    assert!(told.contains("does not speak TLS"), "{told}");
}

#[tokio::test]
async fn without_certificates_only_this_machine_is_dialled() {
    let process = Process::start(None, &["--insecure"]);
    let client = connect(Options {
        server: format!("http://{}", process.address),
        connect_timeout: Duration::from_secs(5),
        tls: None,
    })
    .await
    .unwrap();
    let told = status(&client, "nodes/host-a", "192.0.2.7:9600").await;
    assert!(
        told.contains("worker_address \"192.0.2.7:9600\" is not on this machine"),
        "{told}"
    );
}
