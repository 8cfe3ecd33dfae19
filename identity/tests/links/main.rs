//! Both ends of a connection on loopback: who is let in, and what the others are told.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

mod bed;

use std::time::Duration;

use bed::{Bed, Issuer, SOON, identity};
use penstock_identity::client::{Client, ConnectError, Expected};
use penstock_identity::server::Door;
use penstock_identity::{Credentials, CredentialsError, Files, Identity, Kind};
use tokio::time::timeout;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// What a call of the health service came to.
async fn call(endpoint: Endpoint, client: Option<Client>, address: &str) -> Result<(), String> {
    let connected = async {
        match client {
            Some(client) => client
                .channel(endpoint, address)
                .await
                .map_err(|error| error.to_string()),
            None => endpoint.connect().await.map_err(|error| error.to_string()),
        }
    };
    let channel = timeout(SOON, connected).await.expect("in time")?;
    let mut health = HealthClient::new(channel);
    let answer = health.check(HealthCheckRequest::default());
    match timeout(SOON, answer).await.expect("in time") {
        Ok(_) => Ok(()),
        Err(status) => {
            let mut told = format!("{:?}: {}", status.code(), status.message());
            let mut cause = std::error::Error::source(&status);
            while let Some(error) = cause {
                told = format!("{told}: {error}");
                cause = error.source();
            }
            Err(told)
        }
    }
}

fn endpoint(address: &str) -> Endpoint {
    Endpoint::from_shared(format!("http://{address}")).unwrap()
}

async fn dial(address: &str, credentials: Credentials, expected: Expected) -> Result<(), String> {
    let client = Client::new(credentials, expected);
    call(endpoint(address), Some(client), address).await
}

#[tokio::test]
async fn a_node_hears_its_controllers() {
    let (issuer, bed) = (Issuer::new(), Bed::new());
    let address = bed.serve(Door::locked(issuer.node("host-a"), &[Kind::Controller]));
    let wanted = || Expected::Exactly(identity(Kind::Node, "host-a"));
    assert_eq!(dial(&address, issuer.controller(), wanted()).await, Ok(()));
    let any = Expected::Any(Kind::Node);
    assert_eq!(dial(&address, issuer.controller(), any).await, Ok(()));
}

#[tokio::test]
async fn whoever_is_of_the_wrong_kind_is_told_so() {
    let (issuer, bed) = (Issuer::new(), Bed::new());
    let address = bed.serve(Door::locked(issuer.node("host-a"), &[Kind::Controller]));
    let wanted = || Expected::Exactly(identity(Kind::Node, "host-a"));
    let told = dial(&address, issuer.operator(), wanted())
        .await
        .unwrap_err();
    assert_eq!(
        told,
        "PermissionDenied: you are spiffe://penstock/operator/admin, and \
         spiffe://penstock/node/host-a hears only controller; call with the certificate of one"
    );
    assert!(bed.log().contains("spiffe://penstock/operator/admin"));
    // A node's certificate is not for clients at all.
    let told = dial(&address, issuer.node("host-b"), wanted())
        .await
        .unwrap_err();
    assert_eq!(
        told,
        format!(
            "{address} refused our certificate of spiffe://penstock/node/host-b: it is not for \
             clients of this server; its log says more"
        )
    );
    let log = bed.log();
    assert!(
        log.contains("it presented a certificate of spiffe://penstock/node/host-b")
            && log.contains("not issued for this purpose"),
        "{log}"
    );
}

#[tokio::test]
async fn a_client_talks_to_nobody_but_whom_it_wants() {
    let (issuer, bed) = (Issuer::new(), Bed::new());
    let address = bed.serve(Door::locked(issuer.node("host-b"), &[Kind::Controller]));
    for (expected, wanted) in [
        (
            Expected::Exactly(identity(Kind::Node, "host-a")),
            "spiffe://penstock/node/host-a",
        ),
        (Expected::Any(Kind::Controller), "any controller"),
    ] {
        let told = dial(&address, issuer.controller(), expected)
            .await
            .unwrap_err();
        assert_eq!(
            told,
            format!(
                "{address} presented a certificate of spiffe://penstock/node/host-b, where \
                 {wanted} must be: correct the address, or the certificate of the program there"
            )
        );
    }
    let log = bed.log();
    assert!(log.contains("it refused our certificate"), "{log}");
}

#[tokio::test]
async fn certificates_of_another_authority_are_worth_nothing() {
    let (ours, theirs, bed) = (Issuer::new(), Issuer::new(), Bed::new());
    let address = bed.serve(Door::locked(ours.node("host-a"), &[Kind::Controller]));
    let wanted = || Expected::Exactly(identity(Kind::Node, "host-a"));
    // They do not believe us.
    let told = dial(&address, theirs.controller(), wanted())
        .await
        .unwrap_err();
    assert!(
        told.contains("presented a certificate of spiffe://penstock/node/host-a")
            && told.contains("not signed by the authority that is trusted here"),
        "{told}"
    );
    // We do not believe them. They believe whomever their file says: both authorities.
    let told = dial(&address, theirs.controller_trusting(&ours), wanted())
        .await
        .unwrap_err();
    assert_eq!(
        told,
        format!(
            "{address} refused our certificate of spiffe://penstock/controller/main: it trusts \
             another authority; its log says more"
        )
    );
    let log = bed.log();
    let expected =
        "it presented a certificate of spiffe://penstock/controller/main: it is not signed by";
    assert!(log.contains(expected), "{log}");
}

