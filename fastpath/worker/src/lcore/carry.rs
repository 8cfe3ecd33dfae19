//! Connections on their way out of a polling thread, and into it: in slices, so
//! that forwarding pauses for no longer than one takes.

use penstock_engine::{FlowState, ImportError};
use penstock_rules::model::PortId;

use super::Core;

/// Places of the table that an export looks at in one go, and connections that an import
/// is given: some hundred microseconds.
pub const SLOTS: u32 = 1024;

/// What became of connections that were to be taken up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// They are here.
    pub imported: u64,
    /// They are not, by `ImportError as usize`.
    pub refused: [u64; ImportError::ALL.len()],
}

impl Imported {
    /// One more that is not here.
    pub fn refuse(&mut self, why: ImportError) {
        if let Some(n) = self.refused.get_mut(why as usize) {
            *n += 1;
        }
    }

    /// Each reason with its count, where there is one.
    pub fn refusals(&self) -> impl Iterator<Item = (ImportError, u64)> {
        let all = ImportError::ALL.into_iter().zip(self.refused);
        all.filter(|(_, n)| *n > 0)
    }

    /// Adds what became of others.
    pub fn add(&mut self, other: &Self) {
        self.imported += other.imported;
        for (sum, n) in self.refused.iter_mut().zip(other.refused) {
            *sum += n;
        }
    }
}

impl Core {
    /// The connections, of one port or of all, in the next slice of the table, and
    /// where the one after it begins.
    #[must_use]
    pub fn export(&self, from: u32, port: Option<PortId>) -> (Vec<FlowState>, Option<u32>) {
        let mut states = Vec::new();
        let now = self.clock.now();
        let next = self.engine.export(now, from, SLOTS, &mut |state| {
            if port.is_none_or(|port| port == state.port) {
                states.push(*state);
            }
        });
        (states, next)
    }

    /// Takes those connections up that are of this lcore's shard. The others are neither
    /// taken up nor refused: every lcore is given the same ones, at most [`SLOTS`] at once.
    pub fn import(&mut self, states: &[FlowState]) -> Imported {
        let now = self.clock.now();
        let mut result = Imported::default();
        for state in states {
            if !self.engine.owns(&state.tuple) {
                continue;
            }
            match self.engine.import(now, state) {
                Ok(()) => result.imported += 1,
                Err(why) => result.refuse(why),
            }
        }
        result
    }
}
