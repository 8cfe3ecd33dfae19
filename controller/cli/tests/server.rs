//! What a server answers, with the real program and a server that answers by
//! the book of one small store.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use penstock_api::convert;
use penstock_api::v1;
use penstock_api::v1::condition::{State, Type};
use penstock_api::v1::diagnostics_server::{Diagnostics, DiagnosticsServer};
use penstock_api::v1::resources_server::{Resources, ResourcesServer};
use penstock_policies::model;
use tokio_stream::Stream;
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

type Answer<T> = Result<Response<T>, Status>;
type Events<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Validates as a controller does; everything is programmed at the second look.
#[derive(Clone, Default)]
struct Store {
    resources: Arc<Mutex<BTreeMap<String, v1::Resource>>>,
    looks: Arc<Mutex<u32>>,
}

#[tonic::async_trait]
impl Resources for Store {
    async fn apply(&self, request: Request<v1::ApplyRequest>) -> Answer<v1::ApplyResponse> {
        let v1::ApplyRequest {
            resources,
            validate_only,
            request_id: _,
        } = request.into_inner();
        let documents: Vec<_> = resources
            .iter()
            .map(|r| convert::to_document(r).expect("a document"))
            .collect();
        if let Err(problems) = model::validate(&documents) {
            let mut details = ErrorDetails::new();
            for p in problems {
                let field = convert::violation_field(p.resource, &p.field);
                details
                    .add_bad_request_violation(field, format!("{}; {}", p.message, p.suggestion));
            }
            let message = "the set has problems";
            return Err(Status::with_error_details(
                Code::InvalidArgument,
                message,
                details,
            ));
        }
        let changed = u32::try_from(resources.len()).expect("few");
        if !validate_only {
            let mut stored = self.resources.lock().expect("the store");
            for r in &resources {
                let mut r = r.clone();
                let etag = r.metadata.as_ref().map_or("", |m| &m.etag);
                if !etag.is_empty() && etag != "e1" {
                    return Err(Status::aborted(format!("{} has changed", r.name)));
                }
                let etag = "e1".to_owned();
                r.metadata = Some(v1::Metadata {
                    generation: 4,
                    etag,
                    ..v1::Metadata::default()
                });
                stored.insert(r.name.clone(), r);
            }
        }
        Ok(Response::new(v1::ApplyResponse {
            revision: 7,
            resources,
            changed,
        }))
    }

    async fn get(&self, request: Request<v1::GetRequest>) -> Answer<v1::Resource> {
        let name = request.into_inner().name;
        let stored = self.resources.lock().expect("the store");
        let found = stored.get(&name).cloned();
        found
            .map(Response::new)
            .ok_or_else(|| Status::not_found(format!("{name} does not exist")))
    }

    /// Two to a page, so that pages are turned.
    async fn list(&self, request: Request<v1::ListRequest>) -> Answer<v1::ListResponse> {
        let v1::ListRequest {
            parent,
            kind,
            page_token,
            ..
        } = request.into_inner();
        let programmed = {
            let mut looks = self.looks.lock().expect("looks");
            *looks += u32::from(page_token.is_empty());
            *looks > 1
        };
        let stored = self.resources.lock().expect("the store");
        let mut resources: Vec<_> = stored
            .values()
            .filter(|r| r.name.starts_with(&parent) && r.name > page_token)
            .filter(|r| {
                let document = convert::to_document(r).expect("a document");
                kind.is_empty() || document.spec.kind().name() == kind
            })
            .map(|r| v1::Resource {
                status: Some(status(programmed)),
                ..r.clone()
            })
            .collect();
        let more = resources.len() > 2;
        resources.truncate(2);
        let last = resources.last().map(|r| r.name.clone()).unwrap_or_default();
        let next_page_token = if more { last } else { String::new() };
        Ok(Response::new(v1::ListResponse {
            resources,
            next_page_token,
            revision: 7,
        }))
    }

