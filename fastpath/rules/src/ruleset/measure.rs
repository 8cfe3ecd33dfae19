//! A ruleset as a whole: how large it is, and whether a port is open at all.

use super::{Compiled, Ruleset};
use crate::model::{Action, Direction, Tier};
use crate::program::Program;

impl Ruleset {
    /// How many entries its tables have, as a measure of memory: linear in the policy.
    #[must_use]
    pub fn entries(&self) -> usize {
        let programs = self
            .lists
            .iter()
            .filter_map(|(_, slot)| self.program(*slot));
        let places = self.vpcs.iter().map(|(_, n)| n.places.entries());
        let ladders = self.ports.iter().map(|(_, p)| {
            let ladders = [&p.ingress, &p.egress];
            ladders.iter().map(|l| l.slots().len()).sum::<usize>()
        });
        let members = self.endpoints.iter().map(|(_, m)| m.groups().len() + 1);
        programs.map(Program::entries).sum::<usize>()
            + places.sum::<usize>()
            + ladders.sum::<usize>()
            + members.sum::<usize>()
    }

    /// Whether a port's lists, or its VPC, let anything pass at all.
    pub(crate) fn lets_pass(&self, port: &Compiled) -> bool {
        let Some(network) = self.network(port.port.vni) else {
            return false;
        };
        [Direction::Ingress, Direction::Egress].iter().any(|way| {
            let (own, wide) = (port.ladder(*way), network.ladder(*way));
            let slots = || own.slots().iter().chain(wide.slots());
            let lists = || slots().filter_map(|slot| Some(&self.program(*slot)?.list));
            let mut rules = lists().flat_map(|list| &list.rules);
            let selected = || lists().any(|l| l.tier == Tier::Tenant && !l.audit);
            rules.any(|rule| rule.direction == *way && rule.action == Action::Allow)
                || network.vpc.default_allow && !selected()
        })
    }
}
