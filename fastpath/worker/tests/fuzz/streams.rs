//! StreamChannels, and who must be primary.

use std::collections::BTreeMap;
use std::time::Duration;

use p4runtime::election::Id;
use p4runtime::v1::stream_message_request::Update;
use p4runtime::v1::stream_message_response::Update as Told;
use p4runtime::{role, v1};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::host::{Choices, Host};
use crate::p4rt::{Client, refused};

/// Every message is answered by then.
const SOON: Duration = Duration::from_secs(10);
/// Streams that are open at once.
const MOST: usize = 4;

struct Open {
    requests: mpsc::Sender<v1::StreamMessageRequest>,
    answers: Streaming<v1::StreamMessageResponse>,
    bid: Option<(u64, String, u128)>,
}

#[derive(Default)]
pub(crate) struct Streams {
    open: Vec<Open>,
    /// The highest id ever, by device and role.
    highest: BTreeMap<(u64, String), u128>,
}

impl Streams {
    pub(crate) fn highest(&self, device: u64, role: &str) -> Option<u128> {
        self.highest.get(&(device, role.to_owned())).copied()
    }

    /// Whether a bid with this id has an open stream and no bid was ever higher.
    pub(crate) fn is_primary(&self, device: u64, role: &str, id: v1::Uint128) -> bool {
        let Id(id) = id.into();
        let mut bids = self.open.iter().filter_map(|it| it.bid.as_ref());
        id != 0
            && self.highest(device, role) == Some(id)
            && bids.any(|bid| (bid.0, bid.1.as_str(), bid.2) == (device, role, id))
    }

    pub(crate) fn bid(&mut self, host: &mut Host, client: &mut Client, c: &mut Choices<'_>) {
        let name = c.of(&[
            role::DEFAULT,
            role::CONTROLLER,
            role::DEFAULT,
            role::WORKER,
            "x",
        ]);
        let id = v1::Uint128 {
            high: c.of(&[0, 0, 0, 1, u64::MAX]),
            low: c.of(&[1, 2, 3, 0, u64::MAX]),
        };
        let bid = v1::MasterArbitrationUpdate {
            device_id: c.of(&[1, 2, 1, 2, 3]),
            role: (!name.is_empty() || c.rarely(2)).then(|| v1::Role {
                name: name.to_owned(),
                ..Default::default()
            }),
            election_id: (!c.rarely(8)).then_some(id),
            status: None,
        };
        let update = Update::Arbitration(if c.rarely(8) { c.damage(bid) } else { bid });
        let request = v1::StreamMessageRequest {
            update: Some(update),
        };
        self.send(host, client, c, request);
    }

    /// Whatever else a client may send.
    pub(crate) fn other(&mut self, host: &mut Host, client: &mut Client, c: &mut Choices<'_>) {
        let request = match c.byte() % 3 {
            0 => v1::StreamMessageRequest {
                update: Some(Update::Packet(v1::PacketOut {
                    payload: c.some().to_vec(),
                    ..Default::default()
                })),
            },
            _ => v1::StreamMessageRequest::decode(c.some()).unwrap_or_default(),
        };
        self.send(host, client, c, request);
    }

    fn send(
        &mut self,
        host: &mut Host,
        client: &mut Client,
        c: &mut Choices<'_>,
        request: v1::StreamMessageRequest,
    ) {
        if self.open.is_empty() || (self.open.len() < MOST && c.rarely(3)) {
            self.open.push(open(host, client));
        }
        let at = usize::from(c.byte()) % self.open.len();
        let stream = &mut self.open[at];
        let answer = host.run(async {
            // News about others' bids.
            while let Ok(Ok(Some(_))) = timeout(Duration::ZERO, stream.answers.message()).await {}
            let sent = stream.requests.send(request.clone()).await;
            sent.expect("an open stream");
            timeout(SOON, stream.answers.message()).await
        });
        match answer.expect("a message without an answer") {
            Ok(Some(answer)) => self.told(at, request, answer),
            // It ends the stream, and says why.
            Err(status) => {
                let codes = [
                    Code::InvalidArgument,
                    Code::NotFound,
                    Code::FailedPrecondition,
                    Code::Unimplemented,
                    Code::AlreadyExists,
                    Code::PermissionDenied,
                ];
                refused(&status, &codes);
                self.end(host, at);
            }
            Ok(None) => panic!("a stream ended without a word"),
        }
    }

    fn told(
        &mut self,
        at: usize,
        request: v1::StreamMessageRequest,
        answer: v1::StreamMessageResponse,
    ) {
        match (request.update, answer.update) {
            (Some(Update::Arbitration(bid)), Some(Told::Arbitration(told))) => {
                let role = bid.role.unwrap_or_default().name;
                let Id(id) = bid.election_id.map(Id::from).unwrap_or_default();
                assert_eq!(told.device_id, bid.device_id);
                let highest = self
                    .highest
                    .entry((bid.device_id, role.clone()))
                    .or_default();
                *highest = id.max(*highest);
                let highest = *highest;
                let stream = &mut self.open[at];
                stream.bid = Some((bid.device_id, role.clone(), id));
                let code = told
                    .status
                    .map_or(Code::Unknown, |it| Code::from_i32(it.code));
                let mine = v1::Uint128::from(Id(id));
                let primary = self.is_primary(bid.device_id, &role, mine);
                assert_eq!(
                    code == Code::Ok,
                    primary,
                    "{code:?} for {id}, highest {highest}"
                );
            }
            (_, Some(Told::Error(error))) => {
                assert_eq!(Code::from_i32(error.canonical_code), Code::Unimplemented);
            }
            (request, answer) => panic!("{request:?} was answered by {answer:?}"),
        }
    }

    pub(crate) fn close(&mut self, host: &mut Host, c: &mut Choices<'_>) {
        if !self.open.is_empty() {
            let at = usize::from(c.byte()) % self.open.len();
            self.end(host, at);
        }
    }

    pub(crate) fn close_all(&mut self, host: &mut Host) {
        while !self.open.is_empty() {
            self.end(host, 0);
        }
    }

    fn end(&mut self, host: &mut Host, at: usize) {
        let Open {
            requests,
            mut answers,
            ..
        } = self.open.swap_remove(at);
        host.run(async {
            // The server's half ends once it has heard that ours has.
            drop(requests);
            let ending = async { while let Ok(Some(_)) = answers.message().await {} };
            timeout(SOON, ending)
                .await
                .expect("a stream that does not end");
        });
    }
}

fn open(host: &mut Host, client: &mut Client) -> Open {
    let (requests, stream) = mpsc::channel(1);
    let opening = client.stream_channel(ReceiverStream::new(stream));
    let answers: Result<_, Status> = host.run(opening);
    Open {
        requests,
        answers: answers.expect("opens").into_inner(),
        bid: None,
    }
}
