//! The interfaces that are device ports now, and those that should be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use penstock_flow::Mac;

use super::{Backend, Link, Numbers, Opened, PortError, Purpose, Source};
use crate::config;
use crate::lcore::Lcores;

/// What is known of a port that should be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is polled.
    Attached {
        /// Its number.
        device_port: u32,
        /// The interface behind it.
        link: Seen,
    },
    /// It is not there, and why.
    Failed(String),
}

/// An interface as it was when it was attached. Another one is attached anew: the index is
/// another's then, or what it carries is another size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The kernel's index.
    pub index: u32,
    /// Bytes of an IP packet.
    pub mtu: u32,
}

impl From<Link> for Seen {
    fn from(link: Link) -> Self {
        Self {
            index: link.index,
            mtu: link.mtu,
        }
    }
}

/// An uplink, polled.
#[derive(Debug)]
pub struct Attached {
    /// Its number.
    pub device_port: u32,
    /// Its own address.
    pub mac: Mac,
    /// Bytes of an IP packet that it carries.
    pub mtu: u16,
}

/// An uplink as it was attached first.
#[derive(Clone, Debug)]
struct Uplink {
    source: Source,
    purpose: Purpose,
    mac: Mac,
    /// As it was attached last.
    mtu: u16,
}

/// Keeps what is polled equal to what is wanted.
#[derive(Debug)]
pub struct Attachments {
    backend: Arc<dyn Backend>,
    lcores: Lcores,
    allow: config::Attachments,
    numbers: Numbers,
    uplinks: BTreeMap<u32, Uplink>,
    states: BTreeMap<String, State>,
    /// The interfaces behind uplinks, and their state.
    uplink_states: BTreeMap<u32, State>,
    /// Why uplinks carry nothing, by device port; those that carry are not in it.
    uplink_errors: BTreeMap<u32, String>,
}

impl Attachments {
    /// Nothing is attached yet.
    #[must_use]
    pub fn new(
        backend: Arc<dyn Backend>,
        lcores: Lcores,
        allow: config::Attachments,
        numbers: Numbers,
    ) -> Self {
        Self {
            backend,
            lcores,
            allow,
            numbers,
            uplinks: BTreeMap::new(),
            states: BTreeMap::new(),
            uplink_states: BTreeMap::new(),
            uplink_errors: BTreeMap::new(),
        }
    }

    /// Attaches an uplink for good.
    ///
    /// # Errors
    /// It cannot be opened or polled.
    pub async fn add_uplink(
        &mut self,
        device_port: u32,
        source: Source,
        mtu: Option<u16>,
    ) -> Result<Attached, PortError> {
        let purpose = Purpose::Uplink { mtu };
        let (opened, link) = self.attach(device_port, &source, purpose).await?;
        let uplink = Uplink {
            source,
            purpose,
            mac: opened.mac,
            mtu: opened.mtu,
        };
        self.uplinks.insert(device_port, uplink);
        let state = State::Attached { device_port, link };
        self.uplink_states.insert(device_port, state);
        Ok(opened)
    }

    /// Attaches and detaches until exactly `wanted` is attached, as far as the host has it;
    /// uplinks whose interface was made anew are attached again. Returns whether any
    /// state has changed. Cheap when nothing has: a question to the kernel for each.
    pub async fn reconcile(&mut self, wanted: &BTreeSet<String>) -> bool {
        let mtus = |this: &Self| this.uplinks.values().map(|u| u.mtu).collect::<Vec<_>>();
        let before = (self.states.clone(), self.uplink_errors.clone(), mtus(self));
        self.reconcile_uplinks().await;
        let gone: Vec<_> = self
            .states
            .keys()
            .filter(|name| !wanted.contains(*name))
            .cloned()
            .collect();
        for name in gone {
            if let Some(State::Attached { device_port, .. }) = self.states.remove(&name) {
                self.detach(device_port, &name).await;
                if self.allow.shield
                    && let Err(error) = self.backend.release(&name).await
                {
                    tracing::warn!(name, %error, "the interface keeps its filter");
                }
            }
            self.numbers.release(&name);
        }
        for name in wanted {
            let state = match self.want(name).await {
                Ok(state) => state,
                Err(error) => State::Failed(error.to_string()),
            };
            match (self.states.get(name), &state) {
                (old, State::Failed(why)) if old != Some(&state) => {
                    tracing::warn!(interface = name, why, "port is not attached");
                }
                (old, State::Attached { device_port, .. }) if old != Some(&state) => {
                    tracing::info!(interface = name, device_port, "port is attached");
                }
                _ => {}
            }
            self.states.insert(name.clone(), state);
        }
        (&self.states, &self.uplink_errors, mtus(self)) != (&before.0, &before.1, before.2)
    }

    /// Why the uplink of this device port carries nothing, as far as the kernel knows;
    /// `None` while it does.
    #[must_use]
    pub fn uplink_error(&self, device_port: u32) -> Option<&str> {
        self.uplink_errors.get(&device_port).map(String::as_str)
    }

    /// Bytes of an IP packet that an uplink takes; `None`: it is none.
    #[must_use]
    pub fn uplink_mtu(&self, device_port: u32) -> Option<u16> {
        self.uplinks.get(&device_port).map(|uplink| uplink.mtu)
    }

    /// What is known of each wanted interface.
    #[must_use]
    pub fn states(&self) -> &BTreeMap<String, State> {
        &self.states
    }

    /// Numbers to be kept over a restart.
    #[must_use]
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Detaches everything. Interfaces stay shielded: the next worker takes them over.
    pub async fn close(&mut self) {
        for (name, state) in std::mem::take(&mut self.states) {
            if let State::Attached { device_port, .. } = state {
                self.detach(device_port, &name).await;
            }
        }
        for (device_port, uplink) in std::mem::take(&mut self.uplinks) {
            self.detach(device_port, &uplink.source.to_string()).await;
        }
    }

