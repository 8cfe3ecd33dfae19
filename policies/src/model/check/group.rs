//! Security groups.

use std::collections::BTreeSet;

use penstock_rules::model::Direction;

use super::At;
use super::rule::Context;
use crate::document::{self, Kind};
use crate::model::{Group, GroupName, Mode, OnChange};

impl<'a> At<'_, 'a> {
    pub(super) fn group(&mut self, name: GroupName, spec: &'a document::SecurityGroup) {
        let document::SecurityGroup {
            rules,
            directions,
            selector,
            mode,
            on_change,
        } = spec;
        let vpc = name.vpc();
        self.parent(Kind::Vpc, vpc.as_str());
        let selected = self.directions(directions);
        let selector = selector.as_ref().map(|selector| {
            let hint = "leave it out; ports can also name the group";
            self.selector("spec.selector", &vpc, selector, hint)
        });
        let rules = self.rules(&vpc, &Context::Group(&selected), rules);
        // What is unsound has been told.
        let selector = match selector {
            Some(None) => return,
            Some(found) => found,
            None => None,
        };
        let group = Group {
            directions: selected,
            selector,
            mode: mode_of(*mode),
            on_change: on_change_of(*on_change),
            rules,
        };
        self.check.model.groups.insert(name, group);
    }

    /// The directions that a list selects; both if it names none.
    pub(super) fn directions(&mut self, ways: &[document::Direction]) -> BTreeSet<Direction> {
        let mut selected = BTreeSet::new();
        for (i, way) in ways.iter().enumerate() {
            if !selected.insert(direction(*way)) {
                let message = format!("{} is given twice", way.word());
                self.problem(format!("spec.directions[{i}]"), message, "give each once");
            }
        }
        if selected.is_empty() {
            selected.extend([Direction::Ingress, Direction::Egress]);
        }
        selected
    }
}

pub(super) fn mode_of(mode: Option<document::Mode>) -> Mode {
    match mode {
        None | Some(document::Mode::Enforce) => Mode::Enforce,
        Some(document::Mode::Audit) => Mode::Audit,
    }
}

pub(super) fn on_change_of(on_change: Option<document::OnChange>) -> OnChange {
    match on_change {
        None | Some(document::OnChange::Reevaluate) => OnChange::Reevaluate,
        Some(document::OnChange::Persist) => OnChange::Persist,
        Some(document::OnChange::Drop) => OnChange::Drop,
    }
}

pub(super) const fn direction(way: document::Direction) -> Direction {
    match way {
        document::Direction::Ingress => Direction::Ingress,
        document::Direction::Egress => Direction::Egress,
    }
}