    async fn delete(&self, request: Request<v1::DeleteRequest>) -> Answer<v1::DeleteResponse> {
        let v1::DeleteRequest {
            names,
            allow_missing,
            etag: _,
        } = request.into_inner();
        let mut stored = self.resources.lock().expect("the store");
        if let Some(name) = names.iter().find(|name| !stored.contains_key(*name))
            && !allow_missing
        {
            return Err(Status::not_found(format!("{name} does not exist")));
        }
        if names.iter().any(|name| name == "tenants/blue") && names.len() == 1 {
            let mut details = ErrorDetails::new();
            details.add_precondition_failure_violation(
                "REFERENCE",
                "tenants/blue/vpcs/main",
                "is a part of it",
            );
            let message = "1 reference stands in the way";
            return Err(Status::with_error_details(
                Code::FailedPrecondition,
                message,
                details,
            ));
        }
        let before = stored.len();
        stored.retain(|name, _| !names.contains(name));
        let deleted = u32::try_from(before - stored.len()).expect("few");
        Ok(Response::new(v1::DeleteResponse {
            revision: 8,
            deleted,
        }))
    }

    type WatchStream = Events<v1::Event>;

    async fn watch(&self, _: Request<v1::WatchRequest>) -> Answer<Self::WatchStream> {
        Err(Status::unimplemented("nobody watches here"))
    }
}

fn status(programmed: bool) -> v1::Status {
    let state = if programmed {
        State::True
    } else {
        State::False
    };
    v1::Status {
        observed_generation: 4,
        conditions: vec![v1::Condition {
            r#type: Type::Programmed.into(),
            state: state.into(),
            reason: "NodeUnreachable".into(),
            message: "host-b does not answer".into(),
        }],
        nodes: vec![v1::NodeStatus {
            node: "nodes/host-a".into(),
            programmed,
            ..v1::NodeStatus::default()
        }],
    }
}

#[tonic::async_trait]
impl Diagnostics for Store {
    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Answer<v1::ExplainResponse> {
        let request = request.into_inner();
        Ok(Response::new(v1::ExplainResponse {
            verdict: v1::Action::Deny.into(),
            steps: vec![v1::Step {
                direction: v1::Direction::Egress.into(),
                node: "nodes/host-b".into(),
                verdict: v1::Action::Deny.into(),
                reason: format!("asked for {} and {}", request.destination_port, request.to),
                port: request.from_port,
                ..v1::Step::default()
            }],
            source_ip: "10.0.0.21".into(),
            destination_ip: "10.0.0.11".into(),
            ..v1::ExplainResponse::default()
        }))
    }

    type ListFlowsStream = Events<v1::Flow>;

    async fn list_flows(
        &self,
        request: Request<v1::ListFlowsRequest>,
    ) -> Answer<Self::ListFlowsStream> {
        let v1::ListFlowsRequest {
            node,
            port,
            limit: _,
        } = request.into_inner();
        let flow = v1::Flow {
            node,
            port,
            source_ip: "fd00::1".into(),
            destination_ip: "fd00::2".into(),
            protocol: 6,
            source_port: 1234,
            destination_port: 80,
            state: "established".into(),
            nic_packets: 1 << 60,
            offloaded: true,
            idle_ns: 3_000_000_000,
            direction: v1::Direction::Egress.into(),
            ..v1::Flow::default()
        };
        let ping = v1::Flow {
            protocol: 1,
            destination_port: 8 << 8,
            offloaded: false,
            ..flow.clone()
        };
        Ok(Response::new(Box::pin(tokio_stream::iter([
            Ok(flow),
            Ok(ping),
        ]))))
    }

    async fn list_drops(&self, _: Request<v1::ListDropsRequest>) -> Answer<v1::ListDropsResponse> {
        Ok(Response::new(v1::ListDropsResponse {
            counters: vec![v1::DropCounter {
                node: "nodes/host-a".into(),
                reason: "spoofed".into(),
                packets: 12,
            }],
            drops: vec![v1::Drop {
                node: "nodes/host-a".into(),
                port: "p".into(),
                reason: "denied_ingress".into(),
                protocol: 17,
                source_ip: "10.0.0.1".into(),
                destination_ip: "10.0.0.2".into(),
                explanation: "no rule allows it\n  more".into(),
                ..v1::Drop::default()
            }],
        }))
    }
}

