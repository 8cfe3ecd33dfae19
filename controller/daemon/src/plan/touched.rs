//! What lies between two worlds.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{is_node, vpc_of};
use crate::world::{Row, World};

/// What a change touches.
#[derive(Debug, Default)]
pub(super) struct Touched {
    /// A node has come, gone or changed: tunnels anywhere may be different.
    nodes: bool,
    /// Full names of VPCs with something new, gone or changed in them.
    vpcs: BTreeSet<String>,
}

impl Touched {
    /// Compares row by row; untouched rows are shared, so that is cheap.
    pub(super) fn between(old: &World, new: &World) -> Self {
        let mut touched = Self::default();
        for (name, row) in &new.rows {
            match old.rows.get(name) {
                Some(before) if Arc::ptr_eq(before, row) => {}
                _ => touched.note(row),
            }
        }
        for (name, row) in &old.rows {
            if !new.rows.contains_key(name) {
                touched.note(row);
            }
        }
        touched
    }

    fn note(&mut self, row: &Row) {
        self.nodes |= is_node(row);
        // A tenant's own properties reach no node.
        if let Some(vpc) = vpc_of(row.name())
            && !self.vpcs.contains(vpc)
        {
            self.vpcs.insert(vpc.to_owned());
        }
    }

    /// Whether a node with these VPCs may have to change.
    pub(super) fn concerns(&self, vpcs: &BTreeSet<String>) -> bool {
        self.nodes || vpcs.iter().any(|vpc| self.vpcs.contains(vpc))
    }
}
