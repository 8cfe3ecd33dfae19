//! Restarts in every order, under traffic; see `rounds`. PENSTOCK_SEED repeats an order,
//! PENSTOCK_ROUNDS plays more of it.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use penstock_integration::rounds::{Options, run};

const PROGRAMS: [&str; 4] = ["penstockd", "penstock-worker", "penstock", "workload"];

#[test]
fn who_may_talk_goes_on_and_who_may_not_never_does() {
    use std::os::unix::fs::MetadataExt as _;
    if fs::metadata("/proc/self").map(|m| m.uid()).ok() != Some(0) {
        eprintln!("SKIPPED: the rounds make network namespaces, which needs root");
        return;
    }
    let binaries = Path::new(env!("CARGO_BIN_EXE_workload")).parent();
    let binaries = binaries.expect("the programs lie in a folder");
    for program in PROGRAMS {
        if !binaries.join(program).exists() {
            eprintln!("SKIPPED: {program} is not built; `cargo build --workspace --bins` first");
            return;
        }
    }
    let number = |name: &str| Some(std::env::var(name).ok()?.parse::<u64>().expect(name));
    let long = std::env::var_os("PENSTOCK_LONG").is_some();
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("a clock");
    let options = Options {
        binaries: binaries.to_owned(),
        policy: Path::new(env!("CARGO_MANIFEST_DIR")).join("../policies/examples/two-tenants"),
        seed: number("PENSTOCK_SEED").unwrap_or(now.as_nanos() as u64),
        rounds: number("PENSTOCK_ROUNDS").map_or(if long { 60 } else { 5 }, |n| n as usize),
        // The workers adopt for 30 s after a crash.
        watch: Duration::from_secs(if long { 35 } else { 2 }),
    };
    if let Err(error) = run(&options) {
        panic!("{error:#}");
    }
}
