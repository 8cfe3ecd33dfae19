//! The node's policy: from messages to [`Ruleset`]s and on from one generation to the next.
//!
//! Pure: nothing here knows a lcore or a socket.

pub mod decode;

use penstock_rules::{CompileError, Ruleset};
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
    /// The policy that it leads to contradicts itself.
    #[error(transparent)]
    Contradiction(#[from] CompileError),
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

/// The ruleset that `update` makes of `current`; a delta costs what it changes.
///
/// # Errors
/// `current` stays as it is; the error says what the sender can do.
pub fn apply(current: &Ruleset, update: v1::PolicyUpdate) -> Result<Ruleset, UpdateError> {
    let (generation, base) = (update.generation, update.base_generation);
    let in_force = current.generation();
    if base == 0 {
        let next = decode::snapshot(update)?;
        // The same again, as after a lost answer or from a restarted controller, is no
        // contradiction.
        if generation > in_force || generation == in_force && next == current.policy() {
            return Ok(Ruleset::compile(next)?);
        }
        if generation == in_force {
            return Err(UpdateError::Resync(format!(
                "generation {generation} is another policy here"
            )));
        }
    } else if base != in_force {
        return Err(UpdateError::Resync(format!(
            "the delta starts from generation {base}, and {in_force} is in force"
        )));
    } else if generation > in_force {
        let delta = decode::delta(update)?;
        return match current.apply(delta) {
            Ok((next, _)) => Ok(next),
            Err(error @ CompileError::NotHere { .. }) => {
                Err(UpdateError::Resync(error.to_string()))
            }
            Err(error) => Err(error.into()),
        };
    }
    Err(UpdateError::Generation {
        offered: generation,
        current: in_force,
    })
}

#[cfg(test)]
mod tests;
