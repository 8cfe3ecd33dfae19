//! Child processes that end when they are told to.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::Netns;

const POLL: Duration = Duration::from_millis(5);
/// How long a process may take to end politely.
const GRACE: Duration = Duration::from_secs(5);

/// A long-running process inside a namespace.
#[derive(Debug)]
pub struct Process {
    name: String,
    ns: Netns,
    command: Vec<String>,
    child: Child,
    log: PathBuf,
}

impl Process {
    pub(super) fn spawn(ns: &Netns, name: &str, command: &[&str], log: &Path) -> Result<Self> {
        let command: Vec<String> = command.iter().map(|s| (*s).to_owned()).collect();
        let child = Self::launch(ns, name, &command, log)?;
        Ok(Self {
            name: name.to_owned(),
            ns: ns.clone(),
            command,
            child,
            log: log.to_owned(),
        })
    }

    fn launch(ns: &Netns, name: &str, command: &[String], log: &Path) -> Result<Child> {
        // A process that is started again goes on in its log.
        let out = File::options().create(true).append(true).open(log);
        let out = out.with_context(|| format!("open {}", log.display()))?;
        let err = out.try_clone().context("duplicate the log's handle")?;
        // A group of its own: Ctrl-C at the terminal must reach this process
        // only, which then ends the others in order.
        Command::new("ip")
            .args(["netns", "exec", ns.name()])
            .args(command)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {name}"))
    }

    /// SIGKILL, and its end. It can be started again.
    ///
    /// # Errors
    /// When it had ended before.
    pub fn crash(&mut self) -> Result<()> {
        self.check_alive()?;
        self.signal("-KILL");
        self.child.wait().context("wait for a killed child")?;
        Ok(())
    }

