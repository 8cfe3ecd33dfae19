//! P4Runtime's server against any sequence of requests: it never fails itself, answers as
//! the specification has it, and holds what it has accepted, no more and no less; after a
//! restart too.

use std::collections::BTreeMap;

use p4runtime::batch::{self, Outcome};
use p4runtime::pipeline::{self, Entry, Key, Table};
use p4runtime::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime::v1::p4_runtime_server::P4RuntimeServer;
use p4runtime::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime::v1::write_request::Atomicity;
use p4runtime::{role, v1};
use penstock_engine::nic;
use penstock_worker::agent::p4rt::convert::{self, Home};
use penstock_worker::agent::p4rt::{Device, Server};
use prost::Message as _;
use std::sync::Arc;
use tonic::{Code, Status};

use crate::entries;
use crate::host::{Choices, Host, NICS};
use crate::streams::Streams;

pub(crate) type Client = P4RuntimeClient<P4RuntimeServer<Server>>;

/// Requests of one sequence.
const STEPS: usize = 48;

/// What a device must hold.
#[derive(Clone, Default)]
struct Model {
    cookie: Option<u64>,
    saved: Option<u64>,
    tables: BTreeMap<Key, Entry>,
}

struct Bed {
    host: Host,
    devices: Vec<Arc<Device>>,
    client: Client,
    streams: Streams,
    models: BTreeMap<u32, Model>,
}

/// The property.
pub(crate) fn p4rt(bytes: &[u8]) {
    let mut c = Choices(bytes);
    let mut bed = Bed::on(Host::new(), BTreeMap::new(), Streams::default());
    for _ in 0..STEPS {
        if c.is_empty() {
            break;
        }
        bed.step(&mut c);
    }
    bed.check();
}

impl Bed {
    fn on(mut host: Host, models: BTreeMap<u32, Model>, streams: Streams) -> Self {
        let mut devices = Vec::new();
        for id in NICS {
            let resuming = Device::resume(id, id, host.lcores.clone(), Arc::clone(&host.store));
            devices.push(Arc::new(host.run(resuming).expect("resumes")));
        }
        let server = Server::new(devices.iter().map(Arc::clone));
        Self {
            host,
            client: P4RuntimeClient::new(P4RuntimeServer::new(server)),
            devices,
            streams,
            models,
        }
    }

    fn step(&mut self, c: &mut Choices<'_>) {
        match c.byte() % 16 {
            0..6 => {
                let request = self.request(c);
                self.write(request);
            }
            6 => {
                if let Ok(request) = v1::WriteRequest::decode(c.some()) {
                    self.write(request);
                }
            }
            7 => {
                let request = self.read_request(c);
                self.read(request);
            }
            8 => {
                if let Ok(request) = v1::ReadRequest::decode(c.some()) {
                    self.read(request);
                }
            }
            9 | 10 => self.set_pipeline(c),
            11 => self.get_pipeline(c),
            12 | 13 => self.streams.bid(&mut self.host, &mut self.client, c),
            14 => self.streams.other(&mut self.host, &mut self.client, c),
            _ => {
                if c.rarely(4) {
                    self.restart();
                } else {
                    self.streams.close(&mut self.host, c);
                }
            }
        }
    }

    /// As the primary, unless chosen otherwise.
    fn request(&mut self, c: &mut Choices<'_>) -> v1::WriteRequest {
        let device_id = c.of(&[1, 2, 1, 2, 3, u64::MAX]);
        let (role, election_id) = self.writer(c, device_id);
        let updates = (0..=c.byte() % 5).map(|_| {
            let entry = entries::entry(c);
            let kind = c.of(&[1, 1, 1, 1, 2, 3, 3, 0, 9]);
            let wire = if kind == 3 {
                entry.key().encode()
            } else {
                entry.encode()
            };
            let update = v1::Update {
                r#type: kind,
                entity: Some(pipeline::entity(wire)),
            };
            if c.rarely(8) {
                c.damage(update)
            } else {
                update
            }
        });
        v1::WriteRequest {
            device_id,
            updates: updates.collect(),
            role,
            election_id,
            atomicity: c.of(&[0, 0, 1, 2, 3]),
            ..Default::default()
        }
    }

