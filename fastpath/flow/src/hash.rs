//! The hash that spreads flows over shards.
//!
//! It travels: the outer UDP source port carries it, and the far side steers by
//! it without looking inside. So its value for a seed is fixed for ever (a test
//! pins it), it is equal for both directions of a connection, and every node
//! uses the same seed. The seed is a secret: with it, a tenant could send all
//! flows to one shard.

use crate::{Key, Tuple};

/// A seeded, symmetric hash of flows.
#[derive(Clone, Copy)]
pub struct FlowHash([u64; 6]);

impl FlowHash {
    /// Expands `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        let mut words = [0; 6];
        let mut state = seed;
        let mut i = 0;
        while i < words.len() {
            // splitmix64
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            words[i] = z ^ (z >> 31);
            i += 1;
        }
        Self(words)
    }

    /// The hash of a flow in the VPC `vni`; the same for its replies. For an
    /// ICMP error, give the tuple of the packet inside.
    #[must_use]
    #[inline]
    pub const fn flow(&self, vni: u32, tuple: &Tuple) -> u64 {
        let (key, _) = Key::new(vni, tuple);
        self.key(&key)
    }

    /// The hash of a key.
    #[must_use]
    #[inline]
    pub const fn key(&self, key: &Key) -> u64 {
        let w = key.words();
        let s = self.0;
        // Every factor is masked by a secret, so no input can make a product
        // vanish on purpose.
        let h = fold(w[0] ^ s[0], w[1] ^ s[1])
            .rotate_left(17)
            .wrapping_add(fold(w[2] ^ s[2], w[3] ^ s[3]));
        // A product alone spreads the ports in steps; its users take low bits.
        let h = fold(h ^ w[5] ^ s[4], w[4] ^ s[5]);
        let h = (h ^ (h >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        h ^ (h >> 29)
    }
}

impl core::fmt::Debug for FlowHash {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("FlowHash(..)") // the seed is a secret
    }
}

/// The outer UDP source port that carries a flow's hash: 14 bits of it in the
/// dynamic range (RFC 7348, section 5).
#[must_use]
pub const fn source_port(hash: u64) -> u16 {
    0xc000 | (hash as u16 & 0x3fff)
}

/// One of `shards`, from an outer source port or a hash: both give the same.
#[must_use]
pub const fn shard(hash: u64, shards: u16) -> u16 {
    (((hash & 0x3fff) * shards as u64) >> 14) as u16
}

const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Addr, tuple::proto};

    fn tuple(n: u32) -> Tuple {
        Tuple {
            src: Addr::from_v4([10, 0, 0, 1]),
            dst: Addr::from_v4([10, 0, 0, 2]),
            proto: proto::TCP,
            sport: n as u16,
            dport: 80,
        }
    }

    #[test]
    fn pinned_for_ever() {
        let hash = FlowHash::new(42).flow(100, &tuple(12345));
        // Computed by a separate program.
        assert_eq!(hash, 0x74d0_14f6_9ca9_cbf0, "{hash:#x}");
    }

    #[test]
    fn symmetric_and_dependent_on_vpc_and_seed() {
        let (h, t) = (FlowHash::new(1), tuple(12345));
        let reply = t.reply().expect("has a reply");
        assert_eq!(h.flow(7, &t), h.flow(7, &reply));
        assert_ne!(h.flow(7, &t), h.flow(8, &t));
        assert_ne!(h.flow(7, &t), FlowHash::new(2).flow(7, &t));
    }

    #[test]
    fn the_port_carries_the_shard() {
        let h = FlowHash::new(9);
        let mut load = [0u32; 3];
        for n in 0..3000 {
            let hash = h.flow(1, &tuple(n));
            let shard = shard(hash, 3);
            assert_eq!(shard, super::shard(u64::from(source_port(hash)), 3));
            load[usize::from(shard)] += 1;
        }
        assert!(load.iter().all(|n| (850..1150).contains(n)), "{load:?}");
    }

    #[test]
    fn any_seed_spreads_the_flows_between_two_ports() {
        const BUCKETS: usize = 1 << 14;
        for seed in [0, 1, u64::MAX, 0x9e37_79b9_7f4a_7c15, 0x0123_4567_89ab_cdef] {
            let hash = FlowHash::new(seed);
            let mut buckets = alloc::vec![0_u32; BUCKETS];
            for sport in 1000..1000 + BUCKETS as u16 {
                let tuple = Tuple {
                    src: Addr::from_v4([10, 0, 0, 1]),
                    dst: Addr::from_v4([10, 0, 0, 2]),
                    proto: proto::UDP,
                    sport,
                    dport: 80,
                };
                let h = hash.flow(1, &tuple) as usize;
                buckets[h % BUCKETS] += 1;
            }
            let used = buckets.iter().filter(|n| **n > 0).count();
            let most = buckets.iter().max().copied().unwrap_or_default();
            // Thrown at random: 63 % of them, with up to 7 in one.
            assert!(
                used > BUCKETS / 2 && most <= 12,
                "seed {seed:#x}: {used} of {BUCKETS} buckets, up to {most} in one"
            );
        }
    }
}
