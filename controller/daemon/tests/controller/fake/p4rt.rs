//! P4Runtime of the fake worker.

use std::collections::{BTreeMap, BTreeSet};

use p4runtime::batch::{self, Refusal};
use p4runtime::election::Id;
use p4runtime::pipeline::{self, Entry, Key};
use p4runtime::v1::p4_runtime_server::P4Runtime;
use p4runtime::v1::stream_message_request::Update as Ask;
use p4runtime::v1::stream_message_response::Update as Answer;
use p4runtime::{role, v1};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};

use super::{Shared, State, Step};

/// One device.
#[derive(Default)]
pub struct Nic {
    pub entries: BTreeMap<Key, Entry>,
    pub cookie: Option<u64>,
    /// The primary's id and the number of its stream.
    pub primary: Option<(Id, u64)>,
    /// The highest id ever.
    pub highest: Id,
}

impl State {
    fn apply(&mut self, device_id: u32, update: &v1::Update) -> Result<(), Refusal> {
        let Some(v1::Entity {
            entity: Some(v1::entity::Entity::TableEntry(wire)),
        }) = &update.entity
        else {
            return Err(Refusal::new(Code::InvalidArgument, "no table entry"));
        };
        let key = Key::decode(wire)?;
        let table = key.table();
        if role::owner(table) == role::Owner::Worker {
            return Err(Refusal::new(Code::PermissionDenied, "the worker's table"));
        }
        if self.poisoned.contains(&key) {
            return Err(Refusal::new(Code::InvalidArgument, "poisoned by the test"));
        }
        let capacity = self
            .capacity
            .get(&(device_id, table))
            .copied()
            .unwrap_or(usize::MAX);
        let nic = self.nics.get_mut(&device_id).unwrap();
        let used = nic.entries.keys().filter(|it| it.table() == table).count();
        let refers = |entry: &Entry, id: u32| {
            matches!(entry, Entry::Mapping(entry)
                if entry.action == pipeline::mapping::Action::SetNexthop { nexthop_id: id })
        };
        match update.r#type() {
            v1::update::Type::Delete => {
                if let Key::Nexthop(key) = &key
                    && nic.entries.values().any(|it| refers(it, key.nexthop_id))
                {
                    let fault = format!("next hop {} goes before its mapping", key.nexthop_id);
                    self.faults.push(fault);
                }
                nic.entries
                    .remove(&key)
                    .ok_or_else(|| Refusal::new(Code::NotFound, "not there"))?;
                self.history.push(Step::Delete(table));
                return Ok(());
            }
            v1::update::Type::Insert if nic.entries.contains_key(&key) => {
                return Err(Refusal::new(Code::AlreadyExists, "there already"));
            }
            v1::update::Type::Insert if used >= capacity => {
                return Err(Refusal::new(Code::ResourceExhausted, "the table is full"));
            }
            v1::update::Type::Modify if !nic.entries.contains_key(&key) => {
                return Err(Refusal::new(Code::NotFound, "not there"));
            }
            v1::update::Type::Unspecified => {
                return Err(Refusal::new(Code::InvalidArgument, "no type"));
            }
            _ => {}
        }
        let entry = Entry::decode(wire)?;
        if let Entry::Mapping(mapping) = &entry {
            let pipeline::mapping::Action::SetNexthop { nexthop_id } = mapping.action;
            let hop = Key::Nexthop(pipeline::nexthop::Key { nexthop_id });
            if !nic.entries.contains_key(&hop) {
                return Err(Refusal::new(Code::FailedPrecondition, "no such next hop"));
            }
        }
        nic.entries.insert(key, entry);
        self.history.push(Step::Write(table));
        Ok(())
    }

    fn check_primary(
        &mut self,
        device_id: u64,
        role: &str,
        election: Option<v1::Uint128>,
    ) -> Result<u32, Status> {
        let device_id = u32::try_from(device_id).unwrap();
        let nic = self
            .nics
            .get(&device_id)
            .ok_or_else(|| Status::not_found("no such device"))?;
        if role != role::CONTROLLER {
            return Err(Status::permission_denied("not the controller's role"));
        }
        match (nic.primary, election) {
            (Some((primary, _)), Some(id)) if primary == Id::from(id) => Ok(device_id),
            _ => Err(Status::permission_denied("not primary")),
        }
    }
}

