//! One node with a controller: what is declared, and both parts started.
//!
//! Half of the clients may speak to the server because they are members of the group
//! `trusted`, the other half by a rule each. So there are two kinds of permission
//! to take away.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use dpdk::{Eal, Mempool};
use penstock_api::client::{Client, Options as ClientOptions, connect};
use penstock_api::v1;
use penstock_api::v1::resource::Spec;
use penstock_daemon::server::{self, Options};
use penstock_daemon::store::Embedded;
use penstock_flow::Mac;
use penstock_worker::config::{Config, File};
use penstock_worker::lcore::Lcores;
use penstock_worker::worker::{self, Worker};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::frames::{
    CLIENTS, ENDS, FORBIDDEN, SERVER_IP, SERVER_MAC, client_ip, client_mac, client_vlan,
};
use crate::meter::Meter;
use crate::ports::{self, Host};

const NODE: &str = "node-1";
const VPC: &str = "tenants/bench/vpcs/main";
const TRUSTED: &str = "trusted";
const CLIENT: &str = "client";
const SERVICE: &str = "service";

/// What differs between sites.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Entries of the NIC's flow table.
    pub flow_capacity: u32,
    /// Lines for the worker's `[[nic]]`.
    pub nic: &'static str,
}

/// A controller and a worker that run.
#[derive(Debug)]
pub struct Site {
    /// As an operator's tool has it.
    pub client: Client,
    /// The worker's polling threads.
    pub lcores: Lcores,
    worker: Option<Worker>,
    stop: oneshot::Sender<()>,
    daemon: tokio::task::JoinHandle<Result<(), server::Error>>,
    // Threads of their own for each part, as if they were processes.
    controller: Runtime,
    node: Runtime,
    _data: tempfile::TempDir,
}

impl Site {
    /// Starts both parts and declares everything.
    ///
    /// # Errors
    /// Something does not start.
    pub async fn start(
        shape: Shape,
        eal: &Eal,
        pool: Mempool,
        meter: Arc<Meter>,
    ) -> anyhow::Result<Self> {
        let data = tempfile::tempdir()?;
        let runtime = || {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
        };
        let (controller, node) = (runtime()?, runtime()?);

        let config = config(shape, data.path())?;
        let parts = {
            let _inside = node.enter();
            worker::on(&config, eal, pool, Arc::new(Host::new(pool, meter)))?
        };
        let lcores = parts.lcores().clone();
        let worker = node
            .spawn(async move { Worker::start(&config, parts).await })
            .await??;

        let store = Arc::new(Embedded::open(&data.path().join("controller"))?);
        let listener = controller.spawn(TcpListener::bind("127.0.0.1:0")).await??;
        let server = format!("http://{}", listener.local_addr()?);
        let (stop, stopped) = oneshot::channel();
        let daemon = controller.spawn(async move {
            let stop = async move {
                // The sender is gone: as good as a stop.
                let _ = stopped.await;
            };
            server::serve(listener, store, Options::default(), stop).await
        });
        let client = connect(ClientOptions {
            server,
            connect_timeout: Duration::from_secs(10),
            tls: None,
        })
        .await?;
        let mut site = Self {
            client,
            lcores,
            worker: Some(worker),
            stop,
            daemon,
            controller,
            node,
            _data: data,
        };
        site.declare().await?;
        Ok(site)
    }

    async fn declare(&mut self) -> anyhow::Result<()> {
        let address = self.worker.as_ref().context("a worker")?.address();
        let mut resources = vec![
            resource("tenants/bench", Spec::Tenant(v1::Tenant::default())),
            resource(
                VPC,
                Spec::Vpc(v1::Vpc {
                    vni: 1001,
                    cidrs: vec!["10.1.0.0/16".to_owned()],
                    default_action: v1::Action::Deny.into(),
                }),
            ),
            resource(
                &format!("{VPC}/subnets/s"),
                Spec::Subnet(v1::Subnet {
                    cidrs: vec!["10.1.0.0/16".to_owned()],
                    mtu: 0,
                }),
            ),
            resource(
                &format!("nodes/{NODE}"),
                Spec::Node(v1::Node {
                    worker_address: address.to_string(),
                    nics: vec![v1::Nic {
                        device_id: 1,
                        vtep: "192.0.2.1".to_owned(),
                        underlay_mtu: 1600,
                    }],
                }),
            ),
            group(TRUSTED, v1::Direction::Egress, vec![]),
            group(
                CLIENT,
                v1::Direction::Egress,
                vec![rule("out", v1::Direction::Egress, None)],
            ),
            service(None),
            port(
                "server",
                ports::SERVER,
                0,
                SERVER_MAC,
                SERVER_IP.to_string(),
                &[SERVICE],
            ),
        ];
        resources.extend((0..ENDS).map(|c| client(c, is_member(c))));
        self.apply(resources).await
    }

