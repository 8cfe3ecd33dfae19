//! What a change does to connections, as its list wants it.

use penstock_engine::record::Event;
use penstock_flow::DropReason;
use penstock_flow::tuple::proto;
use penstock_rules::model::{Action, Applies, Direction, List, OnChange, Policy, Rule, Tier};

use crate::bed::Bed;
use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, DEVICE, rule};
use crate::stateless::LIST;

/// A policy of one list, with rules about TCP port 80 inwards.
fn put(policy: &mut Policy, tier: Tier, on_change: OnChange, actions: &[(&str, Action)]) {
    let rules = actions.iter().map(|(name, action)| Rule {
        action: *action,
        ..rule(
            name,
            Direction::Ingress,
            Some(proto::TCP),
            &[(80, 80)],
            vec![],
        )
    });
    let list = List {
        tier,
        applies: Applies::Vpc,
        selects_ingress: tier == Tier::Tenant,
        on_change,
        rules: rules.collect(),
        ..List::of_group("policies/p".into(), BLUE, 0)
    };
    policy.lists.insert(LIST, list);
}

fn streaming(bed: &mut Bed, a: &'static str, b: &'static str) -> Talk {
    let talk = Talk::new(a, b);
    talk.open(bed);
    for back in [false, true] {
        assert!(!talk.data(bed, back).at().is_empty());
    }
    talk
}

fn settle(bed: &mut Bed) {
    for _ in 0..10 {
        bed.tick();
    }
}

/// All pass, or none, and stay so.
#[track_caller]
fn flows(bed: &mut Bed, talk: &Talk, want: bool) {
    for back in [false, true, true, false] {
        let fate = talk.data(bed, back);
        assert_eq!(!fate.at().is_empty(), want, "{fate:?}");
        bed.tick();
    }
}

fn in_nic(bed: &Bed, node: usize) -> usize {
    let mut entries = 0;
    bed.nodes[node]
        .engine
        .visit_flow_entries(bed.now, DEVICE, &mut |_| entries += 1);
    entries
}

const PAIRS: [(&str, &str, usize); 2] = [("a", "c", 1), ("a", "b", 0)];

#[test]
fn a_deny_cuts_or_lets_go_on() {
    for (a, b, node) in PAIRS {
        for (on_change, goes_on) in [
            (OnChange::Reevaluate, false),
            (OnChange::Persist, true),
            (OnChange::Drop, false),
        ] {
            let mut bed = Bed::new();
            let talk = streaming(&mut bed, a, b);
            bed.change(|_, policy| put(policy, Tier::Admin, on_change, &[("no", Action::Deny)]));
            flows(&mut bed, &talk, goes_on);
            settle(&mut bed);
            flows(&mut bed, &talk, goes_on);
            let c = bed.counters(node).connections;
            assert_eq!(c.persisted, u64::from(goes_on), "{on_change:?}");
            assert_eq!(in_nic(&bed, node) > 0, goes_on, "it is the NIC's again");
            // What is new is refused in any case.
            let new = Talk {
                sport: 41_000,
                ..talk
            };
            assert_eq!(new.syn(&mut bed).reason(), Some(DropReason::DeniedIngress));
        }
    }
}

