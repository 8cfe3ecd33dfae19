//! One NIC as P4Runtime sees it: its clients, its pipeline, its tables.
//!
//! All changes to a device go through one lock, in the order they arrive, and each
//! is finished once begun, whether or not its caller still listens.

mod fill;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use p4runtime::batch::Refusal;
use p4runtime::election::Id;
use p4runtime::pipeline::Entry;
use p4runtime::v1;
use tokio::sync::{Mutex, Notify, mpsc};
use tonic::{Code, Status};

use super::arbitration::{Arbitration, Notice, Standing, StreamId};
use super::files::{DeviceFile, ElectionFile};
use super::pipeline::{Effect, Pipeline};
use super::read::Query;
use super::tables::Tables;
use super::write::Writer;
use crate::lcore::Lcores;
use crate::mailbox::MailboxError;
use crate::snapshot::{SnapshotError, Store};

/// Towards one client.
pub type Outbound = mpsc::Sender<Result<v1::StreamMessageResponse, Status>>;

/// See the module's contract.
#[derive(Debug)]
pub struct Device {
    id: u32,
    uplink: u32,
    lcores: Lcores,
    store: Arc<Store>,
    state: Mutex<State>,
    /// Something changed that is to be kept.
    changed: Notify,
    /// Updates that clients have written, refused ones too.
    updates: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    arbitration: Arbitration,
    clients: BTreeMap<StreamId, Outbound>,
    pipeline: Pipeline,
    tables: Tables,
}

/// Why a device could not resume.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// Its files.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// Its election ids.
    #[error(
        "NIC {device}: {source}; without the election ids in it a controller that was replaced \
         could win again: restore the file, or delete it once no such controller runs"
    )]
    Elections {
        /// P4Runtime's device id.
        device: u32,
        /// What is wrong with the file.
        source: SnapshotError,
    },
    /// The polling thread.
    #[error(transparent)]
    Mailbox(#[from] MailboxError),
}

impl Device {
    /// Has the device start empty: its tables are of device ports that are others now.
    ///
    /// # Errors
    /// The data directory fails.
    pub fn set_aside(id: u32, store: &Store) -> Result<(), SnapshotError> {
        let name = device_name(id);
        let file: Option<DeviceFile> = store.load_or_start_closed(&name)?;
        if file.is_none() {
            return Ok(());
        }
        store.quarantine(&name, "the numbers of its ports are lost")
    }

    /// The device as its files describe it; its entries are in the engine when this
    /// returns. Files that cannot be used are set aside: the device then starts empty,
    /// which carries nothing. Election ids that cannot be read stop the start: without
    /// them an older controller could win.
    ///
    /// # Errors
    /// The data directory or the polling thread fail.
    pub async fn resume(
        id: u32,
        uplink: u32,
        lcores: Lcores,
        store: Arc<Store>,
    ) -> Result<Self, ResumeError> {
        let elections: ElectionFile = store
            .load(&election_name(id))
            .map_err(|source| ResumeError::Elections { device: id, source })?
            .unwrap_or_default();
        let file: DeviceFile = store
            .load_or_start_closed(&device_name(id))?
            .unwrap_or_default();
        let mut state = State {
            arbitration: Arbitration::resume(elections.highest()),
            pipeline: Pipeline::resume(file.committed, file.saved),
            ..State::default()
        };
        let entries: Result<Vec<Entry>, _> = file.entries.iter().map(Entry::decode).collect();
        match entries {
            Ok(entries) => {
                let refused =
                    fill::install(id, uplink, &lcores, &mut state.tables, entries).await?;
                if let Some(why) = refused {
                    fill::clear(id, uplink, &lcores, &mut state.tables).await?;
                    state.pipeline = Pipeline::default();
                    store.quarantine(&device_name(id), &why)?;
                }
            }
            Err(error) => {
                state.pipeline = Pipeline::default();
                store.quarantine(&device_name(id), &error.to_string())?;
            }
        }
        Ok(Self {
            id,
            uplink,
            lcores,
            store,
            state: Mutex::new(state),
            changed: Notify::new(),
            updates: AtomicU64::new(0),
        })
    }