    /// Stores these, as `penstock apply` does.
    ///
    /// # Errors
    /// The controller refuses them.
    pub async fn apply(&mut self, resources: Vec<v1::Resource>) -> anyhow::Result<()> {
        let request = v1::ApplyRequest {
            resources,
            ..Default::default()
        };
        self.client.resources.apply(request).await?;
        Ok(())
    }

    /// Stops both parts.
    ///
    /// # Errors
    /// One of them had failed.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        // Whoever is gone needs no stop.
        let _ = self.stop.send(());
        self.daemon.await??;
        if let Some(worker) = self.worker.take() {
            self.node.spawn(worker.stop()).await??;
        }
        self.controller.shutdown_background();
        self.node.shutdown_background();
        Ok(())
    }
}

/// The declaration with which a client may speak to the server, or may not.
#[must_use]
pub fn permission(of: u32, allowed: bool) -> v1::Resource {
    if is_member(of) {
        client(of, allowed)
    } else {
        service((!allowed).then_some(of))
    }
}

/// By membership, and not by a rule.
const fn is_member(client: u32) -> bool {
    client.is_multiple_of(2) && client != FORBIDDEN
}

/// By a rule of its own.
const fn has_rule(client: u32) -> bool {
    !client.is_multiple_of(2) && client < CLIENTS
}

fn config(shape: Shape, data: &Path) -> anyhow::Result<Config> {
    let Shape { flow_capacity, nic } = shape;
    let data = data.join("worker");
    let text = format!(
        "node = \"{NODE}\"\n\
         listen = \"127.0.0.1:0\"\n\
         data_dir = {data:?}\n\
         max_connections = 524288\n\
         flow_capacity = {flow_capacity}\n\
         recovery_s = 0\n\
         [[nic]]\n\
         device_id = 1\n\
         uplink = {{ interface = \"{}\" }}\n\
         vtep = \"192.0.2.1/24\"\n\
         {nic}\n",
        ports::UPLINK
    );
    let file: File = toml::from_str(&text)?;
    Ok(Config::check(file, true, None)?)
}

fn client(client: u32, trusted: bool) -> v1::Resource {
    let groups: &[&str] = if trusted {
        &[CLIENT, TRUSTED]
    } else {
        &[CLIENT]
    };
    port(
        &format!("c{client}"),
        ports::CLIENTS,
        client_vlan(client),
        client_mac(client),
        client_ip(client).to_string(),
        groups,
    )
}

/// The server's group, without the rule of one client.
fn service(without: Option<u32>) -> v1::Resource {
    let members = v1::peer::Peer::SecurityGroup(TRUSTED.to_owned());
    let mut rules = vec![rule("trusted", v1::Direction::Ingress, Some(members))];
    let own = (0..CLIENTS).filter(|c| has_rule(*c) && Some(*c) != without);
    rules.extend(own.map(|c| {
        let peer = v1::peer::Peer::Cidr(v1::Cidr {
            prefix: format!("{}/32", client_ip(c)),
            except: vec![],
        });
        rule(&format!("c{c}"), v1::Direction::Ingress, Some(peer))
    }));
    group(SERVICE, v1::Direction::Ingress, rules)
}

fn rule(name: &str, direction: v1::Direction, peer: Option<v1::peer::Peer>) -> v1::Rule {
    v1::Rule {
        name: name.to_owned(),
        direction: direction.into(),
        protocol: v1::Protocol::Udp.into(),
        peers: peer
            .map(|peer| v1::Peer { peer: Some(peer) })
            .into_iter()
            .collect(),
        ..Default::default()
    }
}

fn group(name: &str, direction: v1::Direction, rules: Vec<v1::Rule>) -> v1::Resource {
    let group = v1::SecurityGroup {
        rules,
        directions: vec![direction.into()],
    };
    resource(
        &format!("{VPC}/securityGroups/{name}"),
        Spec::SecurityGroup(group),
    )
}

fn port(
    name: &str,
    attachment: &str,
    vlan: u32,
    mac: Mac,
    ip: String,
    groups: &[&str],
) -> v1::Resource {
    let port = v1::Port {
        subnet: "s".to_owned(),
        node: NODE.to_owned(),
        nic: 1,
        attachment: attachment.to_owned(),
        vlan,
        mac: mac.to_string(),
        ips: vec![ip],
        security_groups: groups.iter().map(|&g| g.to_owned()).collect(),
        ..Default::default()
    };
    resource(&format!("{VPC}/ports/{name}"), Spec::Port(port))
}

fn resource(name: &str, spec: Spec) -> v1::Resource {
    v1::Resource {
        name: name.to_owned(),
        spec: Some(spec),
        ..Default::default()
    }
}
