//! The compiled policy against the reference, packet by packet, and laws that
//! hold for any policy.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use penstock_policies::Ids;
use penstock_policies::compile;
use penstock_policies::model::{Model, NodeName, PolicyName, PortName, Rule, Segment, VpcName};
use penstock_reference::random::{self, Random};
use penstock_reference::{By, Judged, Packet, Verdict, judge};
use penstock_rules::model::PortId;
use penstock_rules::{Decision, Query, Ruleset};

const PER_MODEL: usize = 2_000;

fn is_long() -> bool {
    std::env::var_os("PENSTOCK_LONG").is_some()
}

/// A model as its nodes judge by it.
struct Compiled {
    ids: Ids,
    rulesets: BTreeMap<NodeName, Ruleset>,
}

impl Compiled {
    fn new(model: &Model) -> Self {
        let mut ids = Ids::default();
        ids.assign(model).expect("ids");
        let rulesets = model.nodes.keys().map(|node| {
            let policy = compile::policy(model, &ids, node, 1).expect("a valid model");
            (
                node.clone(),
                Ruleset::compile(policy).expect("a valid policy"),
            )
        });
        let rulesets = rulesets.collect();
        Self { ids, rulesets }
    }

    fn port_id(&self, name: &PortName) -> PortId {
        self.ids.ports[name]
    }

    fn judge(&self, model: &Model, packet: &Packet) -> Judged {
        let ruleset = &self.rulesets[&model.ports[&packet.port].node];
        let judgement = ruleset.judge(&Query {
            direction: packet.direction,
            port: self.port_id(&packet.port),
            peer: packet.peer,
            proto: packet.protocol,
            sport: packet.source_port,
            dport: packet.destination_port,
        });
        let by = |decision| match decision {
            Decision::Rule(rule) => By::Rule(ruleset.rule_name(rule).to_owned()),
            Decision::Closed => By::Closed,
            Decision::VpcDefault => By::Default,
            Decision::NoPort => unreachable!("{} is not compiled", packet.port),
        };
        Judged {
            verdict: match judgement.verdict {
                penstock_rules::Verdict::Allow => Verdict::Allow,
                penstock_rules::Verdict::Deny => Verdict::Deny,
                penstock_rules::Verdict::Reject => Verdict::Reject,
            },
            by: by(judgement.decision),
            stateful: judgement.stateful,
            log: judgement.log,
            would_stop: judgement.audit.map(by),
        }
    }
}

/// What a run has seen, so that it cannot pass by seeing nothing.
#[derive(Default)]
struct Seen {
    packets: AtomicU64,
    allowed: AtomicU64,
    rejected: AtomicU64,
    stateless: AtomicU64,
    would_stop: AtomicU64,
    by_rule: AtomicU64,
    closed: AtomicU64,
    default: AtomicU64,
}

impl Seen {
    fn add(&self, judged: &Judged) {
        let count = |counter: &AtomicU64, seen: bool| {
            counter.fetch_add(u64::from(seen), Ordering::Relaxed);
        };
        count(&self.packets, true);
        count(&self.allowed, judged.verdict == Verdict::Allow);
        count(&self.rejected, judged.verdict == Verdict::Reject);
        count(&self.stateless, !judged.stateful);
        count(&self.would_stop, judged.would_stop.is_some());
        count(&self.by_rule, matches!(judged.by, By::Rule(_)));
        count(&self.closed, judged.by == By::Closed);
        count(&self.default, judged.by == By::Default);
    }

    fn shares(&self) -> [(&'static str, u64); 8] {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("packets", get(&self.packets)),
            ("allowed", get(&self.allowed)),
            ("rejected", get(&self.rejected)),
            ("stateless", get(&self.stateless)),
            ("would stop", get(&self.would_stop)),
            ("by rule", get(&self.by_rule)),
            ("closed", get(&self.closed)),
            ("default", get(&self.default)),
        ]
    }
}

