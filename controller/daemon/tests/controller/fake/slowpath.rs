//! penstock.slowpath.v1 of the fake worker.

use std::collections::BTreeMap;

use penstock_slowpath_api::v1;
use penstock_slowpath_api::v1::policy_status::Result as Outcome;
use penstock_slowpath_api::v1::slow_path_server::SlowPath;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{Shared, State, Step};

/// A policy as its messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Held {
    pub vpcs: BTreeMap<u32, v1::Vpc>,
    pub subnets: BTreeMap<u32, v1::Subnet>,
    pub groups: BTreeMap<u32, v1::Group>,
    pub sets: BTreeMap<u32, v1::PrefixSet>,
    pub lists: BTreeMap<u32, v1::List>,
    pub ports: BTreeMap<u32, v1::Port>,
    pub endpoints: BTreeMap<(u32, Vec<u8>), v1::Endpoint>,
    pub vteps: BTreeMap<Vec<u8>, v1::Vtep>,
}

impl Held {
    fn change(&mut self, update: v1::PolicyUpdate) -> Result<(), String> {
        fn gone<K: Ord, V>(
            map: &mut BTreeMap<K, V>,
            keys: Vec<K>,
            what: &str,
        ) -> Result<(), String> {
            for key in keys {
                map.remove(&key)
                    .ok_or(format!("{what}: deletes what is not there"))?;
            }
            Ok(())
        }
        let key = |key: &v1::EndpointKey| (key.vni, key.ip.clone());
        gone(&mut self.vpcs, update.deleted_vpcs, "vpcs")?;
        gone(&mut self.subnets, update.deleted_subnets, "subnets")?;
        gone(&mut self.groups, update.deleted_groups, "groups")?;
        gone(&mut self.sets, update.deleted_prefix_sets, "sets")?;
        gone(&mut self.lists, update.deleted_lists, "lists")?;
        gone(&mut self.ports, update.deleted_ports, "ports")?;
        let endpoints = update.deleted_endpoints.iter().map(key).collect();
        gone(&mut self.endpoints, endpoints, "endpoints")?;
        gone(&mut self.vteps, update.deleted_vteps, "vteps")?;
        self.vpcs
            .extend(update.vpcs.into_iter().map(|it| (it.vni, it)));
        self.subnets
            .extend(update.subnets.into_iter().map(|it| (it.id, it)));
        self.groups
            .extend(update.groups.into_iter().map(|it| (it.id, it)));
        self.sets
            .extend(update.prefix_sets.into_iter().map(|it| (it.id, it)));
        self.lists
            .extend(update.lists.into_iter().map(|it| (it.id, it)));
        self.ports
            .extend(update.ports.into_iter().map(|it| (it.id, it)));
        let endpoints = update.endpoints.into_iter();
        self.endpoints
            .extend(endpoints.map(|it| (key(it.key.as_ref().unwrap()), it)));
        let vteps = update.vteps.into_iter();
        self.vteps.extend(vteps.map(|it| (it.address.clone(), it)));
        Ok(())
    }
}

impl State {
    pub fn attachments(&self) -> Vec<v1::Attachment> {
        self.policy
            .ports
            .values()
            .map(|port| match self.interfaces.get(&port.attachment) {
                Some(device_port) => v1::Attachment {
                    port_id: port.id,
                    device_port: *device_port,
                    error: String::new(),
                },
                None => v1::Attachment {
                    port_id: port.id,
                    device_port: 0,
                    error: format!("no interface {}", port.attachment),
                },
            })
            .collect()
    }

    fn nic_states(&self) -> Vec<v1::NicState> {
        let nics = self.vteps.keys().map(|id| v1::NicState {
            device_id: *id,
            uplink_error: self.uplink_errors.get(id).cloned().unwrap_or_default(),
            uplink_mtu: self.uplink_mtu,
        });
        nics.collect()
    }

    fn update(&mut self, update: v1::PolicyUpdate, first: bool) -> v1::PolicyStatus {
        let generation = update.generation;
        let answer = |result: Outcome, message: &str| v1::PolicyStatus {
            generation,
            result: result.into(),
            message: message.to_owned(),
            attachments: vec![],
            nics: vec![],
        };
        let snapshot = update.base_generation == 0;
        if snapshot {
            self.snapshots += 1;
        } else {
            self.deltas += 1;
        }
        if first && !snapshot {
            self.faults.push("a stream begins with a delta".to_owned());
        }
        if generation == self.generation && snapshot && first {
            let mut same = Held::default();
            let read = same.change(update);
            if read.is_ok() && same == self.policy {
                return v1::PolicyStatus {
                    attachments: self.attachments(),
                    ..answer(Outcome::InForce, "")
                };
            }
            return answer(Outcome::Resync, "another policy has this generation");
        }
        if generation <= self.generation {
            return answer(Outcome::Refused, "the generation does not grow");
        }
        if self.refuse_next > 0 {
            self.refuse_next -= 1;
            return answer(Outcome::Refused, "refused by the test");
        }
        if self.resync_next > 0 && !snapshot {
            self.resync_next -= 1;
            return answer(Outcome::Resync, "as the test wants it");
        }
        if !snapshot && update.base_generation != self.generation {
            return answer(Outcome::Resync, "another base");
        }
        let mut next = if snapshot {
            Held::default()
        } else {
            self.policy.clone()
        };
        if let Err(fault) = next.change(update) {
            self.faults.push(fault);
            return answer(Outcome::Resync, "inconsistent");
        }
        self.policy = next;
        self.generation = generation;
        self.history.push(Step::Policy {
            ports: self.policy.ports.keys().copied().collect(),
            groups: format!("{:?}", self.policy.lists),
        });
        v1::PolicyStatus {
            attachments: self.attachments(),
            nics: self.nic_states(),
            ..answer(Outcome::InForce, &self.complaint)
        }
    }
}

