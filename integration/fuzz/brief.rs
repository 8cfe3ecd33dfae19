//! A target's property in a crate's own tests: on what the fuzzer has found before, on that
//! damaged, and on bytes of a seeded generator.

use std::path::Path;
use std::time::{Duration, Instant};

/// Seeds and past crashes of a target.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folders = above.find_map(|folder| {
        let seeds = folder.join("integration/fuzz/seeds");
        seeds.is_dir().then_some(seeds)
    });
    let folder = folders.expect("the seeds' folder").join(target);
    let entries = std::fs::read_dir(&folder).expect("the seeds' folder");
    let seeds =
        entries.map(|entry| std::fs::read(entry.expect("an entry").path()).expect("a seed"));
    seeds.collect()
}

/// xorshift64*: the same bytes on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn bytes(&mut self) -> Vec<u8> {
        let len = self.next() % 600;
        (0..len).map(|_| (self.next() >> 32) as u8).collect()
    }
}

/// Seeds, damaged seeds, then random bytes until the time is over.
pub(crate) fn briefly(target: &str, property: fn(&[u8])) {
    let seeds = seeds(target);
    for seed in &seeds {
        property(seed);
    }
    let long = std::env::var_os("PENSTOCK_LONG").is_some();
    let time = Duration::from_secs(if long { 60 } else { 3 });
    let (begin, mut random, mut count) = (Instant::now(), Random(0x5eed), 0_u64);
    while begin.elapsed() < time {
        let mut bytes = random.bytes();
        if let (0, Some(seed)) = (
            random.next() % 2,
            seeds.get(random.next() as usize % seeds.len().max(1)),
        ) {
            bytes = seed.clone();
            for _ in 0..random.next() % 8 {
                let at = random.next() as usize % bytes.len().max(1);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = (random.next() >> 32) as u8;
                }
            }
        }
        // To be made a seed.
        let shown = std::panic::AssertUnwindSafe(|| property(&bytes));
        if let Err(panic) = std::panic::catch_unwind(shown) {
            eprintln!("{target} fails on {bytes:02x?}");
            std::panic::resume_unwind(panic);
        }
        count += 1;
    }
    eprintln!("{target}: {} seeds, {count} other inputs", seeds.len());
}