async fn serve() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    let store = Store::default();
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(ResourcesServer::new(store.clone()))
            .add_service(DiagnosticsServer::new(store))
            .serve_with_incoming(incoming),
    );
    address
}

fn policies() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies")
}

/// Exit code, standard output, standard error.
async fn penstock(server: SocketAddr, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_penstock"));
    command
        .current_dir(policies())
        .env("PENSTOCK_SERVER", format!("http://{server}"))
        .args(arguments);
    // The program has deadlines of its own, so the thread ends.
    let run = tokio::task::spawn_blocking(move || command.output());
    let Output {
        status,
        stdout,
        stderr,
    } = tokio::time::timeout(Duration::from_secs(60), run)
        .await
        .expect("an end")
        .expect("no panic")
        .expect("penstock");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (
        status.code().expect("an exit code"),
        text(stdout),
        text(stderr),
    )
}

#[tokio::test]
async fn declare_wait_look_and_remove() {
    let server = serve().await;
    let example = "examples/two-tenants";
    let count = penstock_policies::document::load(&policies().join(example))
        .expect("the example")
        .resources
        .len();
    let (code, out, _) = penstock(server, &["apply", "-f", example, "--dry-run"]).await;
    let told = format!("{count} resources are valid, {count} would change; nothing was stored\n");
    assert!(code == 0 && out.starts_with(&told), "{out}");
    let has = |row: &[&str]| {
        out.lines()
            .any(|line| line.split_whitespace().eq(row.iter().copied()))
    };
    assert!(
        has(&["NODE", "NIC", "TABLE", "NOW", "THEN", "CAPACITY"]),
        "{out}"
    );
    // Its two VPCs are on both nodes, with a port of each family per line of the file.
    assert!(
        has(&["nodes/host-a", "1", "underlay", "0", "2", "-"]),
        "{out}"
    );
    let (code, out, _) = penstock(server, &["get", "all"]).await;
    assert_eq!((code, out.trim()), (0, "KIND  NAME  STATUS  REASON"));

    let (code, out, _) = penstock(server, &["apply", "-f", example]).await;
    assert_eq!(
        (code, out.as_str()),
        (
            0,
            format!("{count} resources accepted, {count} changed, revision 7\n").as_str()
        )
    );
    let (code, out, error) = penstock(server, &["wait", "-f", example]).await;
    assert_eq!(
        (code, out.as_str()),
        (0, format!("{count} resources programmed\n").as_str()),
        "{error}"
    );

    let (_, out, _) = penstock(server, &["get", "ports", "--in", "tenants/blue"]).await;
    assert!(!out.contains("tenants/red"), "{out}");
    let client = out
        .lines()
        .find(|l| l.contains("ports/client"))
        .expect("the port");
    assert_eq!(
        client.split_whitespace().collect::<Vec<_>>(),
        [
            "tenants/blue/vpcs/main/ports/client",
            "host-b",
            "1",
            "blue-client",
            "-",
            "02:00:00:00:01:21",
            "10.0.0.21,fd00:10::21",
            "client",
            "Programmed",
            "1/1",
        ]
    );

    // What get shows, apply takes back, status and all.
    let (_, yaml, _) = penstock(
        server,
        &["get", "tenants/red/vpcs/main/ports", "-o", "yaml"],
    )
    .await;
    assert!(
        yaml.contains("observedGeneration: 4") && yaml.contains("etag: e1"),
        "{yaml}"
    );
    let file = tempfile::NamedTempFile::with_suffix(".yaml").expect("a file");
    std::fs::write(file.path(), yaml + "---\n").expect("written");
    let path = file.path().to_str().expect("UTF-8");
    // The three ports alone are no complete set here, so only their form counts.
    let (code, out, _) = penstock(server, &["apply", "-f", path]).await;
    assert_eq!(code, 1);
    assert!(
        out.contains("Vpc tenants/red/vpcs/main does not exist"),
        "{out}"
    );

    let (code, _, error) = penstock(server, &["delete", "nodes/host-c"]).await;
    assert_eq!(
        (code, error.as_str()),
        (4, "penstock: nodes/host-c does not exist\n")
    );
    let (code, _, error) = penstock(server, &["delete", "tenants/blue"]).await;
    assert_eq!(code, 4);
    assert_eq!(
        error,
        "penstock: 1 reference stands in the way\n  tenants/blue/vpcs/main: is a part of it\n"
    );
    let (code, out, _) = penstock(server, &["delete", "-f", example]).await;
    assert_eq!(
        (code, out.as_str()),
        (
            0,
            format!("{count} resources deleted, revision 8\n").as_str()
        )
    );
}