#[tokio::test]
async fn what_has_expired_is_refused_at_both_ends() {
    let (issuer, bed) = (Issuer::new(), Bed::new());
    let wanted = || Expected::Exactly(identity(Kind::Node, "host-a"));
    // Valid when it was read, and not any more.
    let short = issuer.lasting(identity(Kind::Controller, "main"), Duration::from_secs(2));
    let node = issuer.lasting(identity(Kind::Node, "host-a"), Duration::from_secs(2));
    let good = bed.serve(Door::locked(issuer.node("host-a"), &[Kind::Controller]));
    let old = bed.serve(Door::locked(node, &[Kind::Controller]));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let told = dial(&good, short, wanted()).await.unwrap_err();
    assert!(
        told.contains("refused our certificate of spiffe://penstock/controller/main")
            && told.contains("it has expired"),
        "{told}"
    );
    let log = bed.log();
    assert!(
        log.contains("a certificate of spiffe://penstock/controller/main: it expired"),
        "{log}"
    );
    let told = dial(&old, issuer.controller(), wanted()).await.unwrap_err();
    assert!(
        told.contains("presented a certificate of spiffe://penstock/node/host-a")
            && told.contains("it expired")
            && told.contains("issue a new one"),
        "{told}"
    );
}

#[tokio::test]
async fn plain_clients_of_a_locked_door_are_told_to_speak_tls() {
    let (issuer, bed) = (Issuer::new(), Bed::new());
    let address = bed.serve(Door::locked(issuer.node("host-a"), &[Kind::Controller]));
    let told = call(endpoint(&address), None, &address).await.unwrap_err();

    assert!(told.contains("this server speaks TLS only"), "{told}");
    let log = bed.log();
    assert!(
        log.contains("turned a client away that does not speak TLS"),
        "{log}"
    );
    // On the wire the reason is there for every client that shows it.
    let text = bed::speak(&address, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert!(text.contains("this server speaks TLS only"), "{text}");
}

#[tokio::test]
async fn tls_clients_of_an_open_door_are_told_that_there_is_no_tls() {
    let (issuer, bed) = (Issuer::new(), Bed::new());
    let address = bed.serve(Door::open());
    let told = dial(&address, issuer.controller(), Expected::Any(Kind::Node))
        .await
        .unwrap_err();
    assert!(
        told.starts_with(&format!("{address} does not speak TLS")),
        "{told}"
    );
    assert!(bed.log().contains("a client speaks TLS"), "{}", bed.log());
    assert_eq!(call(endpoint(&address), None, &address).await, Ok(()));
}

#[tokio::test]
async fn nobody_waits_for_a_silent_client() {
    let (issuer, bed) = (Issuer::new(), Bed::new());
    let address = bed.serve(Door::locked(issuer.node("host-a"), &[Kind::Controller]));
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(tokio::net::TcpStream::connect(&address).await.unwrap());
    }
    let any = Expected::Any(Kind::Node);
    assert_eq!(dial(&address, issuer.controller(), any).await, Ok(()));
}

#[tokio::test]
async fn nobody_there() {
    let issuer = Issuer::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let client = Client::new(issuer.controller(), Expected::Any(Kind::Node));
    let error = client.channel(endpoint(&address), &address).await;
    let error = error.unwrap_err();
    assert!(matches!(error, ConnectError::Reach { .. }), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[test]
fn files_that_cannot_serve_are_refused_when_they_are_read() {
    let (issuer, other) = (Issuer::new(), Issuer::new());
    let (a, b) = (
        issuer.files(&identity(Kind::Node, "host-a")),
        issuer.files(&identity(Kind::Node, "host-b")),
    );
    let expired = issuer.files_between(
        &identity(Kind::Operator, "admin"),
        Duration::from_secs(9 * 86_400),
        -3.5 * 86_400.0,
    );
    let with = |change: &dyn Fn(&mut Files)| {
        let mut files = a.clone();
        change(&mut files);
        Credentials::load(&files).unwrap_err()
    };
    let missing = with(&|files| files.key = "/no/such.key".into());
    assert!(missing.to_string().contains("/no/such.key"), "{missing}");
    let swapped = with(&|files| files.certificate = a.key.clone());
    assert!(
        matches!(
            swapped,
            CredentialsError::Pem {
                what: "certificate",
                ..
            }
        ),
        "{swapped}"
    );
    let foreign = with(&|files| files.key = b.key.clone());
    assert!(foreign.to_string().contains("issued together"), "{foreign}");
    let untrusted = with(&|files| files.ca = other.ca());
    assert!(
        untrusted
            .to_string()
            .contains("spiffe://penstock/node/host-a")
            && untrusted
                .to_string()
                .contains("not signed by the authority"),
        "{untrusted}"
    );
    let anybody = with(&|files| {
        files.certificate = issuer.ca();
        files.key = issuer.ca_key();
    });
    assert!(
        matches!(anybody, CredentialsError::Identity { .. }),
        "{anybody}"
    );
    let late = Credentials::load(&expired).unwrap_err();
    assert!(late.to_string().contains("it expired 3 days ago"), "{late}");
    let good = Credentials::load(&a).unwrap();
    assert_eq!(
        good.identity(),
        &Identity::new(Kind::Node, "host-a").unwrap()
    );
    assert!(!format!("{good:?}").contains("PRIVATE"));
}
