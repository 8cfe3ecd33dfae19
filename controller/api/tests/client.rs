//! A connection fails soon, and says why.

use std::time::Duration;

use penstock_api::client::{Options, Tls, connect};

async fn refusal(server: &str, tls: Option<Tls>) -> String {
    let options = Options {
        server: server.to_owned(),
        connect_timeout: Duration::from_millis(500),
        tls,
    };
    connect(options).await.expect_err(server).to_string()
}

#[tokio::test]
async fn says_why_there_is_no_connection() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address");
    drop(free);
    let tls = || {
        Some(Tls {
            ca: b"not PEM".to_vec(),
            identity: None,
        })
    };
    for (server, tls, expected) in [
        (format!("http://{address}"), None, "Connection refused"),
        ("localhost:9500".to_owned(), None, "write http://HOST:PORT"),
        ("http://".to_owned(), None, "is no server address"),
        (
            "https://localhost:1".to_owned(),
            None,
            "needs the certificate authority",
        ),
        ("http://localhost:1".to_owned(), tls(), "write https://"),
    ] {
        let told = refusal(&server, tls).await;
        assert!(told.contains(expected), "{server}: {told}");
    }
}