#[tokio::test]
async fn policies_are_declared_looked_at_and_removed() {
    let server = serve().await;
    let example = "examples/tiers";
    let (code, _, error) = penstock(server, &["apply", "-f", example]).await;
    assert_eq!(code, 0, "{error}");
    let lines = |out: &str| -> Vec<Vec<String>> {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        out.lines().map(words).collect()
    };
    let (_, out, _) = penstock(server, &["get", "policies"]).await;
    let policies = lines(&out);
    assert_eq!(policies.len(), 6, "{out}");
    let train = "tenants/research/vpcs/train";
    for expected in [
        format!("{train}/policies/quarantine ADMIN 0 1 selector 2 - ENFORCE"),
        format!("{train}/policies/platform ADMIN 100 every port 3 - ENFORCE"),
        format!("{train}/policies/logins TENANT - 1 ports 1 INGRESS ENFORCE"),
        format!("{train}/policies/otherwise BASELINE 1000 every port 5 - ENFORCE"),
        format!("{train}/policies/no-web ADMIN 1000 every port 1 - AUDIT"),
    ] {
        let found = policies
            .iter()
            .any(|line| line.join(" ").starts_with(&expected));
        assert!(found, "{expected}: {out}");
    }
    for (kind, expected) in [
        ("prefixSets", format!("{train}/prefixSets/monitoring 2 ")),
        (
            "peerings",
            format!("{train}/peerings/storage tenants/storage/vpcs/data "),
        ),
        (
            "securityGroups",
            format!("{train}/securityGroups/trainers 3 INGRESS,EGRESS ENFORCE "),
        ),
    ] {
        let (code, out, _) = penstock(server, &["get", kind, "--in", train]).await;
        let found = lines(&out)
            .iter()
            .any(|line| line.join(" ").starts_with(&expected));
        assert!(code == 0 && found, "{kind}: {out}");
    }
    // What get shows of all, apply takes back.
    let (_, yaml, _) = penstock(server, &["get", "all", "-o", "yaml"]).await;
    assert!(
        yaml.contains("operator: EXISTS") && yaml.contains("stateful: false"),
        "{yaml}"
    );
    let file = tempfile::NamedTempFile::with_suffix(".yaml").expect("a file");
    std::fs::write(file.path(), yaml).expect("written");
    let path = file.path().to_str().expect("UTF-8");
    let (code, out, error) = penstock(server, &["apply", "-f", path]).await;
    assert_eq!(code, 0, "{out} {error}");
    let name = format!("{train}/policies/otherwise");
    let (_, out, _) = penstock(server, &["get", &name]).await;
    assert!(
        out.contains("tier: BASELINE") && out.contains("generation 4"),
        "{out}"
    );
    let (code, _, _) = penstock(server, &["delete", &name]).await;
    assert_eq!(code, 0);
    let (code, _, error) = penstock(server, &["get", "policy", "-o", "json"]).await;
    assert_eq!(code, 0, "{error}");
}