#[test]
fn what_persists_goes_on_through_later_changes_until_a_rule_ends_it() {
    for (a, b, node) in PAIRS {
        let mut bed = Bed::new();
        bed.change(|_, policy| {
            put(
                policy,
                Tier::Tenant,
                OnChange::Persist,
                &[("web", Action::Allow)],
            );
        });
        let talk = streaming(&mut bed, a, b);
        // Its rule goes, then its whole list, and all is closed by another.
        bed.change(|_, policy| put(policy, Tier::Tenant, OnChange::Persist, &[]));
        settle(&mut bed);
        flows(&mut bed, &talk, true);
        let mut named = Vec::new();
        bed.nodes[node].engine.visit_flows(bed.now, None, &mut |f| {
            named.push((f.ingress, f.rule.to_owned()));
            true
        });
        assert!(
            named.contains(&(true, "policies/p".to_owned())),
            "{named:?}"
        );
        for generation in 0..12 {
            bed.change(|_, policy| {
                policy.lists.remove(&LIST);
                put(policy, Tier::Tenant, OnChange::Reevaluate, &[]);
                let list = policy.lists.remove(&LIST).expect("just put");
                policy.lists.insert(LIST + 1 + generation % 2, list);
            });
            flows(&mut bed, &talk, true);
        }
        settle(&mut bed);
        flows(&mut bed, &talk, true);
        while bed.nodes[node].engine.take_retired().is_some() {}
        assert!(
            !bed.nodes[node].engine.rejudging(),
            "no policy is held back"
        );
        assert_eq!(bed.counters(node).connections.persisted, 1, "once");
        // Allowed again, it is a connection like others.
        bed.change(|_, policy| {
            for list in [LIST + 1, LIST + 2] {
                policy.lists.remove(&list);
            }
            put(
                policy,
                Tier::Tenant,
                OnChange::Reevaluate,
                &[("web", Action::Allow)],
            );
        });
        settle(&mut bed);
        flows(&mut bed, &talk, true);
        bed.change(|_, policy| {
            put(
                policy,
                Tier::Admin,
                OnChange::Reevaluate,
                &[("no", Action::Deny)],
            );
        });
        settle(&mut bed);
        flows(&mut bed, &talk, false);
        let cut = bed.nodes[node]
            .engine
            .drops()
            .find(|d| d.event == Event::Revoked);
        let rule = cut.map(|cut| cut.rule.as_str().to_owned());
        assert_eq!(rule.as_deref(), Some("group/rules/web"));
    }
}

#[test]
fn a_list_that_drops_cuts_when_it_changes_and_only_then() {
    for (a, b, node) in PAIRS {
        let web = [("web", Action::Allow)];
        let mut bed = Bed::new();
        bed.change(|_, policy| put(policy, Tier::Tenant, OnChange::Drop, &web));
        let talk = streaming(&mut bed, a, b);
        for _ in 0..12 {
            bed.change(|_, policy| {
                let list = List::of_group("policies/q".into(), BLUE, 0);
                policy.lists.insert(
                    LIST + 1,
                    List {
                        applies: Applies::Vpc,
                        ..list
                    },
                );
            });
            flows(&mut bed, &talk, true);
        }
        let more = [("web", Action::Allow), ("web2", Action::Allow)];
        bed.change(|_, policy| put(policy, Tier::Tenant, OnChange::Drop, &more));
        settle(&mut bed);
        flows(&mut bed, &talk, false);
        assert_eq!(bed.counters(node).connections.revoked, 1);
        assert_eq!(in_nic(&bed, node), 0);
        // It may begin again at once.
        let again = Talk {
            sport: 41_000,
            ..talk
        };
        again.open(&mut bed);
    }
}

#[test]
fn a_restart_keeps_what_persists() {
    for persists in [true, false] {
        let mut bed = Bed::new();
        let talk = streaming(&mut bed, "a", "c");
        let mut exported = Vec::new();
        bed.nodes[1].engine.export(bed.now, 0, 256, &mut |state| {
            exported.push(*state);
        });
        assert_eq!(exported.len(), 1);
        let mut next = Bed::new();
        next.change(|_, policy| put(policy, Tier::Tenant, OnChange::Reevaluate, &[]));
        exported[0].persists = persists;
        let now = next.now;
        let result = next.nodes[1].engine.import(now, &exported[0]);
        assert_eq!(result.is_ok(), persists, "{result:?}");
        if persists {
            // The other node has lost its end: it is c who goes on.
            assert_eq!(talk.data(&mut next, true).at(), "");
            assert_eq!(next.counters(0).dropped(DropReason::InvalidState), 1);
            let mut again = Vec::new();
            next.nodes[1].engine.export(next.now, 0, 256, &mut |state| {
                again.push(*state);
            });
            assert!(again[0].persists);
        }
    }
}
