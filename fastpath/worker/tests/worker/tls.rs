//! Who may talk to a worker that has a [tls] section.

use std::path::Path;

use p4runtime::transport::endpoint;
use p4runtime::v1 as p4;
use penstock_identity::authority::Authority;
use penstock_identity::client::{Client, Expected};
use penstock_identity::{Credentials, Files, Identity, Kind};
use penstock_slowpath_api::v1;
use penstock_slowpath_api::v1::slow_path_client::SlowPathClient;
use tokio::time::timeout;
use tonic::Code;

use crate::controller::SOON;
use crate::memory::Bed;

fn identity(kind: Kind, name: &str) -> Identity {
    Identity::new(kind, name).expect("a name")
}

/// An authority with its file, and what it has issued.
struct Issuer(Authority, tempfile::TempDir);

impl Issuer {
    fn new() -> Self {
        let (authority, kept) = Authority::create().expect("an authority");
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("ca.crt"), kept.certificate).expect("writes");
        Self(authority, dir)
    }

    fn path(&self) -> &Path {
        self.1.path()
    }

    fn files(&self, identity: &Identity) -> Files {
        let issued = self.0.issue(identity, 1).expect("issues");
        let path = |end| self.path().join(format!("{}.{end}", identity.dns_name()));
        let files = Files {
            ca: self.path().join("ca.crt"),
            certificate: path("crt"),
            key: path("key"),
        };
        std::fs::write(&files.certificate, issued.certificate).expect("writes");
        std::fs::write(&files.key, issued.key).expect("writes");
        files
    }

    fn client(&self, kind: Kind, name: &str, expected: &str) -> Client {
        let files = self.files(&identity(kind, name));
        let expected = Expected::Exactly(identity(Kind::Node, expected));
        Client::new(Credentials::load(&files).expect("good"), expected)
    }
}

fn section(files: &Files) -> String {
    let Files {
        ca,
        certificate,
        key,
    } = files;
    format!("[tls]\ncertificate = {certificate:?}\nkey = {key:?}\nclient_ca = {ca:?}\n")
}

/// Whether both services answer; what was said if not.
async fn ask(bed: &Bed, client: &Client) -> Result<(), String> {
    let address = bed.worker.address().to_string();
    let endpoint = endpoint(format!("http://{address}")).expect("an endpoint");
    let asked = async {
        let channel = client.channel(endpoint, &address).await;
        let channel = channel.map_err(|error| error.to_string())?;
        let mut slow = SlowPathClient::new(channel.clone());
        let node = slow.get_node(v1::GetNodeRequest {}).await;
        let mut p4 = p4runtime::transport::client(channel);
        let capabilities = p4.capabilities(p4::CapabilitiesRequest::default()).await;
        for status in [node.map(drop), capabilities.map(drop)] {
            if let Err(status) = status {
                assert_eq!(status.code(), Code::PermissionDenied);
                return Err(status.message().to_owned());
            }
        }
        Ok(())
    };
    timeout(SOON, asked).await.expect("in time")
}

#[tokio::test]
async fn only_its_controllers_are_heard() {
    let (ours, theirs) = (Issuer::new(), Issuer::new());
    let bed = Bed::with(&section(&ours.files(&identity(Kind::Node, "host-1")))).await;
    let cases = [
        (ours.client(Kind::Controller, "main", "host-1"), None),
        (
            ours.client(Kind::Operator, "admin", "host-1"),
            Some(
                "you are spiffe://penstock/operator/admin, and spiffe://penstock/node/host-1 hears only controller",
            ),
        ),
        (
            ours.client(Kind::Node, "host-2", "host-1"),
            Some("refused our certificate of spiffe://penstock/node/host-2"),
        ),
        (
            ours.client(Kind::Controller, "main", "host-2"),
            Some("where spiffe://penstock/node/host-2 must be"),
        ),
        (
            theirs.client(Kind::Controller, "main", "host-1"),
            Some("not signed by the authority"),
        ),
    ];
    for (client, expected) in cases {
        match (ask(&bed, &client).await, expected) {
            (Ok(()), None) => {}
            (Err(told), Some(expected)) => assert!(told.contains(expected), "{told}"),
            (told, _) => panic!("{client:?}: {told:?}"),
        }
    }
    // In the clear, nothing is to be had.
    let channel = endpoint(format!("http://{}", bed.worker.address())).expect("an endpoint");
    let channel = timeout(SOON, channel.connect()).await.expect("in time");
    let mut slow = SlowPathClient::new(channel.expect("a socket"));
    let answer = timeout(SOON, slow.get_node(v1::GetNodeRequest {})).await;
    answer.expect("in time").expect_err("in the clear");
}

#[tokio::test]
async fn a_certificate_of_another_node_does_not_start() {
    let issuer = Issuer::new();
    let more = section(&issuer.files(&identity(Kind::Node, "host-2")));
    let error = Bed::try_with(&more).await.err().expect("refused");
    assert!(
        error.contains("it is for spiffe://penstock/node/host-2, and this node is spiffe://penstock/node/host-1"),
        "{error}"
    );
}

/// What the program says when it refuses to start.
fn refusal(more: &str, arguments: &[&str]) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("worker.toml");
    let text = format!(
        "node = \"host-1\"\ndata_dir = {:?}\n{more}\n[[nic]]\ndevice_id = 1\n\
         uplink = {{ interface = \"no-such\" }}\nvtep = \"192.0.2.1/24\"\n",
        dir.path(),
    );
    std::fs::write(&config, text).expect("writes");
    let output = std::process::Command::new("timeout")
        .args(["20", env!("CARGO_BIN_EXE_penstock-worker"), "--config"])
        .arg(&config)
        .args(arguments)
        .output()
        .expect("runs");
    assert!(!output.status.success());
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn the_program_is_insecure_only_on_request_and_on_loopback() {
    for (more, arguments, expected) in [
        ("", &[][..], "tls = nothing: add a [tls] section"),
        (
            "listen = \"0.0.0.0:0\"",
            &["--insecure"],
            "listen = 0.0.0.0:0: without TLS whoever reaches this address programs the node",
        ),
        (
            "[tls]\ncertificate = \"c\"\nkey = \"k\"\nclient_ca = \"a\"",
            &["--insecure"],
            "leave one of them out",
        ),
    ] {
        let told = refusal(more, arguments);
        assert!(told.contains(expected), "{told}");
    }
}
