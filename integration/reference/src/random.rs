//! Models and packets by chance, the same ones for the same seed.
//!
//! They are small and crowded: few addresses, labels and port numbers, so that
//! rules overlap, and packets lie on their edges or one beside.

mod model;
mod packet;
mod rules;

pub use model::model;
pub use packet::packets;

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts over with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`; 0 for 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.number().checked_rem(n).unwrap_or(0)
    }

    /// `0..=most`.
    pub(crate) fn up_to(&mut self, most: u64) -> u64 {
        self.below(most + 1)
    }

    /// True once in `n`.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of a slice that is not empty.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let i = self.below(of.len() as u64) as usize;
        &of[i]
    }

    /// Up to `most` of a slice, maybe the same twice.
    pub(crate) fn some<T: Clone>(&mut self, of: &[T], most: u64) -> Vec<T> {
        let n = if of.is_empty() { 0 } else { self.up_to(most) };
        (0..n).map(|_| self.pick(of).clone()).collect()
    }
}