    fn writer(&self, c: &mut Choices<'_>, device: u64) -> (String, Option<v1::Uint128>) {
        let mut role = c
            .of(&[role::DEFAULT, role::CONTROLLER, role::WORKER])
            .to_owned();
        let mut id = self.streams.highest(device, &role).unwrap_or(1);
        if c.rarely(8) {
            id = u128::from(c.byte() % 4);
            role = String::from_utf8_lossy(c.some()).into_owned();
        }
        (
            role,
            (id != 0 || c.rarely(2)).then(|| p4runtime::election::Id(id).into()),
        )
    }

    fn write(&mut self, request: v1::WriteRequest) {
        let v1::WriteRequest {
            device_id,
            role,
            election_id,
            updates,
            atomicity,
            ..
        } = request.clone();
        let client = &mut self.client;
        let answer = self.host.run(client.write(request));
        let outcomes = match answer {
            Ok(_) => vec![Ok(()); updates.len()],
            Err(status) => match batch::outcome(status, updates.len()) {
                Outcome::Each(each) => each,
                Outcome::Whole(status) => {
                    let id = election_id.unwrap_or_default();
                    let ready = self.model(device_id).is_some_and(|it| it.cookie.is_some());
                    let primary = self.streams.is_primary(device_id, &role, id);
                    refused(
                        &status,
                        &[
                            Code::InvalidArgument,
                            Code::NotFound,
                            Code::PermissionDenied,
                            Code::FailedPrecondition,
                        ],
                    );
                    match status.code() {
                        Code::PermissionDenied => assert!(!primary, "{status}"),
                        Code::FailedPrecondition => assert!(!ready, "{status}"),
                        Code::NotFound => assert!(self.model(device_id).is_none(), "{status}"),
                        _ => assert!(Atomicity::try_from(atomicity).is_err(), "{status}"),
                    }
                    return;
                }
            },
        };
        let id = election_id.unwrap_or_default();
        assert!(
            self.streams.is_primary(device_id, &role, id),
            "not the primary wrote"
        );
        let model = self
            .model(device_id)
            .expect("an unknown device took a batch");
        assert!(model.cookie.is_some(), "written without a pipeline");
        let atomic = atomicity != i32::from(Atomicity::ContinueOnError);
        if atomic && outcomes.iter().any(Result::is_err) {
            assert!(
                outcomes.iter().all(Result::is_err),
                "half a batch: {outcomes:?}"
            );
            return;
        }
        for (update, outcome) in updates.iter().zip(outcomes) {
            apply(model, update, outcome);
        }
    }

    fn model(&mut self, device_id: u64) -> Option<&mut Model> {
        let id = u32::try_from(device_id)
            .ok()
            .filter(|id| NICS.contains(id))?;
        Some(self.models.entry(id).or_default())
    }

    fn read_request(&mut self, c: &mut Choices<'_>) -> v1::ReadRequest {
        let entities = (0..=c.byte() % 3).map(|_| {
            let table = c.of(&Table::ALL);
            let entity = match c.byte() % 3 {
                0 => table.read_all(),
                1 => table.read_all_with_counters(),
                _ => pipeline::entity(entries::entry(c).key().encode()),
            };
            if c.rarely(4) {
                c.damage(entity)
            } else {
                entity
            }
        });
        v1::ReadRequest {
            entities: entities.collect(),
            device_id: c.of(&[1, 2, 3]),
            ..Default::default()
        }
    }

    fn read(&mut self, request: v1::ReadRequest) {
        if let Err(status) = self.try_read(request) {
            refused(
                &status,
                &[
                    Code::InvalidArgument,
                    Code::NotFound,
                    Code::Unimplemented,
                    Code::FailedPrecondition,
                ],
            );
        }
    }

