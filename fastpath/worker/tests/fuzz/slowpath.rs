//! SlowPath's server against any sequence of requests: it never fails itself; what it says
//! is in force is in force, on disk and in the engine; what it refuses changes nothing.

use std::sync::Arc;
use std::time::Duration;

use penstock_flow::Mac;
use penstock_rules::Ruleset;
use penstock_rules::model::Policy;
use penstock_slowpath_api::v1::policy_status::Result as Verdict;
use penstock_slowpath_api::v1::slow_path_client::SlowPathClient;
use penstock_slowpath_api::v1::slow_path_server::SlowPathServer;
use penstock_slowpath_api::{encode, v1};
use penstock_worker::agent::slowpath::node::PortsFile;
use penstock_worker::agent::slowpath::{Facts, Node, Server};
use penstock_worker::config;
use penstock_worker::policy::decode;
use penstock_worker::ports::{Attachments, Numbers, memory};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::host::{Choices, DEVICE_PORTS, Host, NICS};
use crate::updates::{self, INTERFACES};

type Client = SlowPathClient<SlowPathServer<Server>>;

/// Requests of one sequence.
const STEPS: usize = 40;
/// Every message is answered by then.
const SOON: Duration = Duration::from_secs(10);

struct Sync {
    updates: mpsc::Sender<v1::PolicyUpdate>,
    answers: Streaming<v1::PolicyStatus>,
}

struct Bed {
    host: Host,
    node: Arc<Node>,
    interfaces: Arc<memory::Host>,
    client: Client,
    sync: Option<Sync>,
}

/// The property.
pub(crate) fn slowpath(bytes: &[u8]) {
    let mut c = Choices(bytes);
    let host = Host::new();
    let mut bed = Bed::on(host);
    for _ in 0..STEPS {
        if c.is_empty() {
            break;
        }
        bed.step(&mut c);
    }
    bed.check();
}

/// The node as its files describe it.
pub(crate) fn resume(host: &mut Host, interfaces: Arc<memory::Host>) -> Node {
    let kept = PortsFile::load(&host.store).expect("what cannot be read is set aside");
    let kept = kept.unwrap_or_default();
    let attachments = Attachments::new(
        interfaces,
        host.lcores.clone(),
        config::Attachments {
            allow: vec![config::Pattern::parse("v*").expect("a pattern")],
            shield: true,
        },
        Numbers::resume(DEVICE_PORTS, kept),
    );
    let nics = NICS.map(|device_id| v1::NicInfo {
        device_id,
        uplink_port: device_id,
        uplink_mac: Mac::default().0.to_vec(),
        ..Default::default()
    });
    let facts = Facts {
        node: "n1".into(),
        lcores: 1,
        nics: nics.to_vec(),
    };
    let store = Arc::clone(&host.store);
    let recovery = Duration::from_secs(1);
    let resuming = Node::resume(facts, host.lcores.clone(), store, attachments, recovery);
    host.run(resuming)
        .expect("what cannot be used is set aside")
}

impl Bed {
    fn on(mut host: Host) -> Self {
        let interfaces = Arc::new(memory::Host::new(["va", "vb", "vc"]));
        let node = Arc::new(resume(&mut host, Arc::clone(&interfaces)));
        let server = Server::new(Arc::clone(&node));
        Self {
            host,
            node,
            interfaces,
            client: SlowPathClient::new(SlowPathServer::new(server)),
            sync: None,
        }
    }

    fn step(&mut self, c: &mut Choices<'_>) {
        match c.byte() % 16 {
            0..7 => {
                let update = updates::update(c, self.generation());
                self.update(update);
            }
            7 => self.update(updates::good(self.generation().saturating_add(1))),
            8 => {
                if let Ok(update) = v1::PolicyUpdate::decode(c.some()) {
                    self.update(update);
                }
            }
            9 => self.flows(c),
            10 => self.drops(c),
            11 => self.info(),
            12 => self.import(c),
            13 => self.export(c),
            14 => {
                let name = c.of(&INTERFACES);
                if c.rarely(2) {
                    self.interfaces.plug(name);
                } else {
                    self.interfaces.unplug(name);
                }
                let node = Arc::clone(&self.node);
                self.host
                    .run(async move { node.look_after_ports().await })
                    .expect("the engine runs");
            }
            // The next update opens a stream that displaces this one, or not.
            _ => match c.rarely(2) {
                true => drop(self.sync.take()),
                false => self.open(),
            },
        }
    }

    fn generation(&self) -> u64 {
        self.node.info().generation
    }

    fn policy(&self) -> Option<(u64, Policy)> {
        let ruleset = self.node.ruleset()?;
        Some((ruleset.generation(), Ruleset::policy(&ruleset)))
    }

    fn open(&mut self) {
        let before = self.sync.take();
        let (updates, stream) = mpsc::channel(1);
        let answers = self
            .host
            .run(self.client.sync_policy(ReceiverStream::new(stream)));
        let answers = answers.expect("opens").into_inner();
        if let Some(mut before) = before {
            let end = self.host.run(async {
                loop {
                    match timeout(SOON, before.answers.message()).await {
                        // News about interfaces.
                        Ok(Ok(Some(_))) => {}
                        other => break other,
                    }
                }
            });
            let status = end.expect("it is displaced").expect_err("with a reason");
            assert_eq!(status.code(), Code::Aborted, "{status}");
        }
        self.sync = Some(Sync { updates, answers });
    }

