//! A worker for tests: real gRPC services over tables in memory, with counters
//! to look at and faults to switch on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use p4runtime::pipeline::{Entry, Key, Table};
use penstock_slowpath_api::v1::slow_path_server::SlowPathServer;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tonic::transport::server::TcpIncoming;

use crate::waiting::{soon, until};

mod p4rt;
mod slowpath;

/// What a worker holds and has seen.
#[derive(Default)]
pub struct State {
    pub node: String,
    pub vteps: BTreeMap<u32, String>,
    /// Interfaces of the host, with their device port.
    pub interfaces: BTreeMap<String, u32>,

    pub generation: u64,
    pub policy: slowpath::Held,
    pub nics: BTreeMap<u32, p4rt::Nic>,
    /// Entries of a NIC's table that it takes.
    pub capacity: BTreeMap<(u32, Table), usize>,
    /// Bytes that every NIC's uplink takes.
    pub uplink_mtu: u32,
    /// Why NICs' uplinks carry nothing.
    pub uplink_errors: BTreeMap<u32, String>,
    /// What is wrong though the policy is in force.
    pub complaint: String,

    pub snapshots: u64,
    pub deltas: u64,
    pub writes: u64,
    pub reads: u64,
    pub commits: u64,
    pub policy_streams: u64,
    pub streams: u64,
    /// Open P4Runtime streams.
    pub listeners: BTreeMap<u64, p4rt::Listener>,
    /// What was done in which order.
    pub history: Vec<Step>,
    /// Breaches of the protocol.
    pub faults: Vec<String>,

    /// Answers to give instead of the right ones, first come first served.
    pub resync_next: u64,
    pub refuse_next: u64,
    pub fail_reads: u64,
    pub fail_writes: u64,
    /// Keys that are always refused.
    pub poisoned: BTreeSet<Key>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Policy {
        ports: BTreeSet<u32>,
        groups: String,
    },
    Write(Table),
    Delete(Table),
}

#[derive(Clone)]
pub struct Shared(Arc<Mutex<State>>);

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panics with the lock held has said what was wrong.
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

pub struct Worker {
    pub state: Shared,
    pub address: String,
    runtime: Option<Runtime>,
}

impl Worker {
    /// A worker named `name` with NICs 1 to `nics` and the VTEPs of node `number`.
    pub async fn start(name: &str, number: u8, nics: u8) -> Self {
        let state = State {
            node: name.to_owned(),
            vteps: (1..=nics)
                .map(|id| (id.into(), crate::samples::vtep(number, id)))
                .collect(),
            nics: (1..=nics)
                .map(|id| (id.into(), p4rt::Nic::default()))
                .collect(),
            uplink_mtu: 1600,
            interfaces: (1..100).map(|n| (format!("veth{n}"), 1000 + n)).collect(),
            ..Default::default()
        };
        let mut worker = Self {
            state: Shared(Arc::new(Mutex::new(state))),
            address: "127.0.0.1:0".to_owned(),
            runtime: None,
        };
        worker.resume().await;
        worker
    }

    /// Serves, on the address of before if there was one. In a runtime of its
    /// own, so that it can be killed with all its connections.
    pub async fn resume(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let address = self.address.clone();
        let state = self.state.clone();
        let (tell, bound) = tokio::sync::oneshot::channel();
        runtime.spawn(async move {
            let listener = until("the worker's address to be free", || async {
                TcpListener::bind(&address).await.ok()
            })
            .await;
            tell.send(listener.local_addr().unwrap()).unwrap();
            let served = p4runtime::transport::server()
                .add_service(SlowPathServer::new(slowpath::Service(state.clone())))
                .add_service(p4runtime::transport::service(p4rt::Service(state)))
                .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
                .await;
            served.unwrap();
        });
        self.address = soon("the worker to listen", bound)
            .await
            .unwrap()
            .to_string();
        self.runtime = Some(runtime);
    }

    /// Dies, with every connection; what it holds stays.
    pub fn pause(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        for nic in self.state.lock().nics.values_mut() {
            nic.primary = None;
        }
    }

    /// Loses everything, as a worker without a disk does.
    pub fn forget(&self) {
        let mut state = self.state.lock();
        state.generation = 0;
        state.policy = slowpath::Held::default();
        for nic in state.nics.values_mut() {
            *nic = p4rt::Nic::default();
        }
    }

    pub fn entries(&self, device_id: u32) -> BTreeMap<Key, Entry> {
        self.state.lock().nics[&device_id].entries.clone()
    }

    /// Keys of one table.
    pub fn count(&self, device_id: u32, table: Table) -> usize {
        let entries = self.entries(device_id);
        entries.keys().filter(|key| key.table() == table).count()
    }

    pub fn assert_no_faults(&self) {
        let faults = self.state.lock().faults.clone();
        assert!(faults.is_empty(), "{faults:#?}");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.pause();
    }
}
