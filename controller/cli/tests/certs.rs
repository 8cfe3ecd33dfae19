//! `penstock admin certs`, and what its certificates are good for.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use penstock_identity::server::Door;
use penstock_identity::{Credentials, Files, Kind};
use tokio::net::TcpListener;

/// Exit code, standard output, standard error.
fn penstock(
    directory: &Path,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_penstock"))
        .current_dir(directory)
        .env_clear()
        .envs(environment.iter().copied())
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn certs(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let all: Vec<_> = ["admin", "certs", "--out", "pki"]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    penstock(directory, &all, &[])
}

/// What is in the folder.
fn content(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory.join("pki")).unwrap();
    let entries = entries.map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

fn load(directory: &Path, name: &str) -> Credentials {
    let path = |file: &str| directory.join("pki").join(file);
    Credentials::load(&Files {
        ca: path("ca.crt"),
        certificate: path(&format!("{name}.crt")),
        key: path(&format!("{name}.key")),
    })
    .unwrap()
}

#[test]
fn an_authority_is_made_once_and_added_to() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let (code, out, error) = certs(directory, &["--node", "host-a", "--node", "host-b"]);
    assert_eq!((code, error.as_str()), (0, ""));
    let line = "spiffe://penstock/node/host-a      pki/node-host-a.crt      pki/node-host-a.key      issued\n";
    assert!(out.contains(line), "{out}");
    let first = content(directory);
    assert_eq!(
        first.keys().collect::<Vec<_>>(),
        [
            "ca.crt",
            "ca.key",
            "controller-main.crt",
            "controller-main.key",
            "node-host-a.crt",
            "node-host-a.key",
            "node-host-b.crt",
            "node-host-b.key",
            "operator-admin.crt",
            "operator-admin.key",
        ]
    );
    for name in first.keys() {
        let meta = std::fs::metadata(directory.join("pki").join(name)).unwrap();
        let expected = if name.ends_with(".key") { 0o600 } else { 0o644 };
        assert_eq!(
            meta.permissions().mode() & 0o777 & !0o022,
            expected,
            "{name}"
        );
    }
    for name in ["controller-main", "operator-admin", "node-host-a"] {
        let identity = load(directory, name).identity().clone();
        assert_eq!(format!("{}-{}", identity.kind(), identity.name()), name);
    }

    // Again, with one more: what was there is not touched, and no default comes back.
    let (code, out, _) = certs(
        directory,
        &["--node", "host-a", "--node", "host-c", "-o", "json"],
    );
    assert_eq!(code, 0);
    let rows: serde_json::Value = serde_json::from_str(&out).unwrap();
    let state = |row: usize| rows[row]["state"].as_str().unwrap().to_owned();
    assert_eq!(
        (state(0), state(1)),
        ("kept".to_owned(), "issued".to_owned())
    );
    let mut second = content(directory);
    assert!(
        second.remove("node-host-c.crt").is_some() && second.remove("node-host-c.key").is_some()
    );
    assert_eq!(first, second);

    // By force, only what is named is new.
    let (code, out, _) = certs(directory, &["--node", "host-a", "--force"]);
    assert_eq!(code, 0);
    assert!(out.contains("replaced"), "{out}");
    let third = content(directory);
    assert_ne!(first["node-host-a.crt"], third["node-host-a.crt"]);
    assert_eq!(first["ca.crt"], third["ca.crt"]);
    assert_eq!(first["node-host-b.key"], third["node-host-b.key"]);
    load(directory, "node-host-a");
}

#[test]
fn nothing_is_overwritten_and_nothing_half_done() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let (code, _, error) = certs(directory, &["--node", "Host_A"]);
    assert_eq!(code, 2);
    assert!(error.contains("--node \"Host_A\" is not a name"), "{error}");
    assert!(!directory.join("pki").exists());

    assert_eq!(
        certs(directory, &["--node", "host-a", "--node", "host-b"]).0,
        0
    );
    let pki = directory.join("pki");
    std::fs::remove_file(pki.join("node-host-a.key")).unwrap();
    std::fs::copy(pki.join("controller-main.crt"), pki.join("node-host-b.crt")).unwrap();
    let before = content(directory);
    for (node, expected) in [
        (
            "host-a",
            "pki/node-host-a.crt is there, and pki/node-host-a.key is not; --force issues both anew",
        ),
        (
            "host-b",
            "pki/node-host-b.key is not the key of pki/node-host-b.crt",
        ),
    ] {
        let (code, _, error) = certs(directory, &["--node", node]);
        assert_eq!(code, 2);
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(content(directory), before);
    assert_eq!(
        certs(
            directory,
            &["--node", "host-a", "--node", "host-b", "--force"]
        )
        .0,
        0
    );
    load(directory, "node-host-b");

    std::fs::remove_file(pki.join("ca.key")).unwrap();
    let (code, _, error) = certs(directory, &["--node", "host-c", "--force"]);
    assert_eq!(code, 2);
    assert!(
        error.contains("pki/ca.key is not; bring it back"),
        "{error}"
    );
}

#[tokio::test]
async fn the_command_calls_with_its_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    assert_eq!(certs(directory, &["--node", "host-a"]).0, 0);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let door = Door::locked(load(directory, "controller-main"), &[Kind::Operator]);
    // It lets in, and knows no call.
    let server = tonic::transport::Server::builder()
        .layer(door.guard())
        .add_routes(tonic::service::Routes::default())
        .serve_with_incoming(door.accept(listener));
    tokio::spawn(server);
    let server = format!("https://{address}");
    let plain = format!("http://{address}");
    let tls = |name: &str| {
        [
            ("PENSTOCK_CA", "pki/ca.crt".to_owned()),
            ("PENSTOCK_CERT", format!("pki/{name}.crt")),
            ("PENSTOCK_KEY", format!("pki/{name}.key")),
        ]
    };
    for (files, server, code, expected) in [
        (
            Some(tls("operator-admin")),
            &server,
            3,
            "the server does not know this call",
        ),
        (
            Some(tls("controller-main")),
            &server,
            4,
            "you are spiffe://penstock/controller/main, and spiffe://penstock/controller/main hears only operator",
        ),
        (
            Some(tls("node-host-a")),
            &server,
            3,
            "refused our certificate of spiffe://penstock/node/host-a: it is not for clients",
        ),
        (None, &server, 2, "needs our certificate and key"),
        (None, &plain, 4, "this server speaks TLS only"),
        (Some(tls("operator-admin")), &plain, 2, "write https://"),
    ] {
        let directory = directory.to_owned();
        let server = server.clone();
        let told = tokio::task::spawn_blocking(move || {
            let environment = files.map_or_else(Vec::new, Vec::from);
            let environment: Vec<_> = environment
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            penstock(
                &directory,
                &["get", "nodes", "--server", &server],
                &environment,
            )
        });
        let (found, _, error) = told.await.unwrap();
        assert!(error.contains(expected), "{expected}: {error}");
        assert_eq!(found, code, "{error}");
    }
    let (code, _, error) = penstock(directory, &["get", "nodes", "--tls-ca", "pki/ca.crt"], &[]);
    assert_eq!(code, 2);
    assert!(error.contains("give all or none"), "{error}");
}