    async fn want(&mut self, name: &str) -> Result<State, PortError> {
        if !config::Pattern::is_interface(name) {
            return Err(PortError::BadName(name.to_owned()));
        }
        let interface = Source::Interface(name.to_owned());
        if self
            .uplinks
            .values()
            .any(|uplink| uplink.source == interface)
        {
            return Err(PortError::IsUplink(name.to_owned()));
        }
        if !self.allow.allows(name) {
            return Err(PortError::NotAllowed(name.to_owned()));
        }
        let found = self.backend.link(name).await?;
        if let Some(State::Attached { device_port, link }) = self.states.get(name).cloned() {
            if found.is_some_and(|found| Seen::from(found) == link) {
                return Ok(State::Attached { device_port, link });
            }
            self.states.remove(name);
            self.detach(device_port, name).await;
        }
        if found.is_none() {
            return Err(PortError::NoInterface(name.to_owned()));
        }
        let number = self.numbers.take(name);
        let device_port = number.ok_or(PortError::NoNumber(self.numbers.iter().count() as u32))?;
        let purpose = Purpose::Workload {
            shield: self.allow.shield,
        };
        let (_, link) = self.attach(device_port, &interface, purpose).await?;
        Ok(State::Attached { device_port, link })
    }

    async fn reconcile_uplinks(&mut self) {
        for (device_port, uplink) in self.uplinks.clone() {
            let Uplink {
                source,
                purpose,
                mac,
                ..
            } = uplink;
            let Source::Interface(name) = &source else {
                continue;
            };
            let state = self.uplink_states.get(&device_port).cloned();
            let found = match self.backend.link(name).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::warn!(uplink = name, %error, "uplink cannot be looked up");
                    continue;
                }
            };
            if let Some(State::Attached { link, .. }) = state {
                if let Some(found) = found.filter(|found| Seen::from(*found) == link) {
                    self.note_uplink(device_port, name, silent(name, found));
                    continue;
                }
                match found {
                    None => tracing::error!(uplink = name, "uplink is gone; waiting for it"),
                    Some(now) => tracing::warn!(
                        uplink = name, before = ?link, now = ?Seen::from(now),
                        "uplink is another now; attaching it anew"
                    ),
                }
                self.detach(device_port, name).await;
            }
            let next = if found.is_none() {
                State::Failed(PortError::NoInterface(name.clone()).to_string())
            } else {
                match self.attach(device_port, &source, purpose).await {
                    Ok((opened, link)) => {
                        tracing::info!(uplink = name, mtu = opened.mtu, "uplink is back");
                        if let Some(uplink) = self.uplinks.get_mut(&device_port) {
                            uplink.mtu = opened.mtu;
                        }
                        if opened.mac != mac {
                            tracing::error!(
                                uplink = name, before = %mac, now = %opened.mac,
                                "the uplink's MAC has changed; restart the worker, which sends and answers with the one before"
                            );
                        }
                        State::Attached { device_port, link }
                    }
                    Err(error) => State::Failed(error.to_string()),
                }
            };
            let error = match &next {
                State::Failed(why) => Some(why.clone()),
                State::Attached { .. } => found.and_then(|found| silent(name, found)),
            };
            self.note_uplink(device_port, name, error);
            self.uplink_states.insert(device_port, next);
        }
    }

    fn note_uplink(&mut self, device_port: u32, name: &str, error: Option<String>) {
        let before = match &error {
            Some(why) => self.uplink_errors.insert(device_port, why.clone()),
            None => self.uplink_errors.remove(&device_port),
        };
        match (before, error) {
            (before, Some(why)) if before.as_ref() != Some(&why) => {
                tracing::error!(uplink = name, why, "uplink carries nothing");
            }
            (Some(_), None) => tracing::info!(uplink = name, "uplink carries again"),
            _ => {}
        }
    }

    async fn attach(
        &self,
        device_port: u32,
        source: &Source,
        purpose: Purpose,
    ) -> Result<(Attached, Seen), PortError> {
        // Looked up first: an interface made anew meanwhile shows as changed, and is
        // attached again.
        let link = match source {
            Source::Interface(name) => self.backend.link(name).await?,
            Source::Devargs(_) => None,
        };
        let link = link.map_or(Seen { index: 0, mtu: 0 }, Seen::from);
        let opened = self.backend.open(device_port, source, purpose).await?;
        let Opened { mac, mtu, queues } = opened;
        if let Err(error) = self.lcores.add_port(device_port, mtu, queues).await? {
            self.backend.close(device_port).await?;
            return Err(error.into());
        }
        Ok((
            Attached {
                device_port,
                mac,
                mtu,
            },
            link,
        ))
    }

    /// Failing to detach leaves a port that is not polled: it is said, and the rest goes on.
    async fn detach(&self, device_port: u32, name: &str) {
        let removed = self.lcores.remove_port(device_port).await;
        let closed = match removed {
            Ok(queues) => {
                drop(queues);
                self.backend.close(device_port).await
            }
            Err(error) => Err(error.into()),
        };
        match closed {
            Ok(()) => tracing::info!(name, device_port, "port is detached"),
            Err(error) => {
                tracing::warn!(name, device_port, %error, "port is not closed");
            }
        }
    }
}

/// Why an interface that is there carries nothing.
fn silent(name: &str, found: Link) -> Option<String> {
    if !found.up {
        return Some(format!(
            "interface {name} is down; set it up: ip link set {name} up"
        ));
    }
    (!found.carrier)
        .then(|| format!("interface {name} has no carrier; look after its cable and the other end"))
}
