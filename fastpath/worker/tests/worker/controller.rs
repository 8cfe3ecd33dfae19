//! A controller small enough for tests.

use std::net::SocketAddr;
use std::time::Duration;

use p4runtime::batch::{self, Outcome};
use p4runtime::pipeline::{self, Entry, Table};
use p4runtime::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime::{Bits, Lpm, transport, update, v1};
use penstock_slowpath_api::v1 as slow;
use slow::slow_path_client::SlowPathClient;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

/// No answer takes as long.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// An open StreamChannel.
pub(crate) struct Arbitration {
    requests: mpsc::Sender<v1::StreamMessageRequest>,
    answers: Streaming<v1::StreamMessageResponse>,
}

/// An open SyncPolicy.
pub(crate) struct Sync {
    updates: mpsc::Sender<slow::PolicyUpdate>,
    answers: Streaming<slow::PolicyStatus>,
}

#[derive(Clone)]
pub(crate) struct Controller {
    pub(crate) p4: P4RuntimeClient<Channel>,
    pub(crate) slow: SlowPathClient<Channel>,
}

impl Controller {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let endpoint = transport::endpoint(format!("http://{address}")).expect("a URI");
        let channel = timeout(SOON, endpoint.connect())
            .await
            .expect("in time")
            .expect("connects");
        Self {
            p4: transport::client(channel.clone()),
            slow: SlowPathClient::new(channel),
        }
    }

    pub(crate) async fn arbitrate(&mut self) -> Arbitration {
        let (requests, stream) = mpsc::channel(8);
        let answers = self.p4.stream_channel(ReceiverStream::new(stream));
        let answers = timeout(SOON, answers).await.expect("in time");
        let answers = answers.expect("opens").into_inner();
        Arbitration { requests, answers }
    }

    /// Primary of a device with our pipeline committed.
    pub(crate) async fn take(&mut self, device_id: u64, election_id: u64) -> Arbitration {
        let mut stream = self.arbitrate().await;
        let standing = stream.bid(device_id, "", election_id).await;
        assert_eq!(standing.expect("an answer"), Code::Ok, "primary");
        self.set_pipeline(device_id, election_id, Action::VerifyAndCommit)
            .await
            .expect("commits");
        stream
    }

    pub(crate) async fn set_pipeline(
        &mut self,
        device_id: u64,
        election_id: u64,
        action: Action,
    ) -> Result<(), Status> {
        let config = pipeline::forwarding_config(b"").expect("ours");
        let request = v1::SetForwardingPipelineConfigRequest {
            device_id,
            election_id: Some(id(election_id)),
            action: action.into(),
            config: (action != Action::Commit).then_some(config),
            ..Default::default()
        };
        let answer = self.p4.set_forwarding_pipeline_config(request);
        timeout(SOON, answer).await.expect("in time").map(drop)
    }

    pub(crate) async fn write(
        &mut self,
        device_id: u64,
        election_id: u64,
        updates: Vec<v1::Update>,
        atomicity: v1::write_request::Atomicity,
    ) -> Result<(), Outcome> {
        let count = updates.len();
        let request = v1::WriteRequest {
            device_id,
            election_id: Some(id(election_id)),
            updates,
            atomicity: atomicity.into(),
            ..Default::default()
        };
        let answer = timeout(SOON, self.p4.write(request)).await;
        let answer = answer.expect("in time").map(drop);
        answer.map_err(|status| batch::outcome(status, count))
    }

    pub(crate) async fn insert(&mut self, device_id: u64, election_id: u64, entries: &[Entry]) {
        let updates = entries.iter().map(update::insert).collect();
        let atomicity = v1::write_request::Atomicity::ContinueOnError;
        let written = self.write(device_id, election_id, updates, atomicity).await;
        written.expect("all are taken");
    }

    pub(crate) async fn read(&mut self, device_id: u64, entity: v1::Entity) -> Vec<v1::TableEntry> {
        self.try_read(device_id, entity).await.expect("reads")
    }

    pub(crate) async fn try_read(
        &mut self,
        device_id: u64,
        entity: v1::Entity,
    ) -> Result<Vec<v1::TableEntry>, Status> {
        let request = v1::ReadRequest {
            device_id,
            entities: vec![entity],
            ..Default::default()
        };
        let stream = timeout(SOON, self.p4.read(request)).await.expect("in time");
        let mut stream = stream?.into_inner();
        let mut found = Vec::new();
        while let Some(message) = timeout(SOON, stream.message()).await.expect("in time")? {
            for entity in message.entities {
                match entity.entity {
                    Some(v1::entity::Entity::TableEntry(entry)) => found.push(entry),
                    other => panic!("not a table entry: {other:?}"),
                }
            }
        }
        Ok(found)
    }

    pub(crate) async fn entries(&mut self, device_id: u64) -> Vec<Entry> {
        let mut all = Vec::new();
        for table in Table::ALL.into_iter().filter(|t| *t != Table::Flow) {
            let entries = self.read(device_id, table.read_all()).await;
            all.extend(entries.iter().map(|e| Entry::decode(e).expect("ours")));
        }
        all
    }

    pub(crate) async fn entries_or(&mut self, device_id: u64) -> Result<usize, Code> {
        let found = self.try_read(device_id, Table::Mapping.read_all()).await;
        found.map(|e| e.len()).map_err(|status| status.code())
    }

    pub(crate) async fn sync(&mut self) -> Sync {
        let (updates, stream) = mpsc::channel(8);
        let answers = self.slow.sync_policy(ReceiverStream::new(stream));
        let answers = timeout(SOON, answers).await.expect("in time");
        let answers = answers.expect("opens").into_inner();
        Sync { updates, answers }
    }

    pub(crate) async fn drops(&mut self) -> slow::ListDropsResponse {
        let answer = self.slow.list_drops(slow::ListDropsRequest::default());
        let answer = timeout(SOON, answer).await.expect("in time");
        answer.expect("answers").into_inner()
    }

    pub(crate) async fn flows(&mut self, port_id: u32) -> Vec<slow::Flow> {
        let request = slow::ListFlowsRequest { port_id, limit: 0 };
        let stream = timeout(SOON, self.slow.list_flows(request)).await;
        let mut stream = stream.expect("in time").expect("answers").into_inner();
        let mut flows = Vec::new();
        while let Some(flow) = timeout(SOON, stream.message())
            .await
            .expect("in time")
            .expect("flows")
        {
            flows.push(flow);
        }
        flows
    }
}