    fn update(&mut self, update: v1::PolicyUpdate) {
        if self.sync.is_none() {
            self.open();
        }
        let before = self.policy();
        let Some(sync) = &mut self.sync else { return };
        let sent = update.clone();
        let answer = self.host.run(async {
            while let Ok(Ok(Some(_))) = timeout(Duration::ZERO, sync.answers.message()).await {}
            sync.updates.send(sent).await.expect("an open stream");
            timeout(SOON, sync.answers.message()).await
        });
        let answer = answer
            .expect("an answer")
            .expect("no error")
            .expect("a message");
        assert_eq!(answer.generation, update.generation);
        let after = self.policy();
        match Verdict::try_from(answer.result) {
            Ok(Verdict::InForce) => {
                let (generation, policy) = after.expect("a policy");
                assert_eq!(generation, update.generation);
                let last = before.as_ref().map_or(0, |(generation, _)| *generation);
                let same = before == Some((generation, policy.clone()));
                assert!(generation > last || same, "{generation} after {last}");
                assert!(update.base_generation == 0 || update.base_generation == last);
                assert_eq!(answer.attachments.len(), policy.ports.len());
                assert_eq!(answer.nics.len(), NICS.len());
            }
            Ok(Verdict::Refused | Verdict::Resync) => {
                assert!(!answer.message.is_empty(), "refused without a word");
                assert!(before == after, "refused, and changed: {update:?}");
            }
            Ok(Verdict::Unspecified) | Err(_) => panic!("{answer:?}"),
        }
        self.check();
    }

    /// What is in force is what the engine has and what the disk keeps.
    fn check(&mut self) {
        let generation = self.generation();
        assert_eq!(self.host.core.engine.generation(), generation);
        let kept: Option<v1::PolicyUpdate> = self.host.store.load("policy").expect("readable");
        let Some((_, policy)) = self.policy() else {
            assert!(kept.is_none() && generation == 0);
            return;
        };
        let kept = decode::snapshot(kept.expect("kept")).expect("a policy");
        assert!(kept == policy, "kept {kept:?}\nin force {policy:?}");
        let again = decode::snapshot(encode::snapshot(&policy, generation));
        assert_eq!(again.as_ref(), Ok(&policy));
    }

    fn flows(&mut self, c: &mut Choices<'_>) {
        let request = v1::ListFlowsRequest {
            port_id: c.of(&[0, 1, 2, u32::MAX]),
            limit: c.of(&[0, 1, 3, 65_536, 65_537, u32::MAX]),
        };
        let client = &mut self.client;
        let answer: Result<Vec<v1::Flow>, Status> = self.host.run(async {
            let mut stream = client.list_flows(request).await?.into_inner();
            let mut all = Vec::new();
            while let Some(flow) = stream.message().await? {
                all.push(flow);
            }
            Ok(all)
        });
        match answer {
            Ok(flows) => {
                assert!(request.limit == 0 || flows.len() <= request.limit as usize);
                let asked = |flow: &v1::Flow| [0, flow.port_id].contains(&request.port_id);
                assert!(flows.iter().all(asked), "{flows:?}");
            }
            Err(status) => {
                assert_eq!(status.code(), Code::InvalidArgument, "{status}");
                assert!(request.limit > 65_536);
            }
        }
    }

    fn drops(&mut self, c: &mut Choices<'_>) {
        let request = v1::ListDropsRequest {
            port_id: c.of(&[0, 1, u32::MAX]),
            limit: c.of(&[0, 1, u32::MAX]),
            allowed: true,
        };
        let answer = self.host.run(self.client.list_drops(request));
        answer.expect("answers");
    }

    fn info(&mut self) {
        let answer = self.host.run(self.client.get_node(v1::GetNodeRequest {}));
        let info = answer.expect("answers").into_inner();
        assert_eq!(info.generation, self.generation());
    }

    fn import(&mut self, c: &mut Choices<'_>) {
        let flows: Vec<_> = (0..c.byte() % 8).map(|_| updates::connection(c)).collect();
        let count = flows.len() as u64;
        let answer = self
            .host
            .run(self.client.import_flows(tokio_stream::iter(flows)));
        let v1::ImportFlowsResponse {
            imported,
            refused: refusals,
        } = answer.expect("answers").into_inner();
        let refused: u64 = refusals.iter().map(|refusal| refusal.flows).sum();
        assert_eq!(imported + refused, count, "each is told of once");
        assert!(
            imported == 0 || self.node.ruleset().is_some(),
            "without a policy"
        );
    }

    fn export(&mut self, c: &mut Choices<'_>) {
        let request = v1::ExportFlowsRequest {
            port_id: c.of(&[0, 1, u32::MAX]),
        };
        let client = &mut self.client;
        let states: Result<Vec<v1::FlowState>, Status> = self.host.run(async {
            let mut stream = client.export_flows(request).await?.into_inner();
            let mut all = Vec::new();
            while let Some(state) = stream.message().await? {
                all.push(state);
            }
            Ok(all)
        });
        for state in states.expect("answers") {
            let again = penstock_worker::flows::decode(state.clone());
            let again = again.expect("what was exported can be imported");
            assert_eq!(penstock_worker::flows::encode(&again), state);
        }
    }
}