/// Where to tell a client something.
pub type Listener = mpsc::Sender<Result<v1::StreamMessageResponse, Status>>;

pub struct Service(pub Shared);

#[tonic::async_trait]
impl P4Runtime for Service {
    async fn write(
        &self,
        request: Request<v1::WriteRequest>,
    ) -> Result<Response<v1::WriteResponse>, Status> {
        let request = request.into_inner();
        let mut state = self.0.lock();
        let device = state.check_primary(request.device_id, &request.role, request.election_id)?;
        if state.fail_writes > 0 {
            state.fail_writes -= 1;
            // Half of it is done, and nobody says which half.
            let faults = state.faults.len();
            for update in request.updates.iter().step_by(2) {
                let _ = state.apply(device, update);
            }
            // Gaps are the test's own doing.
            state.faults.truncate(faults);
            return Err(Status::unavailable("failed by the test"));
        }
        if request.updates.is_empty() || request.updates.len() > batch::MAX_UPDATES {
            let fault = format!("a batch of {} updates", request.updates.len());
            state.faults.push(fault);
        }
        let mut keys = BTreeSet::new();
        for update in &request.updates {
            if let Some(v1::entity::Entity::TableEntry(entry)) =
                update.entity.as_ref().and_then(|it| it.entity.as_ref())
                && let Ok(key) = Key::decode(entry)
                && !keys.insert(key.clone())
            {
                state.faults.push(format!("{key:?} twice in a batch"));
            }
        }
        state.writes += request.updates.len() as u64;
        let outcomes: Vec<_> = request
            .updates
            .iter()
            .map(|update| state.apply(device, update))
            .collect();
        batch::answer(&outcomes)?;
        Ok(Response::new(v1::WriteResponse {}))
    }

    type ReadStream = tokio_stream::Iter<std::vec::IntoIter<Result<v1::ReadResponse, Status>>>;

