//! One NIC of one node, over P4Runtime.
//!
//! Opening makes this controller the primary of its role and brings the
//! pipeline to this version. [`Nic::sync`] then reads every table of the
//! controller back, subtracts, and writes only the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use p4runtime::batch::{self, Outcome, Refusal};
use p4runtime::pipeline::{self, Entry, Key, Table};
use p4runtime::update::{self, Step};
use p4runtime::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime::{election, role, v1};
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::Limits;
use crate::election::Elections;
use crate::status::{Problem, Reason};

mod open;
mod stream;

pub(crate) use open::OpenError;
pub(crate) use stream::{Loss, Lost};

/// Rounds of read and write in one sync: a second one settles races (an entry
/// that came or went between read and write), a third would hide a quarrel.
const ROUNDS: usize = 2;

/// What a NIC's tables should hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Desired {
    /// Entries and the resource that each comes from.
    pub(crate) entries: BTreeMap<Key, (Entry, Arc<str>)>,
}

/// What a sync found and did.
#[derive(Debug, Default)]
pub(crate) struct Synced {
    /// Updates sent.
    pub(crate) writes: u64,
    /// Entries that were not as this session had left them.
    pub(crate) drift: u64,
    /// Resources whose entries are not there, and why.
    pub(crate) problems: BTreeMap<String, Problem>,
    /// What went wrong with entries that belong to no resource any more.
    pub(crate) leftovers: Option<Problem>,
    /// Entries in place by resource.
    pub(crate) entries: BTreeMap<Arc<str>, u64>,
    /// Entries in place and entries wanted by table, in pipeline order.
    pub(crate) tables: BTreeMap<Table, (u64, u64)>,
}

/// An open NIC.
#[derive(Debug)]
pub(crate) struct Nic {
    device_id: u64,
    client: P4RuntimeClient<Channel>,
    election: election::Id,
    _stream: stream::Watched,
    limits: Limits,
    /// The tables as this session left them; `None` before the first sync and
    /// after an uncertain one.
    left: Option<BTreeMap<Key, Entry>>,
}

/// What a read finds.
#[derive(Debug, Default)]
struct Found {
    entries: BTreeMap<Key, Entry>,
    /// Entries of our tables that no version of the program explains.
    foreign: Vec<v1::TableEntry>,
}

impl Nic {
    /// Brings the tables to `desired`.
    ///
    /// # Errors
    /// When reading or writing failed as a whole; what was refused entry by
    /// entry is in [`Synced::problems`].
    pub(crate) async fn sync(&mut self, desired: &Desired) -> Result<Synced, Status> {
        let mut synced = Synced::default();
        // Uncertain until the end.
        let mut left = self.left.take();
        let mut missing: BTreeSet<Key> = BTreeSet::new();
        for round in 0..ROUNDS {
            let found = self.read(desired).await?;
            if let Some(left) = left.take() {
                synced.drift += drift(&left, &found.entries) + found.foreign.len() as u64;
            }
            let steps = update::plan(
                desired.entries.values().map(|(entry, _)| entry),
                found.entries.values(),
            );
            synced.problems.clear();
            synced.leftovers = None;
            missing.clear();
            if steps.is_empty() && found.foreign.is_empty() {
                break;
            }
            let raced = self
                .write(&steps, found.foreign, desired, &mut synced, &mut missing)
                .await?;
            if !raced || round + 1 == ROUNDS {
                break;
            }
        }
        let mut left = BTreeMap::new();
        for (key, (entry, owner)) in &desired.entries {
            let (there, wanted) = synced.tables.entry(key.table()).or_default();
            *wanted += 1;
            if missing.contains(key) {
                continue;
            }
            *there += 1;
            *synced.entries.entry(Arc::clone(owner)).or_default() += 1;
            left.insert(key.clone(), entry.clone());
        }
        if missing.is_empty() && synced.leftovers.is_none() {
            self.left = Some(left);
        }
        Ok(synced)
    }

    async fn read(&mut self, desired: &Desired) -> Result<Found, Status> {
        let request = v1::ReadRequest {
            device_id: self.device_id,
            role: role::CONTROLLER.to_owned(),
            entities: Table::ALL
                .into_iter()
                .filter(|table| role::client_may_write(*table))
                .map(Table::read_all)
                .collect(),
        };
        let client = &mut self.client;
        self.limits
            .within("reading tables", async {
                let mut stream = client.read(request).await?.into_inner();
                let mut found = Found::default();
                while let Some(answer) = stream.message().await? {
                    for entity in answer.entities {
                        if let Some(v1::entity::Entity::TableEntry(entry)) = entity.entity {
                            found.add(entry, desired);
                        }
                    }
                }
                Ok(found)
            })
            .await
    }

