//! The demo as a whole: right, repeatable, and gone without a trace.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const DEMO: &str = env!("CARGO_BIN_EXE_demo");
const PROGRAMS: [&str; 3] = ["penstockd", "penstock-worker", "penstock"];

/// Whether it can run here; says loudly why not.
fn can_run() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    if fs::metadata("/proc/self").map(|m| m.uid()).ok() != Some(0) {
        eprintln!("SKIPPED: the demo makes network namespaces, which needs root");
        return false;
    }
    let folder = Path::new(DEMO).parent().expect("the demo lies in a folder");
    for program in PROGRAMS {
        if !folder.join(program).exists() {
            eprintln!("SKIPPED: {program} is not built; `cargo build --workspace --bins` first");
            return false;
        }
    }
    true
}

fn start(args: &[&str]) -> Child {
    Command::new(DEMO)
        .args(args)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the demo starts")
}

/// Its output once it has ended; kills it at the deadline.
fn finish(mut demo: Child, deadline: Duration) -> (bool, String) {
    let end = Instant::now() + deadline;
    let mut late = false;
    while !late
        && demo
            .try_wait()
            .expect("a child can be looked after")
            .is_none()
    {
        late = Instant::now() > end;
        sleep(Duration::from_millis(50));
    }
    if late {
        demo.kill().expect("a child can be killed");
    }
    let out = demo.wait_with_output().expect("its output is there");
    assert!(!late, "still running after {deadline:?}: {}", text(&out));
    (out.status.success(), text(&out))
}

fn text(out: &std::process::Output) -> String {
    String::from_utf8_lossy(&[&out.stdout[..], &out.stderr[..]].concat()).into_owned()
}

/// Everything that carries the demo's tag: namespaces, files, processes.
fn traces(pid: u32) -> Vec<String> {
    let tag = format!("pd{pid}");
    let mut found = Vec::new();
    for folder in ["/run/netns", "/tmp", "/var/run/dpdk"] {
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        let names = entries
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned());
        found.extend(
            names
                .filter(|n| n.contains(&tag))
                .map(|n| format!("{folder}/{n}")),
        );
    }
    for process in fs::read_dir("/proc").expect("/proc is readable").flatten() {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(&format!("penstock-{tag}")) {
            found.push(format!("process {}", process.file_name().to_string_lossy()));
        }
    }
    found
}

#[test]
fn every_row_is_as_expected_and_nothing_is_left() {
    all_rows(&[]);
}

#[test]
fn every_row_is_as_expected_over_an_ipv6_underlay() {
    all_rows(&["--underlay", "6"]);
}

#[test]
fn every_row_is_as_expected_with_two_lcores() {
    all_rows(&["--lcores", "2"]);
}

#[test]
fn every_row_is_as_expected_with_more_lcores_than_processors() {
    all_rows(&["--lcores", "4"]);
}

fn all_rows(args: &[&str]) {
    if !can_run() {
        return;
    }
    let demo = start(args);
    let pid = demo.id();
    let (ok, output) = finish(demo, Duration::from_secs(120));
    assert!(ok, "{output}");
    assert!(output.contains("all 37 rows as expected"), "{output}");
    assert_eq!(traces(pid), Vec::<String>::new());
}

#[test]
fn an_interrupt_at_any_moment_leaves_nothing() {
    if !can_run() {
        return;
    }
    for after in [100, 1500, 4000, 6000] {
        let demo = start(&[]);
        let pid = demo.id();
        sleep(Duration::from_millis(after));
        let sent = Command::new("kill")
            .args(["-INT", &pid.to_string()])
            .status();
        assert!(
            sent.is_ok_and(|s| s.success()),
            "SIGINT after {after} ms: the demo had ended"
        );
        let (ok, output) = finish(demo, Duration::from_secs(60));
        assert!(
            !ok,
            "interrupted after {after} ms, it claims success: {output}"
        );
        assert_eq!(
            traces(pid),
            Vec::<String>::new(),
            "after {after} ms: {output}"
        );
    }
}

#[test]
fn a_step_that_fails_says_so_and_leaves_nothing() {
    if !can_run() {
        return;
    }
    let demo = start(&["--policy", "policies/no-such-folder"]);
    let pid = demo.id();
    let (ok, output) = finish(demo, Duration::from_secs(60));
    assert!(!ok && output.contains("no-such-folder"), "{output}");
    assert_eq!(traces(pid), Vec::<String>::new());
}
