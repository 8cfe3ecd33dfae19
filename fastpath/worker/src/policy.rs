//! The node's policy: from messages to [`Policy`] and on from one generation to the next.
//!
//! Pure: nothing here knows a lcore or a socket.

pub mod decode;

use penstock_rules::model::Policy;
use penstock_slowpath_api::v1;

use decode::Invalid;

/// Why an update does not lead to a new policy. What was there stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The update does not fit what is here: only a snapshot helps.
    #[error("{0}; send a snapshot")]
    Resync(String),
    /// The update itself cannot be used.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Generations only grow.
    #[error(
        "generation {offered} does not exceed {current}, which is in force; \
         go on from the generation that GetNode answers"
    )]
    Generation {
        /// What the update leads to.
        offered: u64,
        /// What is in force.
        current: u64,
    },
}

/// The policy that `update` makes of `current`.
///
/// # Errors
/// `current` stays as it is; the error says what the sender can do.
pub fn apply(current: &Policy, update: v1::PolicyUpdate) -> Result<Policy, UpdateError> {
    let generation = update.generation;
    if update.base_generation == 0 {
        let next = decode::snapshot(update)?;
        // The same again, as after a lost answer or from a restarted controller, is no
        // contradiction.
        if generation > current.generation || next == *current {
            return Ok(next);
        }
        if generation == current.generation {
            return Err(UpdateError::Resync(format!(
                "generation {generation} is another policy here"
            )));
        }
    } else if update.base_generation != current.generation {
        return Err(UpdateError::Resync(format!(
            "the delta starts from generation {}, and {} is in force",
            update.base_generation, current.generation
        )));
    } else if generation > current.generation {
        return delta(current, update);
    }
    Err(UpdateError::Generation {
        offered: generation,
        current: current.generation,
    })
}

fn delta(current: &Policy, update: v1::PolicyUpdate) -> Result<Policy, UpdateError> {
    let (gone, fresh) = decode::delta(update)?;
    let mut next = current.clone();
    next.generation = fresh.generation;
    let missing = |field: &str, key: &dyn std::fmt::Display| {
        UpdateError::Resync(format!("{field} names {key}, which is not here"))
    };
    for vni in gone.vpcs {
        let known = next.vpcs.remove(&vni).is_some();
        known
            .then_some(())
            .ok_or_else(|| missing("deleted_vpcs", &vni))?;
    }
    for id in gone.subnets {
        let known = next.subnets.remove(&id).is_some();
        known
            .then_some(())
            .ok_or_else(|| missing("deleted_subnets", &id))?;
    }
    for id in gone.groups {
        let known = next.groups.remove(&id).is_some();
        known
            .then_some(())
            .ok_or_else(|| missing("deleted_groups", &id))?;
    }
    for id in gone.ports {
        let known = next.ports.remove(&id).is_some();
        known
            .then_some(())
            .ok_or_else(|| missing("deleted_ports", &id))?;
    }
    for key in gone.endpoints {
        let known = next.endpoints.remove(&key).is_some();
        known
            .then_some(())
            .ok_or_else(|| missing("deleted_endpoints", &format!("{} in VPC {}", key.1, key.0)))?;
    }
    for vtep in gone.vteps {
        let known = next.vteps.remove(&vtep).is_some();
        known
            .then_some(())
            .ok_or_else(|| missing("deleted_vteps", &vtep))?;
    }
    let Policy {
        generation: _,
        vpcs,
        subnets,
        groups,
        ports,
        endpoints,
        vteps,
    } = fresh;
    next.vpcs.extend(vpcs);
    next.subnets.extend(subnets);
    next.groups.extend(groups);
    next.ports.extend(ports);
    next.endpoints.extend(endpoints);
    next.vteps.extend(vteps);
    Ok(next)
}

#[cfg(test)]
mod tests;
