//! One list, compiled: it knows no port, so all ports share it.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;

use crate::model::{Action, Direction, List, ListId, Peer, Peers, Tier};
use crate::query::RuleId;
use crate::service::{Cells, Header, NONE, Rank, Reach, Service};
use crate::tags::{self, Tag, TagTable};

/// A list and its program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) id: ListId,
    pub(crate) list: Arc<List>,
    /// What a judgement asks of the list itself, at hand.
    pub(crate) audit: bool,
    pub(crate) priority: u16,
    /// The rules in the order in which they are asked.
    order: Box<[Ranked]>,
    ingress: Way,
    egress: Way,
}

/// What is asked of a rule when it has matched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranked {
    /// Its place in the list as declared.
    pub(crate) index: u16,
    pub(crate) priority: u16,
    pub(crate) action: Action,
    pub(crate) stateful: bool,
    pub(crate) log: bool,
}

/// One direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Way {
    /// Rules about everyone.
    pub(crate) everyone: Option<Box<Service>>,
    /// Where those match anything.
    reach: Reach,
    /// Rules about peers of a tag: places in `services`.
    pub(crate) tags: TagTable,
    pub(crate) services: Box<[Service]>,
}

type Map<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

impl Program {
    /// `tag_of` names the tag of a CIDR peer. The list's rules are `checked`.
    pub(crate) fn new(id: ListId, list: Arc<List>, mut tag_of: impl FnMut(&Peer) -> Tag) -> Self {
        let mut order: Vec<usize> = (0..list.rules.len()).collect();
        // Names are told apart at the very end, for they may be long.
        let by_priority = list.tier != Tier::Tenant;
        order.sort_by(|a, b| {
            let (Some(a), Some(b)) = (list.rules.get(*a), list.rules.get(*b)) else {
                return core::cmp::Ordering::Equal;
            };
            let ahead = if by_priority {
                (a.priority, a.action).cmp(&(b.priority, b.action))
            } else {
                core::cmp::Ordering::Equal
            };
            // What would make a connection comes first, so that no name decides
            // whether there is one.
            let made = b.stateful.cmp(&a.stateful);
            ahead.then(made).then_with(|| a.name.cmp(&b.name))
        });
        let mut ingress = Builder::default();
        let mut egress = Builder::default();
        for (rank, index) in (0..NONE).zip(&order) {
            let Some(rule) = list.rules.get(*index) else {
                continue;
            };
            let way = match rule.direction {
                Direction::Ingress => &mut ingress,
                Direction::Egress => &mut egress,
            };
            match &rule.peers {
                Peers::Everyone => way.everyone.push(rank),
                Peers::Any(peers) => {
                    for peer in peers {
                        way.add(tag_of(peer), rank);
                    }
                }
            }
        }
        let ranked: Box<[Ranked]> = order
            .iter()
            .filter_map(|index| {
                let rule = list.rules.get(*index)?;
                Some(Ranked {
                    index: u16::try_from(*index).ok()?,
                    priority: rule.priority,
                    action: rule.action,
                    stateful: rule.stateful,
                    log: rule.log,
                })
            })
            .collect();
        let rules = |rank: Rank| list.rules.get(*order.get(usize::from(rank))?);
        Self {
            id,
            ingress: ingress.build(&rules),
            egress: egress.build(&rules),
            order: ranked,
            audit: list.audit,
            priority: list.priority,
            list,
        }
    }

    /// The first rule that matches a peer with these tags.
    #[inline]
    pub(crate) fn find(
        &self,
        direction: Direction,
        header: Header,
        tags: &[Tag],
    ) -> Option<&Ranked> {
        self.ranked(self.way(direction).find(header, tags))
    }

    /// The same, where the tags are too many to be at hand.
    #[cold]
    pub(crate) fn find_among(
        &self,
        direction: Direction,
        header: Header,
        tags: impl Iterator<Item = Tag>,
    ) -> Option<&Ranked> {
        let services = self.way(direction).at(tags);
        self.ranked(services.map(|s| s.find(header)).min().unwrap_or(NONE))
    }

    pub(crate) const fn way(&self, direction: Direction) -> &Way {
        match direction {
            Direction::Ingress => &self.ingress,
            Direction::Egress => &self.egress,
        }
    }

