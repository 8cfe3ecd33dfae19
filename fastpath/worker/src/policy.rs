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
    let delta = decode::delta(update)?;
    let mut next = current.clone();
    delta
        .apply_to(&mut next)
        .map_err(|error| UpdateError::Resync(error.to_string()))?;
    Ok(next)
}

#[cfg(test)]
mod tests;
