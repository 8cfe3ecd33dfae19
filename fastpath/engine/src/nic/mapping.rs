//! Longest prefix match on (VPC, destination).
//!
//! One exact-match table over all lengths; lengths in use are tried longest
//! first. Most entries are host routes, so the first try nearly always hits.

use penstock_flow::{Addr, Prefix};
use penstock_rules::model::Vni;

use super::exact::{Exact, Refused};

type Key = (Vni, Prefix);

#[derive(Debug)]
pub(crate) struct Mapping {
    entries: Exact<Key, u32>,
    // How many entries have this length.
    lengths: [u32; 129],
    // Bit `len - 1`: lengths 1 to 128 in use. Length 0 is tried last.
    used: u128,
}

impl Mapping {
    pub(crate) fn new(capacity: u32, seed: u64) -> Self {
        Self {
            entries: Exact::new(capacity, seed),
            lengths: [0; 129],
            used: 0,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.entries.len()
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.entries.capacity()
    }

    pub(crate) fn get(&self, vni: Vni, dst: Prefix) -> Option<u32> {
        self.entries.get(&(vni, dst)).copied()
    }

    /// Whether an entry for all of `dst` and more is there.
    pub(crate) fn is_within_another(&self, vni: Vni, dst: Prefix) -> bool {
        (0..dst.len()).any(|len| {
            let in_use = self.lengths.get(usize::from(len)).is_some_and(|n| *n > 0);
            let host = u128::MAX.checked_shr(len.into()).unwrap_or(0);
            let prefix = Prefix::new(Addr(dst.addr().0 & !host), len);
            in_use && prefix.is_some_and(|p| self.entries.find(&(vni, p)).is_some())
        })
    }

    pub(crate) fn insert(&mut self, vni: Vni, dst: Prefix, nexthop: u32) -> Result<(), Refused> {
        self.entries.insert((vni, dst), nexthop)?;
        self.count(dst.len(), 1);
        Ok(())
    }

    pub(crate) fn modify(&mut self, vni: Vni, dst: Prefix, nexthop: u32) -> bool {
        let Some(entry) = self.entries.get_mut(&(vni, dst)) else {
            return false;
        };
        *entry = nexthop;
        true
    }

    pub(crate) fn remove(&mut self, vni: Vni, dst: Prefix) -> bool {
        let gone = self.entries.remove(&(vni, dst)).is_some();
        if gone {
            self.count(dst.len(), -1);
        }
        gone
    }

    fn count(&mut self, len: u8, by: i32) {
        if let Some(n) = self.lengths.get_mut(usize::from(len)) {
            *n = n.saturating_add_signed(by);
            if len > 0 {
                let bit = 1_u128 << (len - 1);
                if *n == 0 {
                    self.used &= !bit;
                } else {
                    self.used |= bit;
                }
            }
        }
    }

    /// The next hop's id.
    pub(crate) fn lookup(&self, vni: Vni, dst: Addr) -> Option<u32> {
        let mut left = self.used;
        while left != 0 {
            let len = 128 - left.leading_zeros() as u8;
            left &= !(1_u128 << (len - 1));
            let cut = Addr(dst.0 & (u128::MAX << (128 - u32::from(len))));
            let hit = Prefix::new(cut, len).and_then(|p| self.entries.get(&(vni, p)));
            if let Some(nexthop) = hit {
                return Some(*nexthop);
            }
        }
        let all = Prefix::new(Addr(0), 0)?;
        self.entries.get(&(vni, all)).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Vni, Prefix, u32)> {
        self.entries.iter().map(|((v, p), n)| (*v, *p, *n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn cut(addr: u128, len: u8) -> Prefix {
        let mask = if len == 0 {
            0
        } else {
            u128::MAX << (128 - u32::from(len))
        };
        Prefix::new(Addr(addr & mask), len).expect("no host bits")
    }

    // Addresses that share long beginnings.
    fn addr() -> impl Strategy<Value = u128> {
        (0..4_u128, 0..4_u128).prop_map(|(hi, lo)| (hi << 126) | lo)
    }

    proptest! {
        #[test]
        fn longest_of_all_matching_prefixes_by_linear_scan(
            entries in proptest::collection::vec((1..3_u32, addr(), 0..=128_u8), 0..30),
            gone in proptest::collection::vec(any::<proptest::sample::Index>(), 0..10),
            probes in proptest::collection::vec((1..3_u32, addr()), 20),
        ) {
            let mut table = Mapping::new(64, 1);
            let mut model: Vec<(Vni, Prefix, u32)> = Vec::new();
            for (i, (vni, a, len)) in entries.into_iter().enumerate() {
                let p = cut(a, len);
                let fresh = !model.iter().any(|(v, q, _)| (*v, *q) == (vni, p));
                prop_assert_eq!(table.insert(vni, p, i as u32).is_ok(), fresh);
                if fresh {
                    model.push((vni, p, i as u32));
                }
            }
            for i in gone {
                if !model.is_empty() {
                    let (vni, p, _) = model.swap_remove(i.index(model.len()));
                    prop_assert!(table.remove(vni, p));
                }
            }
            for (vni, a) in probes {
                let want = model
                    .iter()
                    .filter(|(v, p, _)| *v == vni && p.contains(Addr(a)))
                    .max_by_key(|(_, p, _)| p.len())
                    .map(|(_, _, n)| *n);
                prop_assert_eq!(table.lookup(vni, Addr(a)), want);
            }
        }
    }
}