    async fn read(
        &self,
        request: Request<v1::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        let mut state = self.0.lock();
        if state.fail_reads > 0 {
            state.fail_reads -= 1;
            return Err(Status::internal("failed by the test"));
        }
        state.reads += 1;
        let tables: BTreeSet<u32> = request
            .entities
            .iter()
            .filter_map(|entity| match &entity.entity {
                Some(v1::entity::Entity::TableEntry(entry)) => Some(entry.table_id),
                _ => None,
            })
            .collect();
        let device = u32::try_from(request.device_id).unwrap();
        let nic = state.nics.get(&device).unwrap();
        let entities: Vec<_> = nic
            .entries
            .values()
            .filter(|entry| tables.contains(&entry.key().table().id()))
            .map(|entry| pipeline::entity(entry.encode()))
            .collect();
        let answers: Vec<_> = entities
            .chunks(7)
            .map(|chunk| {
                Ok(v1::ReadResponse {
                    entities: chunk.to_vec(),
                })
            })
            .collect();
        Ok(Response::new(tokio_stream::iter(answers)))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<v1::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<v1::SetForwardingPipelineConfigResponse>, Status> {
        use v1::set_forwarding_pipeline_config_request::Action;

        let request = request.into_inner();
        let mut state = self.0.lock();
        let device = state.check_primary(request.device_id, &request.role, request.election_id)?;
        state.commits += 1;
        let action = request.action();
        let nic = state.nics.get_mut(&device).unwrap();
        match action {
            Action::ReconcileAndCommit if nic.cookie.is_none() => {
                return Err(Status::failed_precondition("nothing to reconcile with"));
            }
            Action::ReconcileAndCommit => {}
            Action::VerifyAndCommit => nic.entries.clear(),
            _ => return Err(Status::unimplemented("not here")),
        }
        let config = request.config.unwrap();
        nic.cookie = Some(config.cookie.unwrap().cookie);
        Ok(Response::new(v1::SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<v1::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<v1::GetForwardingPipelineConfigResponse>, Status> {
        let device = u32::try_from(request.into_inner().device_id).unwrap();
        let state = self.0.lock();
        let Some(cookie) = state.nics[&device].cookie else {
            return Err(Status::failed_precondition("no pipeline yet"));
        };
        Ok(Response::new(v1::GetForwardingPipelineConfigResponse {
            config: Some(v1::ForwardingPipelineConfig {
                cookie: Some(v1::forwarding_pipeline_config::Cookie { cookie }),
                ..Default::default()
            }),
        }))
    }

    type StreamChannelStream = ReceiverStream<Result<v1::StreamMessageResponse, Status>>;

    async fn stream_channel(
        &self,
        request: Request<Streaming<v1::StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let mut asks = request.into_inner();
        let (sender, receiver) = mpsc::channel(4);
        let shared = self.0.clone();
        tokio::spawn(async move {
            let stream = {
                let mut state = shared.lock();
                state.streams += 1;
                let number = state.streams;
                state.listeners.insert(number, sender.clone());
                number
            };
            let mut device = None;
            while let Ok(Some(ask)) = asks.message().await {
                let Some(Ask::Arbitration(bid)) = ask.update else {
                    continue;
                };
                device = Some(u32::try_from(bid.device_id).unwrap());
                let answer = shared.lock().arbitrate(bid, stream);
                let refused = answer.is_err();
                if sender.send(answer).await.is_err() || refused {
                    break;
                }
            }
            let mut state = shared.lock();
            state.listeners.remove(&stream);
            if let Some(nic) = device.and_then(|id| state.nics.get_mut(&id))
                && nic.primary.is_some_and(|(_, holder)| holder == stream)
            {
                nic.primary = None;
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn capabilities(
        &self,
        _: Request<v1::CapabilitiesRequest>,
    ) -> Result<Response<v1::CapabilitiesResponse>, Status> {
        Ok(Response::new(v1::CapabilitiesResponse::default()))
    }
}

impl State {
    fn arbitrate(
        &mut self,
        bid: v1::MasterArbitrationUpdate,
        stream: u64,
    ) -> Result<v1::StreamMessageResponse, Status> {
        let id = Id::from(bid.election_id.unwrap());
        let device = u32::try_from(bid.device_id).unwrap();
        let nic = self.nics.get_mut(&device).unwrap();
        let before = nic.primary;
        if before.is_some_and(|(primary, holder)| primary == id && holder != stream) {
            return Err(Status::invalid_argument("the election id is in use"));
        }
        if id.0 != 0 && id == nic.highest && nic.primary.is_none_or(|(_, holder)| holder != stream)
        {
            self.faults.push(format!("election id {id} is used again"));
        }
        let code = if id.0 != 0 && id >= nic.highest {
            nic.primary = Some((id, stream));
            nic.highest = id;
            Code::Ok
        } else if nic.primary.is_some() {
            Code::AlreadyExists
        } else {
            Code::NotFound
        };
        let highest = nic.highest;
        let message = |code: Code| v1::StreamMessageResponse {
            update: Some(Answer::Arbitration(v1::MasterArbitrationUpdate {
                election_id: Some(highest.into()),
                status: Some(tonic_types::Status {
                    code: code.into(),
                    ..Default::default()
                }),
                ..bid.clone()
            })),
        };
        if let Some((_, displaced)) = before
            && displaced != stream
            && code == Code::Ok
            && let Some(listener) = self.listeners.get(&displaced)
        {
            let _ = listener.try_send(Ok(message(Code::AlreadyExists)));
        }
        Ok(message(code))
    }
}