impl Arbitration {
    /// Sends a bid and waits for where it leads.
    pub(crate) async fn bid(
        &mut self,
        device_id: u64,
        role: &str,
        election_id: u64,
    ) -> Result<Code, Status> {
        self.send(v1::stream_message_request::Update::Arbitration(
            v1::MasterArbitrationUpdate {
                device_id,
                role: (!role.is_empty()).then(|| v1::Role {
                    name: role.to_owned(),
                    ..Default::default()
                }),
                election_id: Some(id(election_id)),
                status: None,
            },
        ))
        .await;
        self.standing().await
    }

    pub(crate) async fn send(&mut self, update: v1::stream_message_request::Update) {
        let request = v1::StreamMessageRequest {
            update: Some(update),
        };
        self.requests.send(request).await.expect("open");
    }

    /// The next message: an arbitration's code, or a stream error's.
    pub(crate) async fn standing(&mut self) -> Result<Code, Status> {
        use v1::stream_message_response::Update;
        let message = timeout(SOON, self.answers.message()).await;
        let message = message.expect("an answer in time")?;
        match message.expect("open").update {
            Some(Update::Arbitration(update)) => {
                Ok(Code::from_i32(update.status.expect("a status").code))
            }
            Some(Update::Error(error)) => Ok(Code::from_i32(error.canonical_code)),
            other => panic!("unexpected {other:?}"),
        }
    }
}

impl Sync {
    pub(crate) async fn send(&mut self, update: slow::PolicyUpdate) -> slow::PolicyStatus {
        self.updates.send(update).await.expect("open");
        self.next().await.expect("an answer")
    }

    pub(crate) async fn next(&mut self) -> Result<slow::PolicyStatus, Status> {
        let message = timeout(SOON, self.answers.message()).await;
        Ok(message.expect("an answer in time")?.expect("open"))
    }
}

fn id(low: u64) -> v1::Uint128 {
    v1::Uint128 { high: 0, low }
}

/// Entries that bind a port and lead to it.
pub(crate) fn port_entries(
    device_port: u32,
    port_id: u32,
    vni: u16,
    mac: [u8; 6],
    ip: u128,
) -> Vec<Entry> {
    use pipeline::{mapping, nexthop, spoof_guard, vport};
    let vpc = Bits::from(vni);
    vec![
        nexthop::Entry {
            key: nexthop::Key {
                nexthop_id: port_id,
            },
            action: nexthop::Action::ToPort {
                device_port,
                vlan: Bits::from(0_u8),
                dst_mac: Bits::from(mac),
            },
        }
        .into(),
        mapping::Entry {
            key: mapping::Key {
                vpc,
                dst: Lpm::exact(ip),
            },
            action: mapping::Action::SetNexthop {
                nexthop_id: port_id,
            },
        }
        .into(),
        spoof_guard::Entry {
            key: spoof_guard::Key {
                port_id,
                src_mac: Bits::from(mac),
                src_ip: ip,
            },
            action: spoof_guard::Action::Pass,
        }
        .into(),
        vport::Entry {
            key: vport::Key {
                device_port,
                vlan: Bits::from(0_u8),
            },
            action: vport::Action::SetPort { port_id, vpc },
            meter: None,
        }
        .into(),
    ]
}

/// Entries that give a bound port one more address.
pub(crate) fn host_entries(port_id: u32, vni: u16, mac: [u8; 6], ip: u128) -> Vec<Entry> {
    let all = port_entries(0, port_id, vni, mac, ip);
    all.into_iter()
        .filter(|entry| matches!(entry, Entry::Mapping(_) | Entry::SpoofGuard(_)))
        .collect()
}

/// Entries that lead to an address on another node and let in what it sends.
pub(crate) fn tunnel_entries(vni: u16, near: u128, far: u128, ip: u128, mtu: u16) -> Vec<Entry> {
    use pipeline::{mapping, nexthop, underlay};
    const HOP: u32 = 1000;
    let vpc = Bits::from(vni);
    vec![
        nexthop::Entry {
            key: nexthop::Key { nexthop_id: HOP },
            action: nexthop::Action::ToVtep {
                src_vtep: near,
                dst_vtep: far,
                src_mac: Bits::default(),
                // The worker resolves it.
                dst_mac: Bits::default(),
                vni: vpc,
                mtu,
                device_port: 1,
            },
        }
        .into(),
        mapping::Entry {
            key: mapping::Key {
                vpc,
                dst: Lpm::exact(ip),
            },
            action: mapping::Action::SetNexthop { nexthop_id: HOP },
        }
        .into(),
        underlay::Entry {
            key: underlay::Key {
                src_vtep: far,
                dst_vtep: near,
                vni: vpc,
            },
            action: underlay::Action::Decap { vpc },
        }
        .into(),
    ]
}
