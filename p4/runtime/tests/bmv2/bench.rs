//! A switch of its own for each run: frames go in and come out through capture
//! files, tables through P4Runtime. No interfaces, no root.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use p4runtime::pipeline::{self, Entry, PacketOut, Table, drops};
use p4runtime::reason::Drop as Reason;
use p4runtime::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime::{election, transport, update, v1};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

pub const PORTS: [u32; 7] = [1, 2, 3, 4, 5, 6, pipeline::CPU_PORT];

/// Seconds between the start of the switch and the first frame.
const WARM_UP: u64 = 6;
const PATIENCE: Duration = Duration::from_secs(30);

/// Where punted packets go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cpu {
    /// An interface, as on a bench with a worker behind it.
    Interface,
    /// PacketIn and PacketOut.
    Controller,
}

/// Where bmv2 is, if it is.
pub fn switch() -> Option<PathBuf> {
    let named = std::env::var_os("SIMPLE_SWITCH_GRPC").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain([PathBuf::from("/opt/bmv2/bin")])
        .map(|folder| folder.join("simple_switch_grpc"));
    named.into_iter().chain(found).find(|path| path.is_file())
}

pub struct Bench {
    folder: TempDir,
    child: Child,
    client: P4RuntimeClient<Channel>,
    started: Instant,
    // Closing the stream would give up mastership.
    requests: mpsc::Sender<v1::StreamMessageRequest>,
    notices: mpsc::UnboundedReceiver<v1::stream_message_response::Update>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Bench {
    /// Starts the switch with these frames waiting at its ports, in this order.
    pub async fn start(binary: &Path, cpu: Cpu, frames: &[(u32, Vec<u8>)]) -> Self {
        let folder = TempDir::new().unwrap();
        let grpc = free_port();
        let mut command = Command::new(binary);
        command.args(["--no-p4", "--device-id", "1"]);
        let interface = |port: &u32| cpu == Cpu::Interface || *port != pipeline::CPU_PORT;
        for port in PORTS.into_iter().filter(interface) {
            let name = folder.path().join(format!("p{port}"));
            let waiting = frames.iter().enumerate().filter(|(_, (at, _))| *at == port);
            write_capture(
                &input(folder.path(), port),
                waiting.map(|(index, (_, frame))| (index, frame.as_slice())),
            );
            command.arg("-i").arg(format!("{port}@{}", name.display()));
        }
        // Where Thrift is built in, every instance needs a port of its own.
        let help = Command::new(binary).arg("--help").output().unwrap();
        if String::from_utf8_lossy(&help.stdout).contains("--thrift-port") {
            command.args(["--thrift-port", &free_port().to_string()]);
        }
        command
            .args(["--use-files", &WARM_UP.to_string()])
            .args(["--", "--grpc-server-addr"])
            .arg(format!("127.0.0.1:{grpc}"));
        if cpu == Cpu::Controller {
            command.args(["--cpu-port", &pipeline::CPU_PORT.to_string()]);
        }
        command
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(File::create(folder.path().join("log")).unwrap())
            .stderr(File::create(folder.path().join("errors")).unwrap());
        let child = command.spawn().unwrap();
        let started = Instant::now();
        let mut client = loop {
            let endpoint = transport::endpoint(format!("http://127.0.0.1:{grpc}")).unwrap();
            match endpoint.connect().await {
                Ok(channel) => break transport::client(channel),
                Err(error) => {
                    let errors = fs::read_to_string(folder.path().join("errors"));
                    assert!(
                        started.elapsed() < PATIENCE,
                        "no switch: {error}: {errors:?}"
                    );
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        };
        let (requests, notices) = become_primary(&mut client).await;
        Self {
            folder,
            child,
            client,
            started,
            requests,
            notices,
        }
    }

    /// Loads the program.
    pub async fn commit(&mut self, action: Action) -> Result<(), tonic::Status> {
        let config = pipeline::forwarding_config(pipeline::DEVICE_CONFIG).unwrap();
        let request = v1::SetForwardingPipelineConfigRequest {
            device_id: 1,
            election_id: Some(election::Id(1).into()),
            action: action.into(),
            config: Some(config),
            ..Default::default()
        };
        self.client.set_forwarding_pipeline_config(request).await?;
        Ok(())
    }

    pub async fn apply(&mut self, steps: &[update::Step]) {
        for steps in steps.chunks(p4runtime::batch::MAX_UPDATES) {
            let request = v1::WriteRequest {
                device_id: 1,
                election_id: Some(election::Id(1).into()),
                updates: steps.iter().map(update::Step::encode).collect(),
                ..Default::default()
            };
            if let Err(status) = self.client.write(request).await {
                panic!("{:?}", p4runtime::batch::outcome(status, steps.len()));
            }
        }
    }

    pub async fn send(&mut self, frame: &[u8], header: PacketOut) {
        let packet = v1::PacketOut {
            payload: frame.to_vec(),
            metadata: header.encode(),
        };
        let update = Some(v1::stream_message_request::Update::Packet(packet));
        let request = v1::StreamMessageRequest { update };
        self.requests.send(request).await.unwrap();
    }

    /// The next packet or notification.
    pub async fn notice(&mut self) -> v1::stream_message_response::Update {
        let notice = tokio::time::timeout(PATIENCE, self.notices.recv()).await;
        notice
            .expect("no notice in time")
            .expect("the stream ended")
    }

    /// Tables must be complete before the first frame is looked at.
    pub fn assert_in_time(&self) {
        assert!(
            self.started.elapsed() < Duration::from_secs(WARM_UP),
            "the tables were not written before the first frame"
        );
    }

    pub async fn read(&mut self, table: Table) -> Vec<v1::TableEntry> {
        let request = v1::ReadRequest {
            device_id: 1,
            entities: vec![table.read_all_with_counters()],
            ..Default::default()
        };
        let mut answers = self.client.read(request).await.unwrap().into_inner();
        let mut entries = Vec::new();
        while let Some(answer) = answers.next().await {
            for entity in answer.unwrap().entities {
                match entity.entity {
                    Some(v1::entity::Entity::TableEntry(entry)) => entries.push(entry),
                    other => panic!("{other:?}"),
                }
            }
        }
        entries
    }

    /// Every entry of every table.
    pub async fn entries(&mut self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for table in Table::ALL {
            let found = self.read(table).await;
            entries.extend(found.iter().map(|entry| Entry::decode(entry).unwrap()));
        }
        entries.sort();
        entries
    }

    /// How many packets `drops` has counted, by reason.
    pub async fn drops(&mut self) -> BTreeMap<&'static str, i64> {
        let entries = self.read(Table::Drops).await;
        entries
            .iter()
            .map(|entry| {
                let key = drops::Key::decode(entry).unwrap();
                let reason = Reason::from_number(key.reason).unwrap();
                (reason.name(), entry.counter_data.unwrap().packet_count)
            })
            .filter(|(_, count)| *count != 0)
            .collect()
    }

    /// What has come out of each port once `count` frames have.
    pub async fn output(&self, count: usize) -> BTreeMap<u32, Vec<Vec<u8>>> {
        let mut last = 0;
        let mut quiet_since = Instant::now();
        loop {
            let frames: BTreeMap<_, _> = PORTS
                .into_iter()
                .map(|port| (port, read_capture(&output(self.folder.path(), port))))
                .collect();
            let seen = frames.values().map(Vec::len).sum();
            if seen != last {
                last = seen;
                quiet_since = Instant::now();
            }
            let quiet = quiet_since.elapsed();
            // A little longer than needed, to catch frames nobody expects.
            if seen >= count && quiet > Duration::from_millis(500) {
                return frames;
            }
            if quiet > Duration::from_secs(WARM_UP + 5) {
                return frames;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn become_primary(
    client: &mut P4RuntimeClient<Channel>,
) -> (
    mpsc::Sender<v1::StreamMessageRequest>,
    mpsc::UnboundedReceiver<v1::stream_message_response::Update>,
) {
    let (requests, receiver) = mpsc::channel(8);
    let bid = v1::MasterArbitrationUpdate {
        device_id: 1,
        election_id: Some(election::Id(1).into()),
        ..Default::default()
    };
    let bid = v1::stream_message_request::Update::Arbitration(bid);
    let message = v1::StreamMessageRequest { update: Some(bid) };
    requests.send(message).await.unwrap();
    let answers = client.stream_channel(ReceiverStream::new(receiver)).await;
    let mut answers = answers.unwrap().into_inner();
    let answer = tokio::time::timeout(PATIENCE, answers.next()).await;
    let answer = answer.unwrap().unwrap().unwrap();
    match answer.update {
        Some(v1::stream_message_response::Update::Arbitration(answer)) => {
            assert_eq!(answer.status.unwrap().code, 0, "not primary");
        }
        other => panic!("{other:?}"),
    }
    let (sender, notices) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(answer)) = answers.next().await {
            if answer
                .update
                .is_some_and(|update| sender.send(update).is_err())
            {
                return;
            }
        }
    });
    (requests, notices)
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn input(folder: &Path, port: u32) -> PathBuf {
    folder.join(format!("p{port}_in.pcap"))
}

fn output(folder: &Path, port: u32) -> PathBuf {
    folder.join(format!("p{port}_out.pcap"))
}

/// Frames are spaced so that the switch's short queues never fill.
fn write_capture<'a>(path: &Path, frames: impl Iterator<Item = (usize, &'a [u8])>) {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (index, frame) in frames {
        let length = frame.len() as u32;
        let microseconds = 5_000 * index as u32;
        let seconds = 1 + microseconds / 1_000_000;
        for word in [seconds, microseconds % 1_000_000, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    fs::write(path, file).unwrap();
}

fn read_capture(path: &Path) -> Vec<Vec<u8>> {
    let file = fs::read(path).unwrap_or_default();
    let mut rest = file.get(24..).unwrap_or_default();
    let mut frames = Vec::new();
    while let Some((header, after)) = rest.split_first_chunk::<16>() {
        let [.., a, b, c, d] = *header;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        // The switch may be in the middle of writing one.
        let Some((frame, after)) = after.split_at_checked(length) else {
            break;
        };
        frames.push(frame.to_vec());
        rest = after;
    }
    frames
}
