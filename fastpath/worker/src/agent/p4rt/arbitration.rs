//! Who may write: arbitration between the clients of one device (P4Runtime 1.4,
//! "Client Arbitration and Controller Replication").
//!
//! Per role, the client with the highest election id ever seen is primary, while it is
//! connected; one with an older id never is. So a controller that was replaced and comes
//! back late cannot undo what its successor wrote. Pure: what is to be sent comes out,
//! what must be kept is told by [`Arbitration::highest`].

use std::collections::BTreeMap;

use p4runtime::election::Id;
use p4runtime::role;

/// A stream between a client and this worker; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// What a client learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may write.
    Primary,
    /// Another may.
    Backup,
    /// Nobody may: the primary is gone.
    Vacant,
}

/// A message that arbitration wants sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// To whom.
    pub to: StreamId,
    /// In which role.
    pub role: String,
    /// The highest election id ever seen in that role.
    pub highest: Id,
    /// Where the client stands.
    pub standing: Standing,
}

/// Why a bid ends its stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BidError {
    /// No such role.
    #[error(
        "role.name {0:?} is not one of this device; use \"\" or \"{controller}\"",
        controller = role::CONTROLLER
    )]
    UnknownRole(String),
    /// The worker's own.
    #[error("role.name \"{worker}\" is the worker's own; no client can take it", worker = role::WORKER)]
    WorkersRole,
    /// A stream keeps its role.
    #[error("role.name changed from {from:?} to {to:?}; open another stream for another role")]
    RoleChanged {
        /// It had.
        from: String,
        /// It wants.
        to: String,
    },
    /// Two clients, one id.
    #[error("election_id {0} is in use by another client of this role; choose a higher one")]
    Duplicate(Id),
}

/// The clients of one device.
#[derive(Debug, Default)]
pub struct Arbitration {
    roles: BTreeMap<String, Role>,
}

#[derive(Debug, Default)]
struct Role {
    highest: Id,
    /// Id 0: connected, but not bidding.
    bids: BTreeMap<StreamId, Id>,
    primary: Option<StreamId>,
}

impl Arbitration {
    /// As after a restart: nobody is connected, and what was seen is not forgotten.
    #[must_use]
    pub fn resume(highest: impl IntoIterator<Item = (String, Id)>) -> Self {
        let roles = highest.into_iter().map(|(name, highest)| {
            let role = Role {
                highest,
                ..Role::default()
            };
            (name, role)
        });
        Self {
            roles: roles.collect(),
        }
    }

    /// The highest id seen per role, to be kept.
    pub fn highest(&self) -> impl Iterator<Item = (&str, Id)> {
        self.roles
            .iter()
            .map(|(name, role)| (name.as_str(), role.highest))
    }

    /// Whether this bid would raise the highest id of its role.
    #[must_use]
    pub fn is_news(&self, role: &str, id: Id) -> bool {
        self.roles.get(role).map_or(Id::default(), |r| r.highest) < id
    }

    /// Checks a bid without taking it.
    ///
    /// # Errors
    /// The bid ends its stream.
    pub fn check(&self, stream: StreamId, role: &str, id: Id) -> Result<(), BidError> {
        if role == role::WORKER {
            return Err(BidError::WorkersRole);
        }
        if role != role::DEFAULT && role != role::CONTROLLER {
            return Err(BidError::UnknownRole(role.to_owned()));
        }
        if let Some((from, _)) = self
            .roles
            .iter()
            .find(|(name, r)| *name != role && r.bids.contains_key(&stream))
        {
            return Err(BidError::RoleChanged {
                from: from.clone(),
                to: role.to_owned(),
            });
        }
        let taken = self.roles.get(role).is_some_and(|r| {
            let mut others = r.bids.iter().filter(|(other, _)| **other != stream);
            id != Id::default() && others.any(|(_, bid)| *bid == id)
        });
        if taken {
            return Err(BidError::Duplicate(id));
        }
        Ok(())
    }

    /// Takes a bid, which may be the stream's second; returns who must be told. Id 0
    /// is no bid: the client listens.
    ///
    /// # Errors
    /// As [`check`](Self::check); nothing has changed.
    pub fn bid(&mut self, stream: StreamId, role: &str, id: Id) -> Result<Vec<Notice>, BidError> {
        self.check(stream, role, id)?;
        let name = role;
        let role = self.roles.entry(name.to_owned()).or_default();
        let before = role.primary;
        role.bids.insert(stream, id);
        if role.primary == Some(stream) && id < role.highest {
            role.primary = None;
        }
        if id != Id::default() && id >= role.highest {
            role.highest = id;
            role.primary = Some(stream);
        }
        Ok(if role.primary == before {
            vec![role.notice(name, stream)]
        } else {
            role.notices(name)
        })
    }

    /// The stream has ended; returns who must be told.
    pub fn leave(&mut self, stream: StreamId) -> Vec<Notice> {
        let mut notices = Vec::new();
        for (name, role) in &mut self.roles {
            role.bids.remove(&stream);
            if role.primary == Some(stream) {
                role.primary = None;
                notices.extend(role.notices(name));
            }
        }
        notices
    }

    /// Whether a request with this role and id comes from the role's primary.
    #[must_use]
    pub fn is_primary(&self, role: &str, id: Id) -> bool {
        self.roles.get(role).is_some_and(|role| {
            let primary = role.primary.and_then(|stream| role.bids.get(&stream));
            primary == Some(&id)
        })
    }
}

