//! What is true now, for readers and watchers.
//!
//! The hub holds the newest [`World`] and the newest status of each resource,
//! and tells every watcher of each change in order. A watcher that does not
//! keep up is told so and must start again; it never slows down a writer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_api::v1;
use tokio::sync::{broadcast, watch};

use crate::status;
use crate::world::{Row, World};

/// Batches that a watcher may lag behind; one accepted request or one round of
/// status is one batch.
const BACKLOG: usize = 1024;

/// Changes that became visible together.
#[derive(Debug)]
pub struct Changes {
    /// The world's revision after them.
    pub revision: u64,
    /// In name order.
    pub changes: Vec<Change>,
}

/// What happened to one resource.
#[derive(Clone, Debug)]
pub enum Change {
    /// It is there, with this status; absent: just accepted.
    Put(Arc<Row>, Option<Arc<v1::Status>>),
    /// It was there.
    Deleted(Arc<Row>),
}

impl Change {
    /// The resource.
    pub fn row(&self) -> &Row {
        match self {
            Self::Put(row, _) | Self::Deleted(row) => row,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Hub {
    inner: Mutex<Inner>,
    worlds: watch::Sender<Arc<World>>,
    events: broadcast::Sender<Arc<Changes>>,
}

#[derive(Debug)]
struct Inner {
    world: Arc<World>,
    statuses: HashMap<String, Arc<v1::Status>>,
}

/// Everything as of one moment.
#[derive(Debug)]
pub struct View {
    /// Resources.
    pub world: Arc<World>,
    /// Changes from that moment on.
    pub events: broadcast::Receiver<Arc<Changes>>,
    /// The status of each resource at that moment, where there is one yet.
    pub statuses: HashMap<String, Arc<v1::Status>>,
}

impl Hub {
    /// Begins with a loaded world.
    pub fn new(world: World) -> Self {
        let world = Arc::new(world);
        Self {
            worlds: watch::channel(Arc::clone(&world)).0,
            events: broadcast::channel(BACKLOG).0,
            inner: Mutex::new(Inner {
                world,
                statuses: HashMap::new(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No critical section below can panic between two changes.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest world.
    pub fn world(&self) -> Arc<World> {
        Arc::clone(&self.lock().world)
    }

    /// Worlds as they come; may skip some, never the last.
    pub fn worlds(&self) -> watch::Receiver<Arc<World>> {
        self.worlds.subscribe()
    }

    /// A resource with its status, for an answer.
    pub fn show(&self, row: &Row) -> v1::Resource {
        let status = self.lock().statuses.get(row.name()).cloned();
        status::show(row, status.as_deref())
    }

    /// Everything now, and every change after.
    pub fn view(&self) -> View {
        let inner = self.lock();
        View {
            world: Arc::clone(&inner.world),
            events: self.events.subscribe(),
            statuses: inner.statuses.clone(),
        }
    }

    /// A new world, with its differences to the one before.
    pub fn publish(&self, world: World, changed: Vec<Arc<Row>>, deleted: Vec<Arc<Row>>) {
        let world = Arc::new(world);
        let mut inner = self.lock();
        inner.world = Arc::clone(&world);
        for row in &deleted {
            inner.statuses.remove(row.name());
        }
        let mut changes: Vec<_> = changed
            .into_iter()
            .map(|row| {
                let status = inner.statuses.get(row.name()).cloned();
                Change::Put(row, status)
            })
            .chain(deleted.into_iter().map(Change::Deleted))
            .collect();
        changes.sort_by(|a, b| a.row().name().cmp(b.row().name()));
        self.send(world.revision, changes);
        self.worlds.send_replace(world);
    }

    /// New statuses. Those that say nothing new are no event, and those of
    /// resources that are gone are dropped.
    pub fn publish_statuses(&self, statuses: Vec<(String, v1::Status)>) {
        let mut inner = self.lock();
        let mut changes = Vec::new();
        for (name, status) in statuses {
            let Some(row) = inner.world.rows.get(&name).cloned() else {
                continue;
            };
            if inner.statuses.get(&name).is_some_and(|old| **old == status) {
                continue;
            }
            let status = Arc::new(status);
            inner.statuses.insert(name, Arc::clone(&status));
            changes.push(Change::Put(row, Some(status)));
        }
        let revision = inner.world.revision;
        self.send(revision, changes);
    }

    /// Under the lock, so that watchers see changes in order.
    fn send(&self, revision: u64, changes: Vec<Change>) {
        if !changes.is_empty() {
            // An error means that nobody watches.
            let _ = self.events.send(Arc::new(Changes { revision, changes }));
        }
    }
}
