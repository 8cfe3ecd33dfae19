//! The build script's words when libdpdk is missing, too old, or found.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

#[path = "../build/probe.rs"]
mod probe;

use std::process::Command;

fn message(program: &str, prepare: impl Fn(&mut Command)) -> String {
    match probe::find(program, prepare) {
        Ok(found) => panic!("found {found:?} where nothing should be"),
        Err(problem) => problem.to_string(),
    }
}

fn only_in(folder: &str) -> impl Fn(&mut Command) {
    let folder = folder.to_owned();
    move |command| {
        command
            .env("PKG_CONFIG_PATH", "")
            .env("PKG_CONFIG_LIBDIR", &folder);
    }
}

fn folder_with(version: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "Name: libdpdk\nDescription: test\nVersion: {version}\nCflags: -march=corei7\nLibs: -L/opt/dpdk -lrte_eal\n"
    );
    std::fs::write(folder.path().join("libdpdk.pc"), text).unwrap();
    folder
}

#[test]
fn missing_library_names_the_packages_to_install() {
    let text = message("pkg-config", only_in("/nonexistent"));
    assert!(text.contains("libdpdk >= 22.11 was not found"), "{text}");
    assert!(
        text.contains("apt-get install libdpdk-dev libclang-dev pkg-config"),
        "{text}"
    );
    assert!(text.contains("PKG_CONFIG_PATH"), "{text}");
    assert!(!text.contains('\n'), "cargo shows one line only: {text}");
}

#[test]
fn missing_pkg_config_is_named() {
    let text = message("/nonexistent/pkg-config", |_| {});
    assert!(
        text.contains("cannot run `/nonexistent/pkg-config`"),
        "{text}"
    );
    assert!(text.contains("apt-get install"), "{text}");
}

#[test]
fn old_and_unreadable_versions_are_refused() {
    for (version, words) in [
        (
            "20.11.9",
            "libdpdk 20.11.9 is too old, 22.11 or later is needed",
        ),
        ("22.07.0-rc1", "libdpdk 22.07.0-rc1 is too old"),
        ("banana", "made no sense (`banana`)"),
    ] {
        let folder = folder_with(version);
        let text = message("pkg-config", only_in(folder.path().to_str().unwrap()));
        assert!(text.contains(words), "{version}: {text}");
        assert!(text.contains("apt-get install"), "{version}: {text}");
    }
}

#[test]
fn new_enough_versions_keep_every_flag() {
    for version in ["22.11.0", "22.11.11", "23.03.0-rc2", "24.11"] {
        let folder = folder_with(version);
        let found =
            probe::find("pkg-config", only_in(folder.path().to_str().unwrap())).expect(version);
        assert_eq!(found.version, version);
        assert_eq!(found.cflags, ["-march=corei7"]);
        assert_eq!(found.libdirs, ["/opt/dpdk"]);
    }
}
