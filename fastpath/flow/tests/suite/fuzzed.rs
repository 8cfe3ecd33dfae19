//! The parsers on random bytes, on damaged packets, and on what the fuzzer has
//! found before.

use proptest::prelude::*;

use super::properties;

fn all(bytes: &[u8]) {
    properties::parse(bytes);
    properties::parse_outer(bytes);
    properties::control(bytes);
}

/// Seeds and past crashes of the fuzz targets.
fn seeds() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../integration/fuzz/seeds");
    let mut seeds = Vec::new();
    for target in ["parse", "parse_outer", "control"] {
        let entries = std::fs::read_dir(format!("{folder}/{target}")).expect("the seeds' folder");
        for entry in entries {
            let path = entry.expect("an entry").path();
            seeds.push(std::fs::read(&path).expect("a seed"));
        }
    }
    assert!(seeds.len() > 20, "only {} seeds in {folder}", seeds.len());
    seeds
}

#[test]
fn seeds_whole_and_cut_at_every_byte() {
    for seed in seeds() {
        for len in 0..=seed.len() {
            all(&seed[..len]);
        }
    }
}

#[test]
fn seeds_with_every_bit_flipped_in_their_headers() {
    for mut seed in seeds() {
        for bit in 0..seed.len().min(150) * 8 {
            seed[bit / 8] ^= 1 << (bit % 8);
            all(&seed);
            seed[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        all(&bytes);
    }

    #[test]
    fn random_bytes_behind_a_plausible_start(
        ethertype in prop_oneof![Just(0x0800_u16), Just(0x86dd), Just(0x0806), Just(0x8100)],
        version in prop_oneof![Just(0x45_u8), Just(0x46), Just(0x60)],
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        frame.extend(ethertype.to_be_bytes());
        frame.push(version);
        frame.extend(bytes);
        all(&frame);
    }

    #[test]
    fn damaged_seeds(
        which in any::<prop::sample::Index>(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        tail in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let seeds = seeds();
        let mut bytes = which.get(&seeds).clone();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.extend(tail);
        all(&bytes);
    }
}