#[test]
fn the_compiled_policy_means_what_the_reference_says() {
    let models = if is_long() { 500_000 } else { 500 };
    let started = Instant::now();
    let seen = Seen::default();
    let next = AtomicU64::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= models {
                        return;
                    }
                    compare(seed, &seen);
                }
            });
        }
    });
    println!(
        "{models} models in {:?}: {:?}",
        started.elapsed(),
        seen.shares()
    );
    let packets = seen.packets.load(Ordering::Relaxed);
    assert_eq!(packets, models * PER_MODEL as u64);
    for (what, count) in seen.shares() {
        assert!(
            count > packets / 200,
            "too few to mean anything: {what} {count}"
        );
    }
}

fn compare(seed: u64, seen: &Seen) {
    let mut random = Random::new(seed);
    let model = random::model(&mut random);
    let compiled = Compiled::new(&model);
    for packet in random::packets(&mut random, &model, PER_MODEL) {
        let want = judge(&model, &packet).expect("a port of the model");
        let got = compiled.judge(&model, &packet);
        assert_eq!(got, want, "seed {seed}: {packet:?}\n{model:#?}");
        seen.add(&got);
    }
}

/// The verdicts of a changed model are those of the model.
fn unchanged(seed: u64, change: impl Fn(&mut Random, &mut Model)) {
    let mut random = Random::new(seed);
    let model = random::model(&mut random);
    let packets = random::packets(&mut random, &model, PER_MODEL);
    let mut changed = model.clone();
    change(&mut random, &mut changed);
    let (before, after) = (Compiled::new(&model), Compiled::new(&changed));
    for packet in packets {
        let (before, after) = (
            before.judge(&model, &packet),
            after.judge(&changed, &packet),
        );
        let essence =
            |judged: &Judged| (judged.verdict, judged.stateful, judged.would_stop.is_some());
        assert_eq!(essence(&after), essence(&before), "seed {seed}: {packet:?}");
    }
}

/// Lists of all groups and policies.
fn all_rules(model: &mut Model) -> impl Iterator<Item = &mut Vec<Rule>> {
    let groups = model.groups.values_mut().map(|group| &mut group.rules);
    groups.chain(model.policies.values_mut().map(|policy| &mut policy.rules))
}

#[test]
fn the_order_of_rules_never_matters() {
    for seed in 0..60 {
        unchanged(seed, |random, model| {
            for rules in all_rules(model) {
                rules.sort_by_key(|_| random.number());
            }
        });
    }
}

/// Names say which of equal rules is named, and nothing else.
#[test]
fn names_never_matter() {
    for seed in 0..60 {
        unchanged(seed, |_, model| {
            for rule in all_rules(model).flatten() {
                rule.name = mirrored(rule.name.as_str());
            }
            let policies = std::mem::take(&mut model.policies);
            model.policies = policies
                .into_iter()
                .map(|(name, policy)| {
                    let last = mirrored(&name.as_str()[name.as_str().len() - 2..]);
                    let name = format!("{}/policies/{last}", name.vpc());
                    (PolicyName::parse(&name).expect("a name"), policy)
                })
                .collect();
        });
    }
}

/// `r0` to `r9`: first becomes last.
fn mirrored(name: &str) -> Segment {
    let (letter, number) = name.split_at(1);
    let number: u8 = number.parse().expect("a digit");
    Segment::parse(&format!("{letter}{}", 9 - number)).expect("a name")
}

/// What another VPC's policies are, or those of no port, is nobody's business.
#[test]
fn what_is_unrelated_changes_nothing() {
    for seed in 0..60 {
        let lonely = VpcName::parse("tenants/b/vpcs/z").expect("a name");
        let mut random = Random::new(seed);
        let model = random::model(&mut random);
        let mut packets = random::packets(&mut random, &model, PER_MODEL);
        packets.retain(|packet| packet.port.vpc() != lonely);
        let mut changed = model.clone();
        let other = random::model(&mut random);
        changed.policies.retain(|name, _| name.vpc() != lonely);
        let theirs = other
            .policies
            .into_iter()
            .filter(|(name, _)| name.vpc() == lonely);
        changed.policies.extend(theirs);
        for (name, group) in other.groups {
            if name.vpc() == lonely {
                changed.groups.insert(name, group);
            }
        }
        let (before, after) = (Compiled::new(&model), Compiled::new(&changed));
        for packet in packets {
            let (b, a) = (
                before.judge(&model, &packet),
                after.judge(&changed, &packet),
            );
            assert_eq!(a, b, "seed {seed}: {packet:?}");
        }
    }
}