    fn try_read(&mut self, request: v1::ReadRequest) -> Result<Vec<v1::Entity>, Status> {
        let client = &mut self.client;
        self.host.run(async {
            let mut answers = client.read(request).await?.into_inner();
            let mut all = Vec::new();
            while let Some(answer) = answers.message().await? {
                all.extend(answer.entities);
            }
            Ok(all)
        })
    }

    fn set_pipeline(&mut self, c: &mut Choices<'_>) {
        let device_id = c.of(&[1, 2, 1, 2, 3]);
        let (role, election_id) = self.writer(c, device_id);
        let action = c.of(&[3, 3, 3, 1, 2, 4, 5, 0, 9]);
        let mut config = pipeline::forwarding_config(b"device").expect("ours");
        let cookie = u64::from(c.byte());
        config.cookie = Some(v1::forwarding_pipeline_config::Cookie { cookie });
        if c.rarely(8) {
            config = c.damage(config);
        }
        let ours = config.p4info == pipeline::p4info().ok();
        let cookie = config.cookie.as_ref().map_or(0, |it| it.cookie);
        let with = if action == i32::from(Action::Commit) {
            c.rarely(4)
        } else {
            !c.rarely(8)
        };
        let request = v1::SetForwardingPipelineConfigRequest {
            device_id,
            role: role.clone(),
            election_id,
            action,
            config: with.then_some(config),
            ..Default::default()
        };
        let client = &mut self.client;
        let answer = self
            .host
            .run(client.set_forwarding_pipeline_config(request));
        let primary = self
            .streams
            .is_primary(device_id, &role, election_id.unwrap_or_default());
        if let Err(status) = answer {
            refused(
                &status,
                &[
                    Code::InvalidArgument,
                    Code::NotFound,
                    Code::PermissionDenied,
                    Code::FailedPrecondition,
                ],
            );
            assert!(
                status.code() != Code::PermissionDenied || !primary,
                "{status}"
            );
            return;
        }
        assert!(primary, "not the primary set the pipeline");
        let action = Action::try_from(action).expect("an action was taken that there is not");
        let model = self
            .model(device_id)
            .expect("a pipeline for an unknown device");
        if action == Action::Commit {
            assert!(!with, "COMMIT took a config");
            model.cookie = Some(model.saved.take().expect("COMMIT without anything saved"));
            model.tables.clear();
            return;
        }
        assert!(with && ours, "another pipeline was taken");
        match action {
            Action::VerifyAndSave => model.saved = Some(cookie),
            Action::VerifyAndCommit | Action::ReconcileAndCommit => {
                (model.cookie, model.saved) = (Some(cookie), None);
                if action == Action::VerifyAndCommit {
                    model.tables.clear();
                }
            }
            _ => assert_eq!(action, Action::Verify),
        }
    }

    fn get_pipeline(&mut self, c: &mut Choices<'_>) {
        let request = v1::GetForwardingPipelineConfigRequest {
            device_id: c.of(&[1, 2, 3]),
            response_type: c.of(&[0, 1, 2, 3, 4, -1]),
        };
        let (device_id, client) = (request.device_id, &mut self.client);
        let answer = self
            .host
            .run(client.get_forwarding_pipeline_config(request));
        match answer {
            Ok(answer) => {
                let config = answer.into_inner().config.expect("a config");
                let cookie = config.cookie.map_or(0, |it| it.cookie);
                assert_eq!(self.model(device_id).and_then(|it| it.cookie), Some(cookie));
            }
            Err(status) => refused(
                &status,
                &[
                    Code::InvalidArgument,
                    Code::NotFound,
                    Code::FailedPrecondition,
                ],
            ),
        }
    }

