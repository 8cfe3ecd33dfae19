//! The environment abstraction layer: memory, drivers and devices of the process.

mod config;

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dpdk_sys as sys;

pub use config::EalConfig;

use crate::error::{self, Error};
use crate::port::Port;

static TRIED: AtomicBool = AtomicBool::new(false);
static CLAIMS: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Proof that EAL runs in this process.
///
/// Dropping it does not shut EAL down: mbufs, pools and drivers' threads may outlive
/// any handle, and the kernel takes everything back when the process ends. Devices are
/// released by closing their [`Port`]. No file is left behind: EAL's folder below
/// the runtime directory is removed as soon as EAL has started.
#[derive(Debug)]
pub struct Eal {
    no_huge: bool,
}

impl Eal {
    /// Starts EAL. The calling thread becomes its main lcore and keeps the CPUs
    /// it had, unless the configuration names lcores.
    pub fn init(config: &EalConfig) -> Result<Self, Error> {
        let arguments = config.arguments()?;
        if TRIED.swap(true, Ordering::SeqCst) {
            return Err(Error::AlreadyInitialised);
        }
        // SAFETY: looks a symbol up, and nothing else.
        if unsafe { sys::shim_guards_packet_sockets() } == 0 {
            return Err(Error::UnguardedSockets);
        }
        let shown = arguments
            .iter()
            .map(|a| a.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ");
        let count = c_int::try_from(arguments.len()).map_err(|_| Error::Invalid {
            field: "EAL arguments",
            value: arguments.len().to_string(),
            expected: "fewer arguments",
        })?;
        let mut argv: Vec<*mut c_char> = arguments.into_iter().map(CString::into_raw).collect();
        argv.push(ptr::null_mut());
        // Leaked: EAL permutes the array and may keep pointers into the words.
        let argv = argv.leak();
        // SAFETY: argv holds `count` C strings and a null, all of them alive and ours
        // for ever; the swap above makes this the only call of the process.
        let started = unsafe { sys::rte_eal_init(count, argv.as_mut_ptr()) } >= 0;
        let reason = error::last();
        remove_runtime_folder(config.prefix());
        if !started {
            return Err(Error::Start {
                arguments: shown,
                reason,
            });
        }
        Ok(Self {
            no_huge: config.is_no_huge(),
        })
    }

    /// True when EAL's memory is ordinary pages.
    pub fn is_no_huge(&self) -> bool {
        self.no_huge
    }

    /// Plugs in a virtual device, `name` being its driver's name and a number
    /// (`net_af_packet3`), and takes its port. Other ports may be polled meanwhile.
    /// Closing the port unplugs the device.
    pub fn attach(&self, name: &str, arguments: &str) -> Result<Port, Error> {
        let device = text("device name", name)?;
        let words = text("device arguments", arguments)?;
        let mut claims = control();
        // Without this look, EAL would hand out the existing device again.
        if find_port(&device).is_some() {
            return Err(Error::PortTaken {
                name: name.to_owned(),
            });
        }
        // SAFETY: three C strings that live through the call; `control` keeps every other
        // change to EAL's device lists out.
        let returned =
            unsafe { sys::rte_eal_hotplug_add(c"vdev".as_ptr(), device.as_ptr(), words.as_ptr()) };
        if returned < 0 {
            return Err(Error::Attach {
                name: name.to_owned(),
                arguments: arguments.to_owned(),
                reason: error::code(returned),
            });
        }
        match find_port(&device) {
            Some(id) => {
                claims.insert(id);
                Ok(Port::new(id, device, true))
            }
            None => {
                // SAFETY: as above; the device was added by this very call.
                unsafe { sys::rte_eal_hotplug_remove(c"vdev".as_ptr(), device.as_ptr()) };
                Err(Error::NoPort {
                    name: name.to_owned(),
                })
            }
        }
    }

    /// Takes the port of a device that EAL found or was given at start-up: a
    /// PCI address or the name of a virtual device.
    pub fn port(&self, name: &str) -> Result<Port, Error> {
        let device = text("port name", name)?;
        let mut claims = control();
        let id = find_port(&device).ok_or_else(|| Error::NoPort {
            name: name.to_owned(),
        })?;
        if !claims.insert(id) {
            return Err(Error::PortTaken {
                name: name.to_owned(),
            });
        }
        Ok(Port::new(id, device, false))
    }
}

/// The lock under which devices come, change and go; inside, the ids of the
/// ports that have an owner. EAL's device lists know no lock of their own.
pub(crate) fn control() -> MutexGuard<'static, BTreeSet<u16>> {
    CLAIMS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn text(field: &'static str, value: &str) -> Result<CString, Error> {
    CString::new(value).map_err(|_| Error::Invalid {
        field,
        value: value.escape_debug().to_string(),
        expected: "text without a zero byte",
    })
}

fn find_port(name: &CStr) -> Option<u16> {
    let mut id = 0;
    // SAFETY: a C string and a place for the answer, both alive through the call.
    let returned = unsafe { sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut id) };
    (returned == 0).then_some(id)
}

/// EAL's folder serves secondary processes and telemetry, and we have neither.
/// Failing to remove it harms nobody, so the answer is not looked at.
fn remove_runtime_folder(prefix: &str) {
    // SAFETY: a static C string, empty when EAL gave up before it chose a folder.
    let folder = unsafe { CStr::from_ptr(sys::rte_eal_get_runtime_dir()) };
    let Ok(folder) = folder.to_str().map(Path::new) else {
        return;
    };
    if folder.ends_with(Path::new("dpdk").join(prefix)) {
        let _ = std::fs::remove_dir_all(folder);
    }
}