    /// SIGTERM, and its end, which has to be in good order. It can be started again.
    ///
    /// # Errors
    /// When it had ended before, or does not until the deadline, or not with status 0.
    pub fn terminate(&mut self, deadline: Duration) -> Result<()> {
        self.check_alive()?;
        self.signal("-TERM");
        let end = Instant::now() + deadline;
        loop {
            match self.child.try_wait().context("look after a child")? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("{} ended with {status} when it was stopped", self.name),
                None if Instant::now() >= end => {
                    bail!("{} did not stop within {deadline:?}", self.name)
                }
                None => sleep(POLL),
            }
        }
    }

    /// Starts it again after its end.
    ///
    /// # Errors
    /// When it still runs, or cannot be started.
    pub fn start_again(&mut self) -> Result<()> {
        let ended = self.child.try_wait().context("look after a child")?;
        ended.with_context(|| format!("{} still runs", self.name))?;
        self.child = Self::launch(&self.ns, &self.name, &self.command, &self.log)?;
        Ok(())
    }

    /// What it was called when it was started.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long its threads of this name have waited for a processor since it was started.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn waited(&self, thread: &str) -> Result<Duration> {
        let mut sum = Duration::ZERO;
        let tasks = format!("/proc/{}/task", self.child.id());
        for task in fs::read_dir(&tasks).with_context(|| format!("list {tasks}"))? {
            let task = task.with_context(|| format!("list {tasks}"))?.path();
            let read = |file| fs::read_to_string(task.join(file));
            let (Ok(name), Ok(stat)) = (read("comm"), read("schedstat")) else {
                // It has ended meanwhile.
                continue;
            };
            if name.trim() == thread {
                // Time on a processor, time waiting for one, how often.
                let waited = stat.split(' ').nth(1).and_then(|word| word.parse().ok());
                sum += Duration::from_nanos(waited.context("a thread's schedstat")?);
            }
        }
        Ok(sum)
    }

    /// Everything it has printed so far.
    ///
    /// # Errors
    /// Where its log cannot be read.
    pub fn output(&self) -> Result<String> {
        let bytes = fs::read(&self.log).with_context(|| format!("read {}", self.log.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// # Errors
    /// When it has ended, with the last lines of its log.
    pub fn check_alive(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait().context("look after a child")? {
            let log = self.output()?;
            let tail: Vec<&str> = log.lines().rev().take(15).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            bail!(
                "{} ended ({status}); its last lines:\n{}",
                self.name,
                tail.join("\n")
            );
        }
        Ok(())
    }

    /// SIGTERM, a grace period, then SIGKILL.
    pub fn stop(mut self) {
        self.signal("-TERM");
        let end = Instant::now() + GRACE;
        while Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            sleep(POLL);
        }
        eprintln!("bed: {} did not end within {GRACE:?}: killed", self.name);
        self.kill();
    }

    /// SIGKILL: what a crash looks like.
    pub fn kill(mut self) {
        self.signal("-KILL");
        if let Err(e) = self.child.wait() {
            eprintln!("bed: wait for {}: {e}", self.name);
        }
    }

    /// Leaves it running.
    pub(super) fn abandon(self) {
        drop(self.child);
    }

    fn signal(&self, signal: &str) {
        // The whole group: a shell's children as well.
        let group = format!("-{}", self.child.id());
        if let Err(e) = run(&["kill", signal, "--", &group], GRACE) {
            eprintln!("bed: signal {}: {e:#}", self.name);
        }
    }
}

/// What a short command did.
#[derive(Debug)]
pub struct Run {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Run {
    /// Standard output, or an error that shows the command and what it said.
    ///
    /// # Errors
    /// When the exit status was not 0.
    pub fn success(self, command: &[&str]) -> Result<String> {
        if self.status.success() {
            return Ok(self.stdout);
        }
        bail!(
            "`{}` failed ({}): {}{}",
            command.join(" "),
            self.status,
            self.stderr.trim(),
            self.stdout.trim()
        );
    }
}

/// Runs a command to its end, or to the deadline, where it is killed.
///
/// # Errors
/// When it cannot be started, or at the deadline.
pub fn run(command: &[&str], deadline: Duration) -> Result<Run> {
    let (program, args) = command.split_first().context("an empty command")?;
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("start `{program}` (is it installed?)"))?;
    // Both pipes are drained while it runs, so that it cannot block on them.
    let stdout = child.stdout.take().context("a piped stdout")?;
    let stderr = child.stderr.take().context("a piped stderr")?;
    let stdout = std::thread::spawn(move || drain(stdout));
    let stderr = std::thread::spawn(move || drain(stderr));
    let end = Instant::now() + deadline;
    let status = loop {
        if let Some(status) = child.try_wait().context("look after a child")? {
            break status;
        }
        if Instant::now() >= end {
            // `ip netns exec` has become the command itself: one process to end.
            child.kill().context("kill a command at its deadline")?;
            child.wait().context("wait for a killed command")?;
            bail!("`{}` took over {deadline:?}", command.join(" "));
        }
        sleep(POLL);
    };
    let text = |handle: std::thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&handle.join().unwrap_or_default()).into_owned()
    };
    Ok(Run {
        status,
        stdout: text(stdout),
        stderr: text(stderr),
    })
}

fn drain(mut pipe: impl std::io::Read) -> Vec<u8> {
    let mut all = Vec::new();
    // A pipe that breaks ends the text there; the exit status tells the rest.
    let _ended = pipe.by_ref().read_to_end(&mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_killed_at_its_deadline() {
        let begin = Instant::now();
        let e =
            run(&["sleep", "20"], Duration::from_millis(100)).expect_err("must not end by itself");
        assert!(e.to_string().contains("took over"), "{e}");
        assert!(begin.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_failure_shows_what_was_said() {
        let command = ["sh", "-c", "echo why >&2; exit 3"];
        let e = run(&command, GRACE)
            .expect("it starts")
            .success(&command)
            .expect_err("exit 3");
        assert!(e.to_string().contains("why"), "{e}");
    }
}
