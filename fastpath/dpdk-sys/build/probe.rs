//! Finds the distribution's libdpdk and says what to do when it is not there.
//!
//! pkg-config is run by hand: its Rust crate keeps only `-I`, `-L`, `-l` and
//! `-D`, and DPDK's headers do not compile without the `-include` and
//! `-march` that libdpdk.pc asks for.

use std::fmt;
use std::io;
use std::process::Command;

/// Oldest release whose layouts and functions the bindings are written for.
pub(crate) const OLDEST: (u32, u32) = (22, 11);

/// What every message ends with.
const ADVICE: &str = "install it with `apt-get install libdpdk-dev libclang-dev pkg-config` \
    (Debian 12 or later, Ubuntu 23.04 or later), or point PKG_CONFIG_PATH at the folder \
    that holds libdpdk.pc";

/// What the compilers and the linker need to know.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) version: String,
    pub(crate) cflags: Vec<String>,
    pub(crate) libdirs: Vec<String>,
}

/// Why this machine cannot build the bindings.
#[derive(Debug)]
pub(crate) enum Problem {
    NoPkgConfig { program: String, source: io::Error },
    Missing { said: String },
    TooOld { version: String },
    Unreadable { what: &'static str, said: String },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = OLDEST;
        match self {
            Self::NoPkgConfig { program, source } => write!(
                f,
                "cannot run `{program}` ({source}), which is needed to find libdpdk >= \
                 {major}.{minor}: {ADVICE}"
            ),
            Self::Missing { said } => write!(
                f,
                "libdpdk >= {major}.{minor} was not found: {ADVICE}. pkg-config said: {said}"
            ),
            Self::TooOld { version } => write!(
                f,
                "libdpdk {version} is too old, {major}.{minor} or later is needed: {ADVICE}"
            ),
            Self::Unreadable { what, said } => {
                write!(
                    f,
                    "pkg-config {what} libdpdk made no sense (`{said}`): {ADVICE}"
                )
            }
        }
    }
}

/// Asks `program` (pkg-config, or what stands for it) for libdpdk. `prepare`
/// may change the child's environment.
pub(crate) fn find(program: &str, prepare: impl Fn(&mut Command)) -> Result<Found, Problem> {
    let ask = |what: &'static str| -> Result<String, Problem> {
        let mut command = Command::new(program);
        command.arg(what).arg("libdpdk");
        prepare(&mut command);
        let output = command.output().map_err(|source| Problem::NoPkgConfig {
            program: program.to_owned(),
            source,
        })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            return Err(Problem::Missing { said });
        }
        String::from_utf8(output.stdout)
            .map(|text| text.trim().to_owned())
            .map_err(|e| Problem::Unreadable {
                what,
                said: e.to_string(),
            })
    };

    let version = ask("--modversion")?;
    match release(&version) {
        None => {
            return Err(Problem::Unreadable {
                what: "--modversion",
                said: version,
            });
        }
        Some(found) if found < OLDEST => return Err(Problem::TooOld { version }),
        Some(_) => {}
    }
    let words = |text: String| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    Ok(Found {
        version,
        cflags: words(ask("--cflags")?),
        libdirs: words(ask("--libs-only-L")?)
            .iter()
            .filter_map(|word| word.strip_prefix("-L").map(str::to_owned))
            .collect(),
    })
}

fn release(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