    #[inline]
    pub(crate) fn ranked(&self, rank: Rank) -> Option<&Ranked> {
        self.order.get(usize::from(rank))
    }

    pub(crate) const fn rule_id(&self, ranked: &Ranked) -> RuleId {
        RuleId {
            list: self.id,
            index: ranked.index,
        }
    }

    /// How many services there are.
    pub(crate) fn services(&self) -> usize {
        [&self.ingress, &self.egress]
            .iter()
            .map(|way| way.services.len() + usize::from(way.everyone.is_some()))
            .sum()
    }

    /// Entries, as a measure of its memory.
    pub(crate) fn entries(&self) -> usize {
        let ways = [&self.ingress, &self.egress];
        let of_way = |way: &&Way| {
            let services = way.services.iter().chain(way.everyone.as_deref());
            way.tags.len() + services.map(Service::entries).sum::<usize>()
        };
        self.order.len() + ways.iter().map(of_way).sum::<usize>()
    }
}

impl Way {
    /// The services of a peer with these tags.
    #[inline]
    pub(crate) fn at(&self, tags: impl Iterator<Item = Tag>) -> impl Iterator<Item = &Service> {
        let has_tags = !self.tags.is_empty();
        let tagged = tags
            .take_while(move |_| has_tags)
            .filter_map(|tag| self.service(tag));
        self.everyone.as_deref().into_iter().chain(tagged)
    }

    #[inline]
    fn find(&self, header: Header, tags: &[Tag]) -> Rank {
        let mut found = match &self.everyone {
            Some(everyone) if self.reach.has(header) => everyone.find(header),
            _ => NONE,
        };
        let mut may = self.tags.may(tags, header.cell());
        while may != 0 {
            let tag = tags.get(may.trailing_zeros() as usize);
            may &= may - 1;
            if let Some(service) = tag.and_then(|tag| self.service(*tag)) {
                found = found.min(service.find(header));
            }
        }
        found
    }

    #[inline]
    pub(crate) fn service(&self, tag: Tag) -> Option<&Service> {
        self.services.get(self.tags.get(tag)? as usize)
    }
}

/// The tag of a peer that has an id.
pub(crate) const fn named(peer: &Peer) -> Option<Tag> {
    match peer {
        Peer::Group(id) => Some(tags::group(*id)),
        Peer::Set(id) => Some(tags::set(*id)),
        Peer::Cidr { .. } => None,
    }
}

/// A direction being put together.
#[derive(Default)]
struct Builder {
    everyone: Vec<Rank>,
    tags: Vec<(Tag, Vec<Rank>)>,
    places: Map<Tag, usize>,
}

impl Builder {
    fn add(&mut self, tag: Tag, rank: Rank) {
        let place = *self.places.entry(tag).or_insert(self.tags.len());
        match self.tags.get_mut(place) {
            // A rule may name a peer twice.
            Some((_, ranks)) if ranks.last() == Some(&rank) => {}
            Some((_, ranks)) => ranks.push(rank),
            None => self.tags.push((tag, Vec::from([rank]))),
        }
    }

    fn build<'a>(self, rules: &impl Fn(Rank) -> Option<&'a crate::model::Rule>) -> Way {
        let service = |ranks: &[Rank]| {
            let found = ranks.iter().filter_map(|rank| Some((*rank, rules(*rank)?)));
            Service::new(found)
        };
        let everyone = (!self.everyone.is_empty()).then(|| Box::new(service(&self.everyone)));
        let mut services = Vec::new();
        // Peers that the same rules name share a service.
        let mut known = Map::<Vec<Rank>, (u32, Cells)>::default();
        let mut entries = Vec::with_capacity(self.tags.len());
        for (tag, ranks) in self.tags {
            let next = u32::try_from(services.len()).unwrap_or(u32::MAX);
            let (place, cells) = *known.entry_ref(&ranks[..]).or_insert_with(|| {
                services.push(service(&ranks));
                (
                    next,
                    Cells::of(ranks.iter().filter_map(|rank| rules(*rank))),
                )
            });
            entries.push((tag, place, cells));
        }
        Way {
            everyone,
            reach: Reach::of(|| self.everyone.iter().filter_map(|rank| rules(*rank))),
            tags: TagTable::new(entries.into_iter()),
            services: services.into_boxed_slice(),
        }
    }
}