    /// Answers whether a refusal looks like a race with somebody else.
    async fn write(
        &mut self,
        steps: &[Step],
        foreign: Vec<v1::TableEntry>,
        desired: &Desired,
        synced: &mut Synced,
        missing: &mut BTreeSet<Key>,
    ) -> Result<bool, Status> {
        let strangers = foreign.into_iter().map(|entry| {
            let update = v1::Update {
                r#type: v1::update::Type::Delete.into(),
                entity: Some(pipeline::entity(v1::TableEntry {
                    table_id: entry.table_id,
                    r#match: entry.r#match,
                    priority: entry.priority,
                    ..Default::default()
                })),
            };
            (None, update)
        });
        let all: Vec<_> = steps
            .iter()
            .map(|step| (Some(step), step.encode()))
            .chain(strangers)
            .collect();
        let mut raced = false;
        for chunk in all.chunks(batch::MAX_UPDATES) {
            let updates = chunk.iter().map(|(_, update)| update.clone()).collect();
            synced.writes += chunk.len() as u64;
            for ((step, _), outcome) in chunk.iter().zip(self.write_batch(updates).await?) {
                if let Err(refusal) = outcome {
                    raced |= note(*step, &refusal, desired, synced, missing);
                }
            }
        }
        Ok(raced)
    }

    async fn write_batch(
        &mut self,
        updates: Vec<v1::Update>,
    ) -> Result<Vec<Result<(), Refusal>>, Status> {
        let count = updates.len();
        let request = v1::WriteRequest {
            device_id: self.device_id,
            role: role::CONTROLLER.to_owned(),
            election_id: Some(self.election.into()),
            updates,
            atomicity: v1::write_request::Atomicity::ContinueOnError.into(),
            ..Default::default()
        };
        let client = &mut self.client;
        let answer = self
            .limits
            .within("writing tables", async { client.write(request).await })
            .await;
        match answer {
            Ok(_) => Ok(vec![Ok(()); count]),
            Err(status) => match batch::outcome(status, count) {
                Outcome::Each(outcomes) => Ok(outcomes),
                Outcome::Whole(status) => Err(status),
            },
        }
    }
}

impl Found {
    fn add(&mut self, wire: v1::TableEntry, desired: &Desired) {
        if wire.is_default_action {
            return;
        }
        match Entry::decode(&wire) {
            // The uplink's own entry is the worker's.
            Ok(Entry::Vport(entry))
                if !matches!(entry.action, pipeline::vport::Action::SetPort { .. }) => {}
            Ok(entry) => {
                let key = entry.key();
                let wanted = desired.entries.get(&key).map(|(entry, _)| entry);
                self.entries.insert(key, as_written(entry, wanted));
            }
            Err(_) => self.foreign.push(wire),
        }
    }
}

/// Neighbours are the worker's: where a next hop is wanted with its MAC left
/// open, the MAC that the worker has found is no difference.
fn as_written(found: Entry, wanted: Option<&Entry>) -> Entry {
    use pipeline::nexthop::Action::ToVtep;

    let Entry::Nexthop(mut hop) = found else {
        return found;
    };
    if let Some(Entry::Nexthop(wanted)) = wanted
        && let ToVtep { dst_mac: open, .. } = wanted.action
        && open.get() == 0
        && let ToVtep { dst_mac, .. } = &mut hop.action
    {
        *dst_mac = open;
    }
    Entry::Nexthop(hop)
}

fn drift(left: &BTreeMap<Key, Entry>, found: &BTreeMap<Key, Entry>) -> u64 {
    let gone_or_changed = left
        .iter()
        .filter(|(key, entry)| found.get(key) != Some(entry))
        .count();
    let new = found.keys().filter(|key| !left.contains_key(key)).count();
    (gone_or_changed + new) as u64
}

/// Files a refusal under the resource it concerns.
fn note(
    step: Option<&Step>,
    refusal: &Refusal,
    desired: &Desired,
    synced: &mut Synced,
    missing: &mut BTreeSet<Key>,
) -> bool {
    let (key, raced) = match step {
        Some(Step::Insert(entry)) => (
            Some(entry.key()),
            // bmv2 answers UNKNOWN to a duplicate in some versions: a second
            // look tells it from a full table.
            matches!(refusal.code, Code::AlreadyExists | Code::Unknown),
        ),
        Some(Step::Modify(entry)) => (Some(entry.key()), refusal.code == Code::NotFound),
        Some(Step::Delete(_)) | None if refusal.code == Code::NotFound => return false,
        Some(Step::Delete(_)) | None => (None, false),
    };
    let table = match step {
        Some(Step::Insert(entry) | Step::Modify(entry)) => entry.key().table().name(),
        Some(Step::Delete(key)) => key.table().name(),
        None => "unknown",
    };
    let reason = match (refusal.code, step) {
        (Code::ResourceExhausted, _) => Reason::TableFull,
        (Code::Unknown | Code::Internal, Some(Step::Insert(_))) => Reason::TableFull,
        _ => Reason::Refused,
    };
    let problem = Problem::new(reason, format!("table {table}: {refusal}"));
    match key {
        Some(key) => {
            if let Some((_, owner)) = desired.entries.get(&key) {
                synced.problems.entry(owner.to_string()).or_insert(problem);
            }
            missing.insert(key);
        }
        None => {
            synced.leftovers.get_or_insert(problem);
        }
    }
    raced
}
