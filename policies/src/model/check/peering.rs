//! Peerings between VPCs.

use penstock_flow::{Addr, Prefix};

use super::At;
use super::parse::{last, overlap};
use crate::document::{self, Kind};
use crate::model::{Peering, PeeringName, VpcName};

impl<'a> At<'_, 'a> {
    pub(super) fn peering(&mut self, name: PeeringName, spec: &'a document::Peering) {
        let document::Peering { peer } = spec;
        let vpc = name.vpc();
        self.parent(Kind::Vpc, vpc.as_str());
        let field = "spec.peer";
        let Some(peer) = self.other_vpc(field, &vpc, peer) else {
            return;
        };
        if peer == vpc {
            let message = format!("{peer} is the peering's own VPC");
            self.problem(field, message, "name another VPC");
            return;
        }
        let me = self.declared_name();
        let pair = (vpc.clone(), peer.clone());
        if let Some(other) = self.check.claims.peerings.insert(pair, me)
            && other != me
        {
            let message = format!("{peer} is the peer of {other} already");
            self.problem(field, message, "keep one of the two");
            return;
        }
        let back = (peer.clone(), vpc.clone());
        if self.check.claims.peerings.contains_key(&back) {
            // Now both sides want it.
            if !self.disjoint(field, &vpc, &peer) {
                return;
            }
            let peered = &mut self.check.model.peered;
            for (one, other) in [(&vpc, &peer), (&peer, &vpc)] {
                peered.entry(one.clone()).or_default().insert(other.clone());
            }
        }
        self.check.model.peerings.insert(name, Peering { peer });
    }

    /// Whether the prefixes of the two lie apart, and apart from those of either's
    /// other peers: an address must say whose it is.
    fn disjoint(&mut self, field: &str, vpc: &VpcName, peer: &VpcName) -> bool {
        let cidrs = |at: &Self, vpc: &VpcName| {
            let found = at.check.model.vpcs.get(vpc);
            found.map_or_else(Vec::new, |found| found.cidrs.clone())
        };
        let (ours, theirs) = (cidrs(self, vpc), cidrs(self, peer));
        let mut overlaps = ours
            .iter()
            .flat_map(|a| theirs.iter().map(move |b| (a, b)))
            .filter(|(a, b)| overlap(**a, **b));
        if let Some((a, b)) = overlaps.next() {
            let message = format!("{b} of {peer} overlaps {a} of {vpc}");
            let hint = "peer VPCs that use different addresses";
            self.problem(field, message, hint);
            return false;
        }
        for (one, other, prefixes) in [(vpc, peer, &theirs), (peer, vpc, &ours)] {
            let beside = self.check.claims.beside.entry(one.clone()).or_default();
            let met = prefixes.iter().find_map(|prefix| {
                let Addr(end) = last(*prefix);
                // These are disjoint: only the last to begin before its end can reach into it.
                let (_, (met, whose)) = beside.range(..=end).next_back()?;
                overlap(*met, *prefix).then(|| (*prefix, *met, whose.clone()))
            });
            if let Some((prefix, met, whose)) = met {
                let message =
                    format!("{prefix} of {other} overlaps {met} of {whose}, another peer of {one}");
                let hint = "the peers of a VPC must use different addresses";
                self.problem(field, message, hint);
                return false;
            }
            let place = |prefix: &Prefix| (prefix.addr().0, (*prefix, other.clone()));
            beside.extend(prefixes.iter().map(place));
        }
        true
    }
}
