//! Polling threads.
//!
//! A polling thread is a std thread that registers itself with EAL and binds itself
//! to a CPU, and not one of the threads that EAL starts for its `--lcores`. Registering gives
//! it what those have, an lcore id of its own and with it its cache in every pool; being
//! a std thread gives it what those lack: a name, a result, a panic that stops at
//! its join, and that threads come and go while the process runs.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use dpdk_sys as sys;

use crate::eal::Eal;
use crate::error::{self, Error};

/// A running polling thread. Dropping it lets the thread run on.
pub struct Lcore<T> {
    name: String,
    id: u32,
    thread: JoinHandle<Option<T>>,
}

/// Runs `work` on a new thread that EAL knows, bound to `cpu` (none: to no one CPU).
/// Returns when the thread is registered and bound, or with the reason why not.
pub fn launch<T, F>(_eal: &Eal, name: &str, cpu: Option<usize>, work: F) -> Result<Lcore<T>, Error>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let failed = |operation, reason| Error::Thread {
        name: name.to_owned(),
        operation,
        reason,
    };
    let (tell, told) = mpsc::sync_channel(1);
    let thread = thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            // Lives until `work` and all it owns are gone, after a panic too.
            let _registration = match register(cpu) {
                Ok(registration) => {
                    tell.send(Ok(registration.id)).ok()?;
                    registration
                }
                Err(refusal) => {
                    tell.send(Err(refusal)).ok()?;
                    return None;
                }
            };
            Some(work())
        })
        .map_err(|reason| failed("starting it", reason))?;
    match told.recv() {
        Ok(Ok(id)) => Ok(Lcore {
            name: name.to_owned(),
            id,
            thread,
        }),
        Ok(Err((operation, reason))) => Err(failed(operation, reason)),
        Err(_) => Err(failed("starting it", io::Error::other("it ended at once"))),
    }
}

impl<T> Lcore<T> {
    /// The id that EAL gave to the thread.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// True when [`Lcore::join`] would not wait.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the end of the thread and takes its result.
    pub fn join(self) -> Result<T, Error> {
        match self.thread.join() {
            Ok(Some(result)) => Ok(result),
            Ok(None) => Err(Error::Thread {
                name: self.name,
                operation: "starting it",
                reason: io::Error::other("it ended before its work began"),
            }),
            Err(payload) => Err(Error::Panicked {
                name: self.name,
                message: message(&*payload),
            }),
        }
    }
}

impl<T> fmt::Debug for Lcore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lcore")
            .field("name", &self.name)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The calling thread's registration with EAL.
struct Registration {
    id: u32,
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: undoes the registration that this thread made; a registration never
        // leaves the thread, being a local of its first function.
        unsafe { sys::rte_thread_unregister() };
    }
}

fn register(cpu: Option<usize>) -> Result<Registration, (&'static str, io::Error)> {
    // SAFETY: EAL runs (`launch` was shown an `Eal`) and this thread is new to it.
    let registration = unsafe {
        if sys::rte_thread_register() < 0 {
            return Err(("registering it with EAL", error::last()));
        }
        Registration {
            id: sys::shim_lcore_id(),
        }
    };
    if let Some(cpu) = cpu {
        let mut set = sys::cpu_set_t::default();
        let word = set.__bits.get_mut(cpu / 64);
        let refused = |reason| ("binding it to its CPU", reason);
        let Some(word) = word else {
            return Err(refused(io::Error::other(format!(
                "CPU {cpu} is beyond 1023"
            ))));
        };
        *word |= 1 << (cpu % 64);
        // SAFETY: the set is ours and read during the call.
        if unsafe { sys::rte_thread_set_affinity(&raw mut set) } != 0 {
            return Err(refused(io::Error::other(format!(
                "CPU {cpu} does not exist or is not allowed to this process"
            ))));
        }
    }
    Ok(registration)
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "with a value that is not text".to_owned())
}
