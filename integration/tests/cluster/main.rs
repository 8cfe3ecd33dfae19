//! Small clusters of real workers and a real controller.

mod dhcp;
mod mesh;
mod mtu;
mod netem;
mod nics;
mod p4rt;
mod policy;
mod wire_care;

use std::path::Path;

/// Where the programs are: beside the ones that cargo built for these tests.
fn binaries() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_workload"))
        .parent()
        .expect("the programs lie in a folder")
}
