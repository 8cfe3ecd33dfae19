//! Network namespaces with unique names, gone when dropped.

use std::fs::File;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sched::{CloneFlags, setns};

static NEXT: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Netns {
    pub(crate) name: String,
}

/// Whether namespaces can be made here; if not, says so where it is seen.
pub(crate) fn available(test: &str) -> bool {
    let probe = format!("penstock-probe-{}", std::process::id());
    let made = run("ip", &["netns", "add", &probe]).is_ok();
    if made {
        let _ = run("ip", &["netns", "del", &probe]);
    } else {
        eprintln!("SKIPPED {test}: network namespaces need root and iproute2");
    }
    made
}

impl Netns {
    pub(crate) fn new(what: &str) -> Self {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("penstock-{}-{n}-{what}", std::process::id());
        run("ip", &["netns", "add", &name]).expect("a namespace");
        let ns = Self { name };
        ns.ip(&["link", "set", "lo", "up"]);
        // Autoconfiguration would send frames that no test expects.
        ns.exec("sysctl", &["-qw", "net.ipv6.conf.default.disable_ipv6=1"]);
        ns
    }

    /// Runs `ip` inside; must succeed.
    pub(crate) fn ip(&self, args: &[&str]) {
        let mut all = vec!["-n", &self.name];
        all.extend(args);
        run("ip", &all).unwrap_or_else(|error| panic!("ip {all:?}: {error}"));
    }

    /// Runs a program inside; must succeed.
    pub(crate) fn exec(&self, program: &str, args: &[&str]) {
        let output = self.output(program, args);
        assert!(output.status.success(), "{program} {args:?}: {output:?}");
    }

    /// Runs a program inside to its end.
    pub(crate) fn output(&self, program: &str, args: &[&str]) -> Output {
        let mut command = self.command(program);
        command.args(args).output().expect("runs")
    }

    /// A program inside, to be started.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs `work` on a thread that is inside.
    pub(crate) fn thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> std::thread::JoinHandle<T> {
        let path = format!("/run/netns/{}", self.name);
        std::thread::spawn(move || {
            let file = File::open(path).expect("the namespace");
            setns(file, CloneFlags::CLONE_NEWNET).expect("enters");
            work()
        })
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = run("ip", &["netns", "del", &self.name]);
    }
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    match Command::new(program).args(args).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(error.to_string()),
    }
}