    /// P4Runtime's device id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Updates that clients have written since the start, refused ones too.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.updates.load(Ordering::Relaxed)
    }

    /// A client's bid. The highest id is on disk before anyone is told.
    ///
    /// # Errors
    /// The bid ends its stream.
    pub async fn bid(
        self: Arc<Self>,
        stream: StreamId,
        client: Outbound,
        role: String,
        id: Id,
    ) -> Result<(), Status> {
        finish(async move {
            let mut state = self.state.lock().await;
            let state = &mut *state;
            state
                .arbitration
                .check(stream, &role, id)
                .map_err(|error| Status::invalid_argument(error.to_string()))?;
            if state.arbitration.is_news(&role, id) {
                let file = ElectionFile::new(state.arbitration.highest(), &role, id);
                let store = Arc::clone(&self.store);
                let name = election_name(self.id);
                blocking(move || store.save(&name, &file))
                    .await?
                    .map_err(|error| Status::unavailable(error.to_string()))?;
            }
            let notices = state
                .arbitration
                .bid(stream, &role, id)
                .map_err(|error| Status::invalid_argument(error.to_string()))?;
            state.clients.insert(stream, client);
            self.tell(state, notices);
            Ok(())
        })
        .await
    }

    /// A client's stream has ended.
    pub async fn leave(&self, stream: StreamId) {
        let mut state = self.state.lock().await;
        let state = &mut *state;
        state.clients.remove(&stream);
        let notices = state.arbitration.leave(stream);
        self.tell(state, notices);
    }

    fn tell(&self, state: &mut State, notices: Vec<Notice>) {
        for notice in notices {
            let message = arbitration_message(self.id, &notice);
            let Some(client) = state.clients.get(&notice.to) else {
                continue;
            };
            // Whoever does not read misses the news; its writes are refused all the same.
            if client.try_send(Ok(message)).is_err() {
                tracing::warn!(
                    device = self.id,
                    "a P4Runtime client does not read its stream"
                );
            }
        }
    }

    /// Writes a batch: one outcome for each update, when all are in force.
    ///
    /// # Errors
    /// The client may not write, or nothing was done.
    pub async fn write(
        self: Arc<Self>,
        request: v1::WriteRequest,
    ) -> Result<Vec<Result<(), Refusal>>, Status> {
        finish(async move {
            let mut state = self.state.lock().await;
            let state = &mut *state;
            permit(&state.arbitration, &request.role, request.election_id)?;
            state.pipeline.require()?;
            self.updates
                .fetch_add(request.updates.len() as u64, Ordering::Relaxed);
            let writer = Writer {
                device_id: self.id,
                uplink: self.uplink,
                lcores: &self.lcores,
            };
            let outcomes = writer
                .write(&mut state.tables, &request.updates, request.atomicity)
                .await?;
            self.changed.notify_one();
            self.in_force().await?;
            Ok(outcomes)
        })
        .await
    }

    /// Reads what `queries` ask for.
    ///
    /// # Errors
    /// There is no pipeline, or the polling thread does not answer.
    pub async fn read(&self, queries: &[Query]) -> Result<Vec<v1::Entity>, Status> {
        let state = self.state.lock().await;
        state.pipeline.require()?;
        let mut entities = Vec::new();
        for query in queries {
            entities.extend(query.run(&state.tables, self.id, &self.lcores).await?);
        }
        Ok(entities)
    }

    /// Loads or commits a pipeline.
    ///
    /// # Errors
    /// The client may not, or the pipeline is not ours.
    pub async fn set_pipeline(
        self: Arc<Self>,
        request: v1::SetForwardingPipelineConfigRequest,
    ) -> Result<(), Status> {
        finish(async move {
            let mut state = self.state.lock().await;
            let state = &mut *state;
            permit(&state.arbitration, &request.role, request.election_id)?;
            let mut next = state.pipeline.clone();
            if next.set(request.action, request.config)? == Effect::Clear {
                fill::clear(self.id, self.uplink, &self.lcores, &mut state.tables)
                    .await
                    .map_err(|error| Status::unavailable(error.to_string()))?;
            }
            state.pipeline = next;
            self.changed.notify_one();
            self.in_force().await
        })
        .await
    }

    /// A change is told to be done when no packet passes by what was before it, as one of
    /// policy is.
    async fn in_force(&self) -> Result<(), Status> {
        let stand = self.lcores.in_force().await;
        stand.map_err(|error| Status::unavailable(error.to_string()))
    }

    /// The committed pipeline.
    ///
    /// # Errors
    /// None is.
    pub async fn pipeline(
        &self,
        response_type: i32,
    ) -> Result<v1::ForwardingPipelineConfig, Status> {
        self.state.lock().await.pipeline.get(response_type)
    }

    /// Waits until there is something to keep.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Keeps tables and pipeline on disk.
    ///
    /// # Errors
    /// Nothing is kept: a restart begins empty, not with what was before.
    pub async fn save(&self) -> Result<(), SnapshotError> {
        let file = {
            let state = self.state.lock().await;
            let (committed, saved) = state.pipeline.parts();
            DeviceFile {
                committed,
                saved,
                entries: state.tables.iter().map(Entry::encode).collect(),
            }
        };
        let store = Arc::clone(&self.store);
        let name = device_name(self.id);
        blocking(move || store.save_or_forget(&name, &file))
            .await
            .unwrap_or(Ok(()))
    }
}

fn election_name(device: u32) -> String {
    format!("election-{device}")
}

fn device_name(device: u32) -> String {
    format!("device-{device}")
}

/// Runs to its end even if the caller goes away.
async fn finish<T: Send + 'static>(
    work: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<T, Status> {
    tokio::spawn(work)
        .await
        .unwrap_or_else(|error| Err(Status::internal(format!("the agent failed: {error}"))))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Status::internal(format!("the agent failed: {error}")))
}

fn permit(
    arbitration: &Arbitration,
    role: &str,
    election_id: Option<v1::Uint128>,
) -> Result<(), Status> {
    let id = election_id.map(Id::from).unwrap_or_default();
    if id != Id::default() && arbitration.is_primary(role, id) {
        return Ok(());
    }
    Err(Status::permission_denied(format!(
        "election_id {id} is not the primary of role {role:?}; win the arbitration on StreamChannel first"
    )))
}

fn arbitration_message(device: u32, notice: &Notice) -> v1::StreamMessageResponse {
    let (code, message) = match notice.standing {
        Standing::Primary => (Code::Ok, "primary"),
        Standing::Backup => (Code::AlreadyExists, "backup: another client is primary"),
        Standing::Vacant => (
            Code::NotFound,
            "no primary: bid with the highest election id",
        ),
    };
    let role = v1::Role {
        name: notice.role.clone(),
        ..v1::Role::default()
    };
    let update = v1::MasterArbitrationUpdate {
        device_id: device.into(),
        role: (!notice.role.is_empty()).then_some(role),
        election_id: Some(notice.highest.into()),
        status: Some(tonic_types::Status {
            code: code.into(),
            message: message.to_owned(),
            details: Vec::new(),
        }),
    };
    v1::StreamMessageResponse {
        update: Some(v1::stream_message_response::Update::Arbitration(update)),
    }
}
