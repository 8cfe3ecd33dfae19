//! Who may talk to a worker that has a [tls] section.

use std::path::Path;
use std::time::Duration;

use penstock_slowpath_api::v1;
use penstock_slowpath_api::v1::slow_path_client::SlowPathClient;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::time::timeout;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::memory::Bed;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    CertifiedIssuer::self_signed(params, key).expect("signs itself")
}

/// Certificate and key, in PEM.
fn issue(authority: &Authority, name: &str) -> (String, String) {
    let params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, authority).expect("signs");
    (certificate.pem(), key.serialize_pem())
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).expect("writes");
    path.display().to_string()
}

#[tokio::test]
async fn only_clients_of_the_right_authority_are_heard() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ours, theirs) = (authority(), authority());
    let (certificate, key) = issue(&ours, "node.test");
    let section = format!(
        "[tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {:?}\n",
        write(dir.path(), "cert.pem", &certificate),
        write(dir.path(), "key.pem", &key),
        write(dir.path(), "ca.pem", &ours.pem()),
    );
    let bed = Bed::with(&section).await;
    let uri = format!("https://{}", bed.worker.address());
    let trust = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(ours.pem()))
        .domain_name("node.test");
    let identity = |authority| {
        let (certificate, key) = issue(authority, "controller.test");
        Identity::from_pem(certificate, key)
    };
    let cases = [
        ("ours", Some(trust.clone().identity(identity(&ours))), true),
        (
            "of others",
            Some(trust.clone().identity(identity(&theirs))),
            false,
        ),
        ("without certificate", Some(trust), false),
        ("in the clear", None, false),
    ];
    for (who, tls, expected) in cases {
        let endpoint = match tls {
            Some(tls) => Endpoint::from_shared(uri.clone())
                .and_then(|endpoint| endpoint.tls_config(tls))
                .expect("an endpoint"),
            None => Endpoint::from_shared(uri.replace("https", "http")).expect("an endpoint"),
        };
        let heard = async {
            let channel = endpoint.connect().await.ok()?;
            let mut client = SlowPathClient::new(channel);
            client.get_node(v1::GetNodeRequest {}).await.ok()
        };
        let heard = timeout(Duration::from_secs(10), heard).await;
        assert_eq!(heard.expect("in time").is_some(), expected, "{who}");
    }
}