    /// The devices hold what they should, and so does the engine.
    fn check(&mut self) {
        for (id, model) in self.models.clone() {
            if model.cookie.is_none() {
                continue;
            }
            let request = v1::ReadRequest {
                device_id: id.into(),
                entities: vec![pipeline::entity(v1::TableEntry::default())],
                ..Default::default()
            };
            let found = self.try_read(request).expect("all can be read");
            let found = found.iter().map(|entity| match &entity.entity {
                Some(v1::entity::Entity::TableEntry(entry)) => {
                    let entry = Entry::decode(entry).expect("an entry of ours");
                    (entry.key(), entry)
                }
                other => panic!("not an entry: {other:?}"),
            });
            let found: BTreeMap<Key, Entry> = found.collect();
            assert!(
                found == model.tables,
                "NIC {id} holds {found:#?}\nand not {:#?}",
                model.tables
            );
            let mut wanted = Vec::new();
            for entry in model.tables.values() {
                match convert::entry(entry, id) {
                    Ok(Home::Engine(entry)) => wanted.push(entry),
                    Ok(Home::Agent) => {}
                    Err(refusal) => panic!("accepted, and cannot be said: {refusal}"),
                }
            }
            let mut held = 0;
            for table in nic::Table::ALL {
                self.host
                    .core
                    .engine
                    .visit_entries(id, table, &mut |entry, _| {
                        held += 1;
                        assert!(
                            wanted.contains(entry),
                            "NIC {id}'s engine has {entry:?} on its own"
                        );
                    });
            }
            assert_eq!(held, wanted.len(), "entries in NIC {id}'s engine");
        }
    }

    fn restart(&mut self) {
        self.check();
        let devices = std::mem::take(&mut self.devices);
        for device in devices {
            self.host.run(device.save()).expect("saves");
        }
        self.streams.close_all(&mut self.host);
        // Whatever else holds the data directory has to go first.
        let spare = Self::on(Host::new(), BTreeMap::new(), Streams::default());
        let Self {
            host,
            client,
            streams,
            models,
            ..
        } = std::mem::replace(self, spare);
        drop(client);
        *self = Self::on(host.again(), models, streams);
        self.check();
    }
}

/// What a batch's outcome makes of the model; wrong where it contradicts it.
fn apply(model: &mut Model, update: &v1::Update, outcome: Result<(), batch::Refusal>) {
    let entity = update.entity.as_ref().and_then(|it| it.entity.as_ref());
    let entry = match entity {
        Some(v1::entity::Entity::TableEntry(entry)) => entry,
        _ => return assert!(outcome.is_err(), "not an entry, and taken: {update:?}"),
    };
    let key = Key::decode(entry);
    let there = key.as_ref().is_ok_and(|key| model.tables.contains_key(key));
    if let Err(refusal) = outcome {
        let codes = [
            Code::InvalidArgument,
            Code::NotFound,
            Code::AlreadyExists,
            Code::PermissionDenied,
            Code::FailedPrecondition,
            Code::ResourceExhausted,
            Code::Unimplemented,
        ];
        assert!(codes.contains(&refusal.code), "{refusal}");
        assert!(refusal.code != Code::AlreadyExists || there, "{refusal}");
        return;
    }
    let key = key.expect("an entry was taken whose key is none");
    assert!(
        role::client_may_write(key.table()),
        "the worker's table was written"
    );
    match v1::update::Type::try_from(update.r#type) {
        Ok(v1::update::Type::Insert) => assert!(!there, "inserted twice: {key:?}"),
        Ok(v1::update::Type::Modify) => assert!(there, "modified, and was not there: {key:?}"),
        Ok(v1::update::Type::Delete) => {
            assert!(
                model.tables.remove(&key).is_some(),
                "deleted, and was not there: {key:?}"
            );
            return;
        }
        other => panic!("{other:?} was taken"),
    }
    let entry = Entry::decode(entry).expect("an entry was taken that is none");
    model.tables.insert(key, entry);
}

/// The status is one that the specification has for this.
pub(crate) fn refused(status: &Status, codes: &[Code]) {
    assert!(
        codes.contains(&status.code()),
        "{:?}: {status}",
        status.code()
    );
    assert!(
        !status.message().is_empty(),
        "{:?} without a word",
        status.code()
    );
}
