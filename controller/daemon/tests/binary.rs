//! penstockd as a process: arguments, signals, and what a kill leaves behind.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use penstock_api::client::{Client, Options, connect};
use penstock_api::v1;

struct Process {
    child: Child,
    address: String,
}

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_penstockd"));
    command
        .arg("--data-dir")
        .arg(directory)
        .args(arguments)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

impl Process {
    /// Starts it and reads its address from the log.
    fn start(directory: &Path) -> Self {
        let mut child = command(
            directory,
            &[
                "--insecure",
                "--listen",
                "127.0.0.1:0",
                "--log-format",
                "json",
            ],
        )
        .spawn()
        .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        // Ends with the process at the latest.
        let address = loop {
            line.clear();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "it does not start");
            if let Some((_, rest)) = line.split_once("\"address\":\"") {
                break rest.split('"').next().unwrap().to_owned();
            }
        };
        // Somebody must read on, or it stops at a full pipe.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { child, address }
    }

    async fn client(&self) -> Client {
        connect(Options {
            server: format!("http://{}", self.address),
            connect_timeout: Duration::from_secs(5),
            tls: None,
        })
        .await
        .unwrap()
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Lets the clients in this process take part in the end.
    async fn wait(mut self) -> std::process::ExitStatus {
        tokio::task::spawn_blocking(move || wait(&mut self.child))
            .await
            .unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait(child: &mut Child) -> std::process::ExitStatus {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < deadline, "waited for the process to end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What it says when it refuses to start.
fn refusal(directory: &Path, arguments: &[&str]) -> String {
    let mut child = command(directory, arguments).spawn().unwrap();
    assert!(!wait(&mut child).success());
    let mut text = String::new();
    child.stderr.unwrap().read_to_string(&mut text).unwrap();
    text
}

fn tenant(number: u64) -> v1::ApplyRequest {
    v1::ApplyRequest {
        resources: vec![v1::Resource {
            name: format!("tenants/t{number}"),
            spec: Some(v1::resource::Spec::Tenant(v1::Tenant::default())),
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn an_open_address_is_never_insecure() {
    let directory = tempfile::tempdir().unwrap();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let text = refusal(directory.path(), &["--insecure", "--listen", address]);
        assert!(
            text.contains("can be reached from other machines"),
            "{text}"
        );
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn sigterm_ends_it_well_and_one_process_owns_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start(directory.path());
    let mut client = process.client().await.resources;
    client.apply(tenant(1)).await.unwrap();
    let text = refusal(directory.path(), &["--insecure", "--listen", "127.0.0.1:0"]);
    assert!(text.contains("in use by another process"), "{text}");
    process.signal("-TERM");
    assert!(process.wait().await.success());

    let process = Process::start(directory.path());
    let mut client = process.client().await.resources;
    let name = "tenants/t1".to_owned();
    client.get(v1::GetRequest { name }).await.unwrap();
    process.signal("-INT");
    assert!(process.wait().await.success());
}

#[tokio::test]
async fn a_kill_loses_nothing_that_was_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    for round in 0..3 {
        let process = Process::start(directory.path());
        let mut client = process.client().await.resources;
        for number in 0..acknowledged {
            let name = format!("tenants/t{number}");
            client.get(v1::GetRequest { name }).await.unwrap();
        }
        let id = process.child.id().to_string();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(60 + round * 37));
            Command::new("kill").args(["-KILL", &id]).status().unwrap()
        });
        while client.apply(tenant(acknowledged)).await.is_ok() {
            acknowledged += 1;
        }
        assert!(killer.join().unwrap().success());
        process.wait().await;
    }
    assert!(acknowledged > 10, "{acknowledged}");
}
