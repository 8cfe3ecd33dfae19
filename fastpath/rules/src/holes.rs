//! Exceptions of prefixes, and ranges of addresses.

use alloc::vec::Vec;

use penstock_flow::{Addr, Prefix};

/// The `except` of a CIDR peer, as disjoint ascending ranges: however they
/// were written, equal sets are equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Holes(Vec<(u128, u128)>);

impl Holes {
    /// The holes in `prefix`; those of the other family are in none of it.
    pub(crate) fn new(prefix: Prefix, except: &[Prefix]) -> Self {
        let mut ranges: Vec<_> = except
            .iter()
            .filter(|hole| hole.is_v4() == prefix.is_v4())
            .map(|hole| (hole.addr().0, last(*hole)))
            .collect();
        ranges.sort_unstable();
        let mut out = Vec::<(u128, u128)>::with_capacity(ranges.len());
        for (first, end) in ranges {
            match out.last_mut() {
                // Touching ranges are joined: 10.0.0.0/9 and 10.128.0.0/9 are 10.0.0.0/8.
                Some(kept) if kept.1.checked_add(1).is_none_or(|after| first <= after) => {
                    kept.1 = kept.1.max(end);
                }
                _ => out.push((first, end)),
            }
        }
        Self(out)
    }

    pub(crate) fn contain(&self, addr: Addr) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= addr.0);
        after
            .checked_sub(1)
            .and_then(|i| self.0.get(i))
            .is_some_and(|(_, last)| addr.0 <= *last)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What of `prefix` lies in these holes and not in `others`: ascending ranges.
    pub(crate) fn beyond(&self, others: &Self, prefix: Prefix) -> Vec<(u128, u128)> {
        let mut out = Vec::new();
        for &(first, end) in &self.0 {
            let (mut first, end) = (first.max(prefix.addr().0), end.min(last(prefix)));
            for &(other_first, other_end) in &others.0 {
                if other_end < first {
                    continue;
                }
                if other_first > end || first > end {
                    break;
                }
                if first < other_first {
                    out.push((first, other_first - 1));
                }
                // Past the last address there is nothing.
                let Some(after) = other_end.checked_add(1) else {
                    return out;
                };
                first = after;
            }
            if first <= end {
                out.push((first, end));
            }
        }
        out
    }
}

/// The fewest prefixes that make up a range.
pub(crate) fn prefixes((mut first, end): (u128, u128)) -> Vec<Prefix> {
    let mut out = Vec::new();
    while first <= end {
        // As many host bits as `first` is aligned to and the range has room for.
        let mut bits = first.trailing_zeros();
        let room = end - first;
        while bits > 0 && low_bits(bits) > room {
            bits -= 1;
        }
        out.extend(
            u8::try_from(128 - bits)
                .ok()
                .and_then(|len| Prefix::new(Addr(first), len)),
        );
        let Some(next) = first
            .checked_add(low_bits(bits))
            .and_then(|last| last.checked_add(1))
        else {
            break;
        };
        first = next;
    }
    out
}

fn low_bits(bits: u32) -> u128 {
    u128::MAX.checked_shr(128 - bits).unwrap_or(0)
}

/// A prefix's last address.
pub(crate) fn last(prefix: Prefix) -> u128 {
    // A length of 128 leaves nothing to shift in.
    prefix.addr().0 | u128::MAX.checked_shr(u32::from(prefix.len())).unwrap_or(0)
}
