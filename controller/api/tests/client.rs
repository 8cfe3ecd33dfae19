//! A connection fails soon, and says why.

use std::time::Duration;

use penstock_api::client::{Options, connect};
use penstock_identity::authority::Authority;
use penstock_identity::{Credentials, Files, Identity, Kind};

async fn refusal(server: &str, tls: Option<Credentials>) -> String {
    let options = Options {
        server: server.to_owned(),
        connect_timeout: Duration::from_millis(500),
        tls,
    };
    connect(options).await.expect_err(server).to_string()
}

fn operator() -> Credentials {
    let (authority, kept) = Authority::create().expect("an authority");
    let operator = Identity::new(Kind::Operator, "admin").expect("a name");
    let issued = authority.issue(&operator, 1).expect("issues");
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("writes");
        path
    };
    Credentials::load(&Files {
        ca: write("ca.crt", &kept.certificate),
        certificate: write("admin.crt", &issued.certificate),
        key: write("admin.key", &issued.key),
    })
    .expect("good")
}

#[tokio::test]
async fn says_why_there_is_no_connection() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address");
    drop(free);
    let tls = || Some(operator());
    for (server, tls, expected) in [
        (format!("http://{address}"), None, "Connection refused"),
        ("localhost:9500".to_owned(), None, "write http://HOST:PORT"),
        ("http://".to_owned(), None, "is no server address"),
        (
            "https://localhost:1".to_owned(),
            None,
            "needs our certificate and key",
        ),
        ("http://localhost:1".to_owned(), tls(), "write https://"),
        (format!("https://{address}"), tls(), "Connection refused"),
    ] {
        let told = refusal(&server, tls).await;
        assert!(told.contains(expected), "{server}: {told}");
    }
}