#[tokio::test]
async fn the_servers_problems_are_told_at_their_lines() {
    let server = serve().await;
    let file = "corpus/invalid/vni-used-twice.yaml";
    let (code, out, error) = penstock(server, &["apply", "-f", file]).await;
    assert_eq!((code, error.as_str()), (1, "penstock: 1 problem found\n"));
    assert_eq!(
        out,
        format!(
            "{file}:11:8: tenants/t/vpcs/w: spec.vni: 10 is used by tenants/t/vpcs/v; give each VPC its own\n"
        )
    );
    // What cannot be read is not sent.
    let (code, out, _) = penstock(server, &["apply", "-f", "corpus/invalid/syntax.yaml"]).await;
    assert_eq!(code, 1);
    assert!(out.contains("syntax.yaml:2:7: not YAML"), "{out}");
}

#[tokio::test]
async fn wait_says_what_is_missing_when_time_is_up() {
    let server = serve().await;
    let (code, _, error) = penstock(server, &["wait", "nodes/host-c", "--timeout", "0.3"]).await;
    assert_eq!(code, 5);
    assert!(error.contains("nodes/host-c  does not exist"), "{error}");
    assert!(
        error.contains("1 of 1 not programmed within 300ms"),
        "{error}"
    );
}

#[tokio::test]
async fn observations_are_shown_for_people_and_for_programs() {
    let server = serve().await;
    let (_, out, _) = penstock(
        server,
        &["flows", "--node", "host-a", "--port", "blue/main/web"],
    )
    .await;
    assert!(
        out.contains("host-a  tenants/blue/vpcs/main/ports/web"),
        "{out}"
    );
    assert!(
        out.contains("[fd00::1]:1234") && out.contains("1152921504606846976") && out.contains("3s"),
        "{out}"
    );
    assert!(out.contains("type 8 code 0"), "{out}");
    let (_, json, _) = penstock(server, &["flows", "-o", "json"]).await;
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json[0]["nicPackets"], 1_u64 << 60);

    let (_, out, _) = penstock(server, &["drops"]).await;
    assert!(out.contains("host-a  spoofed  12"), "{out}");
    assert!(out.contains("denied_ingress  no rule allows it\n"), "{out}");

    let (_, out, _) = penstock(
        server,
        &[
            "explain",
            "--from",
            "blue/main/client",
            "--to",
            "blue/main/web",
            "--proto",
            "udp",
            "--dport",
            "7",
        ],
    )
    .await;
    assert!(
        out.contains("asked for 7 and tenants/blue/vpcs/main/ports/web"),
        "{out}"
    );
}

/// What would be applied is laid over what is there.
#[tokio::test]
async fn diff_compares_with_what_the_server_has() {
    let server = serve().await;
    let example = "examples/two-tenants";
    let (code, ..) = penstock(server, &["apply", "-f", example]).await;
    assert_eq!(code, 0);
    let (code, out, _) = penstock(server, &["diff", "-f", example]).await;
    let none = "no port may talk to others than before, nor in another way
0 of 2 live connections would be cut (each end counts)
";
    assert_eq!((code, out.as_str()), (0, none));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("web.yaml");
    let closed = "kind: SecurityGroup
name: tenants/blue/vpcs/main/securityGroups/web
spec: {directions: [INGRESS]}
";
    std::fs::write(&file, closed).expect("a document");
    let path = file.to_str().expect("UTF-8");
    let (code, out, _) = penstock(server, &["diff", "-f", path]).await;
    assert_eq!(code, 1, "{out}");
    assert!(
        out.contains("closes   TCP port 80  (allow -> deny)"),
        "{out}"
    );
    let again = ["apply", "--dry-run", "-f", example, "-o", "json"];
    let (code, out, _) = penstock(server, &again).await;
    let value: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(
        (code, &value["tables"]),
        (0, &serde_json::json!([])),
        "{out}"
    );
    assert_eq!(value["degraded"], serde_json::json!([]));
}