pub struct Service(pub Shared);

#[tonic::async_trait]
impl SlowPath for Service {
    async fn get_node(
        &self,
        _: Request<v1::GetNodeRequest>,
    ) -> Result<Response<v1::NodeInfo>, Status> {
        let state = self.0.lock();
        let nics = state.vteps.iter().map(|(device_id, vtep)| {
            let vtep: std::net::Ipv4Addr = vtep.parse().unwrap();
            v1::NicInfo {
                device_id: *device_id,
                driver: "soft".to_owned(),
                vtep: vtep.to_ipv6_mapped().octets().to_vec(),
                uplink_port: 500 + device_id,
                uplink_mac: vec![2, 0, 0, 0, 0, 1],
                uplink_mtu: state.uplink_mtu,
                capacity: state
                    .capacity
                    .iter()
                    .filter(|((nic, _), _)| nic == device_id)
                    .map(|((_, table), most)| (table.name().to_owned(), *most as u32))
                    .collect(),
            }
        });
        Ok(Response::new(v1::NodeInfo {
            node: state.node.clone(),
            version: "fake".to_owned(),
            lcores: 1,
            nics: nics.collect(),
            generation: state.generation,
        }))
    }

    type ExportFlowsStream = ReceiverStream<Result<v1::FlowState, Status>>;

    async fn export_flows(
        &self,
        _: Request<v1::ExportFlowsRequest>,
    ) -> Result<Response<Self::ExportFlowsStream>, Status> {
        Err(Status::unimplemented("the controller does not ask"))
    }

    async fn import_flows(
        &self,
        _: Request<Streaming<v1::FlowState>>,
    ) -> Result<Response<v1::ImportFlowsResponse>, Status> {
        Err(Status::unimplemented("the controller does not ask"))
    }

    type SyncPolicyStream = ReceiverStream<Result<v1::PolicyStatus, Status>>;

    async fn sync_policy(
        &self,
        request: Request<Streaming<v1::PolicyUpdate>>,
    ) -> Result<Response<Self::SyncPolicyStream>, Status> {
        let mut updates = request.into_inner();
        let (sender, receiver) = mpsc::channel(4);
        let state = self.0.clone();
        let number = {
            let mut state = state.lock();
            state.policy_streams += 1;
            state.policy_streams
        };
        tokio::spawn(async move {
            let mut first = true;
            let mut told = Default::default();
            loop {
                let look = tokio::time::sleep(std::time::Duration::from_millis(10));
                let status = tokio::select! {
                    update = updates.message() => match update {
                        Ok(Some(update)) => {
                            let status = state.lock().update(update, first);
                            first = false;
                            status
                        }
                        _ => return,
                    },
                    () = look => {
                        let state = state.lock();
                        if first || (state.attachments(), state.nic_states(), state.complaint.clone()) == told {
                            continue;
                        }
                        v1::PolicyStatus {
                            generation: state.generation,
                            result: Outcome::InForce.into(),
                            message: state.complaint.clone(),
                            attachments: state.attachments(),
                            nics: state.nic_states(),
                        }
                    }
                };
                if state.lock().policy_streams != number {
                    let _ = sender.send(Err(Status::aborted("displaced"))).await;
                    return;
                }
                if status.result() == Outcome::InForce {
                    told = (
                        status.attachments.clone(),
                        status.nics.clone(),
                        status.message.clone(),
                    );
                }
                if sender.send(Ok(status)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    type ListFlowsStream = tokio_stream::Iter<std::vec::IntoIter<Result<v1::Flow, Status>>>;

    async fn list_flows(
        &self,
        request: Request<v1::ListFlowsRequest>,
    ) -> Result<Response<Self::ListFlowsStream>, Status> {
        let request = request.into_inner();
        let state = self.0.lock();
        let ports = state.policy.ports.values();
        let flows: Vec<_> = ports
            .filter(|port| request.port_id == 0 || port.id == request.port_id)
            .map(|port| {
                Ok(v1::Flow {
                    port_id: port.id,
                    vni: port.vni,
                    key: Some(v1::FlowKey {
                        source_ip: port.ips[0].clone(),
                        destination_ip: port.ips[0].clone(),
                        protocol: 6,
                        source_port: 1024,
                        destination_port: 80,
                    }),
                    state: "established".to_owned(),
                    ..Default::default()
                })
            })
            .take(request.limit.try_into().unwrap())
            .collect();
        Ok(Response::new(tokio_stream::iter(flows)))
    }

    async fn list_drops(
        &self,
        _: Request<v1::ListDropsRequest>,
    ) -> Result<Response<v1::ListDropsResponse>, Status> {
        let state = self.0.lock();
        let drops = state.policy.ports.keys().map(|id| v1::Drop {
            port_id: *id,
            reason: "denied_ingress".to_owned(),
            ingress: true,
            age_ns: u64::from(*id),
            ..Default::default()
        });
        Ok(Response::new(v1::ListDropsResponse {
            counters: vec![v1::DropCounter {
                reason: "denied_ingress".to_owned(),
                packets: 3,
            }],
            drops: drops.collect(),
        }))
    }
}
