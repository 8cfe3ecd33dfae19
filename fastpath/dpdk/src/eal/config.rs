//! What EAL is started with.

use std::ffi::CString;
use std::mem;

use dpdk_sys as sys;

use super::text;
use crate::error::Error;

/// Settings of the environment, to be passed to [`crate::Eal::init`].
///
/// Hugepages are taken without files (`--in-memory`, no hugetlbfs mount needed).
/// There are no secondary processes and no telemetry socket.
#[derive(Debug, Clone)]
pub struct EalConfig {
    no_huge: bool,
    memory_mib: u32,
    prefix: String,
    lcores: Option<String>,
    pci: Vec<String>,
    vdevs: Vec<String>,
    extra: Vec<String>,
}

impl Default for EalConfig {
    fn default() -> Self {
        Self {
            no_huge: false,
            memory_mib: 256,
            prefix: format!("penstock-{}", std::process::id()),
            lcores: None,
            pci: Vec::new(),
            vdevs: Vec::new(),
            extra: Vec::new(),
        }
    }
}

impl EalConfig {
    /// Hugepages, 256 MiB, no PCI device, no virtual device.
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses ordinary pages. Virtual devices only: hardware cannot reach them.
    pub fn no_huge(mut self, yes: bool) -> Self {
        self.no_huge = yes;
        self
    }

    /// Memory set aside at start-up; without hugepages this is all there will be.
    pub fn memory_mib(mut self, mib: u32) -> Self {
        self.memory_mib = mib;
        self
    }

    /// Names this process's folder below the runtime directory. Must be unique
    /// on the machine; the default holds the process id.
    pub fn file_prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    /// EAL's own threads, in EAL's syntax (`0@1`). Seldom needed: the default is
    /// the calling thread alone, and [`crate::launch`] adds polling threads.
    pub fn lcores(mut self, lcores: &str) -> Self {
        self.lcores = Some(lcores.to_owned());
        self
    }

    /// Lets EAL probe this PCI device (`0000:81:00.0`, with the driver's
    /// arguments after a comma). Without any, the PCI bus is left alone.
    pub fn allow_pci(mut self, device: &str) -> Self {
        self.pci.push(device.to_owned());
        self
    }

    /// A virtual device to make at start-up: `net_ring0`, `net_af_packet0,iface=eth1`.
    pub fn vdev(mut self, device: &str) -> Self {
        self.vdevs.push(device.to_owned());
        self
    }

    /// One more argument, as EAL takes it (`--log-level=lib.eal:debug`).
    pub fn arg(mut self, argument: &str) -> Self {
        self.extra.push(argument.to_owned());
        self
    }

    pub(super) fn is_no_huge(&self) -> bool {
        self.no_huge
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn arguments(&self) -> Result<Vec<CString>, Error> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if self.prefix.is_empty() || !self.prefix.chars().all(plain) {
            return Err(Error::Invalid {
                field: "file prefix",
                value: self.prefix.clone(),
                expected: "letters, digits, `-` and `_`",
            });
        }
        if self.no_huge && !self.pci.is_empty() {
            return Err(Error::Invalid {
                field: "PCI devices",
                value: self.pci.join(" "),
                expected: "hugepages (a NIC cannot reach the memory of --no-huge)",
            });
        }
        let mut words = vec![
            "penstock".to_owned(),
            "--no-telemetry".to_owned(),
            format!("--file-prefix={}", self.prefix),
            format!(
                "--lcores={}",
                self.lcores.clone().unwrap_or_else(present_cpus)
            ),
            "-m".to_owned(),
            self.memory_mib.to_string(),
        ];
        if self.no_huge {
            // EAL 22.11 takes --in-memory and --no-huge for opposites.
            words.extend(["--no-huge", "--no-shconf", "--iova-mode=va"].map(str::to_owned));
        } else {
            words.push("--in-memory".to_owned());
        }
        if self.pci.is_empty() {
            words.push("--no-pci".to_owned());
        }
        words.extend(self.pci.iter().map(|device| format!("--allow={device}")));
        words.extend(self.vdevs.iter().map(|device| format!("--vdev={device}")));
        words.extend(self.extra.iter().cloned());
        words
            .iter()
            .map(|word| text("EAL argument", word))
            .collect()
    }
}

/// One lcore on every CPU that the calling thread may use. EAL binds the thread that
/// starts it, and threads made later inherit that: a single CPU here would silently
/// squeeze a whole runtime onto it.
fn present_cpus() -> String {
    let mut set = sys::cpu_set_t::default();
    // SAFETY: the set is ours and its size is given.
    let failed = unsafe {
        sys::pthread_getaffinity_np(sys::pthread_self(), mem::size_of_val(&set), &raw mut set)
    };
    let cpus: Vec<String> = (0..set.__bits.len() * 64)
        .filter(|cpu| set.__bits[cpu / 64] >> (cpu % 64) & 1 == 1)
        .map(|cpu| cpu.to_string())
        .collect();
    if failed != 0 || cpus.is_empty() {
        return "0".to_owned();
    }
    format!("0@({})", cpus.join(","))
}