impl Role {
    fn notices(&self, name: &str) -> Vec<Notice> {
        self.bids.keys().map(|to| self.notice(name, *to)).collect()
    }

    fn notice(&self, name: &str, to: StreamId) -> Notice {
        let standing = match self.primary {
            Some(primary) if primary == to => Standing::Primary,
            Some(_) => Standing::Backup,
            None => Standing::Vacant,
        };
        Notice {
            to,
            role: name.to_owned(),
            highest: self.highest,
            standing,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::Standing::{Backup, Primary, Vacant};
    use super::*;

    fn told(notices: Vec<Notice>) -> Vec<(u64, Standing)> {
        notices.into_iter().map(|n| (n.to.0, n.standing)).collect()
    }

    fn bid(a: &mut Arbitration, stream: u64, id: u128) -> Vec<(u64, Standing)> {
        told(a.bid(StreamId(stream), "", Id(id)).expect("a valid bid"))
    }

    #[test]
    fn the_highest_id_wins_and_older_ones_never_do() {
        let mut a = Arbitration::default();
        assert_eq!(bid(&mut a, 1, 10), [(1, Primary)]);
        assert_eq!(bid(&mut a, 2, 5), [(2, Backup)]);
        assert_eq!(bid(&mut a, 3, 11), [(1, Backup), (2, Backup), (3, Primary)]);
        assert!(a.is_primary("", Id(11)) && !a.is_primary("", Id(10)));
        assert_eq!(told(a.leave(StreamId(3))), [(1, Vacant), (2, Vacant)]);
        assert!(!a.is_primary("", Id(11)), "it is gone");
        assert_eq!(bid(&mut a, 1, 10), [(1, Vacant)], "older than 11");
        assert_eq!(bid(&mut a, 4, 11), [(1, Backup), (2, Backup), (4, Primary)]);
    }

    #[test]
    fn a_primary_may_raise_keep_or_lower_its_bid() {
        let mut a = Arbitration::default();
        bid(&mut a, 1, 10);
        bid(&mut a, 2, 0);
        assert_eq!(bid(&mut a, 1, 12), [(1, Primary)]);
        assert_eq!(bid(&mut a, 1, 12), [(1, Primary)]);
        assert_eq!(bid(&mut a, 1, 3), [(1, Vacant), (2, Vacant)]);
        assert!(!a.is_primary("", Id(3)));
        assert!(!a.is_primary("", Id(0)), "listening is no bid");
    }

    #[test]
    fn bids_that_end_their_stream() {
        let mut a = Arbitration::default();
        bid(&mut a, 1, 10);
        let mut refused = |stream, role: &str, id| {
            let error = a.bid(StreamId(stream), role, Id(id)).expect_err(role);
            error.to_string()
        };
        assert!(refused(2, "", 10).contains("in use by another"));
        assert!(refused(2, "x", 11).contains("use \"\" or \"penstock.controller\""));
        assert!(refused(2, role::WORKER, 11).contains("no client can take it"));
        assert!(refused(1, role::CONTROLLER, 11).contains("another stream"));
        assert_eq!(bid(&mut a, 2, 0), [(2, Backup)]);
        assert_eq!(bid(&mut a, 3, 0), [(3, Backup)], "any number may listen");
    }

    #[test]
    fn roles_do_not_meet_and_a_restart_does_not_forget() {
        let mut a = Arbitration::default();
        bid(&mut a, 1, 10);
        let other = a.bid(StreamId(2), role::CONTROLLER, Id(3)).expect("a bid");
        assert_eq!(told(other), [(2, Primary)]);
        assert!(a.is_primary("", Id(10)) && a.is_primary(role::CONTROLLER, Id(3)));
        let kept: Vec<_> = a.highest().map(|(r, id)| (r.to_owned(), id)).collect();
        let mut b = Arbitration::resume(kept);
        assert_eq!(bid(&mut b, 1, 9), [(1, Vacant)]);
        assert!(b.is_news("", Id(11)) && !b.is_news("", Id(10)));
        assert_eq!(bid(&mut b, 2, 10), [(1, Backup), (2, Primary)]);
    }

    proptest! {
        /// Against the sentence in the contract, evaluated from the whole history.
        #[test]
        fn the_primary_is_who_holds_the_highest_id_ever_seen(
            steps in vec((0_u64..4, prop::option::of(0_u128..6)), 0..40)
        ) {
            let mut a = Arbitration::default();
            let mut connected = BTreeMap::new();
            let mut highest = 0;
            for (stream, step) in steps {
                match step {
                    None => {
                        a.leave(StreamId(stream));
                        connected.remove(&stream);
                    }
                    Some(id) => {
                        let duplicate = id != 0
                            && connected.iter().any(|(s, i)| *s != stream && *i == id);
                        prop_assert_eq!(a.bid(StreamId(stream), "", Id(id)).is_err(), duplicate);
                        if !duplicate {
                            connected.insert(stream, id);
                            highest = highest.max(id);
                        }
                    }
                }
                for id in 0..6 {
                    let expected = id != 0 && id == highest && connected.values().any(|i| *i == id);
                    prop_assert_eq!(a.is_primary("", Id(id)), expected, "{}", id);
                }
            }
        }
    }
}
