//! What groups an address is in, as judgements ask.

use penstock_flow::Addr;

use super::member::Groups;
use super::{Member, Network, Ruleset};
use crate::model::{GroupId, Vni};

/// A VPC, and an IPv4 address in it. A third of the size of an endpoint's key and
/// entry: with many endpoints, it is here that a judgement waits for memory.
pub(super) type PeerKey = (Vni, u32);

fn key(vni: Vni, addr: Addr) -> Option<PeerKey> {
    // An IPv4 address is its last 32 bits.
    addr.is_v4().then_some((vni, addr.0 as u32))
}

impl Ruleset {
    /// The groups that an address is a member of, as a VPC sees it: ascending.
    #[inline]
    pub(crate) fn groups_of(&self, network: &Network, vni: Vni, addr: Addr) -> &[GroupId] {
        if let Some(groups) = self.groups_in(vni, addr) {
            return groups;
        }
        // No address is in two of them.
        let mut others = network.vpc.peers.iter();
        let groups = others.find_map(|peer| self.groups_in(*peer, addr));
        groups.unwrap_or(&[])
    }

    /// None where nobody has the address.
    #[inline]
    fn groups_in(&self, vni: Vni, addr: Addr) -> Option<&[GroupId]> {
        match key(vni, addr) {
            Some(key) => self.peers.get(&key).map(Groups::all),
            None => self.endpoints.get(&(vni, addr)).map(Member::groups),
        }
    }

    /// An endpoint comes; what it was before.
    pub(super) fn put_member(
        &mut self,
        (vni, addr): (Vni, Addr),
        member: Member,
    ) -> Option<Member> {
        if let Some(key) = key(vni, addr) {
            self.peers.insert(key, member.shared_groups().clone());
        }
        self.endpoints.insert((vni, addr), member)
    }

    pub(super) fn remove_member(&mut self, (vni, addr): (Vni, Addr)) -> Option<Member> {
        if let Some(key) = key(vni, addr) {
            self.peers.remove(&key);
        }
        self.endpoints.remove(&(vni, addr))
    }
}
