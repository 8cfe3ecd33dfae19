//! Everything that can go wrong outside the packet path.

use std::ffi::c_int;
use std::io;

/// Why a call into DPDK did not do what was asked.
///
/// DPDK writes its own, longer explanation to standard error; a variant here names
/// the object, the value and the step that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// EAL keeps process-wide state and cannot be started a second time, not
    /// even after a failed start.
    #[error("EAL starts once per process, and this process has already tried")]
    AlreadyInitialised,
    /// This program was linked, or is preloaded, so that the af_packet driver would have
    /// the kernel join IPv4 fragments of different interfaces, and a port that opens would
    /// hear them all.
    #[error(
        "the program's own setsockopt and socket are not the ones that drivers call; link it \
         so that its symbols go before the C library's, and preload nothing that replaces them"
    )]
    UnguardedSockets,
    /// EAL refused its arguments or the machine lacks what they ask for.
    #[error(
        "EAL did not start with `{arguments}`: {reason}; with hugepages check \
         /proc/sys/vm/nr_hugepages, without them the memory limit of this process"
    )]
    Start {
        arguments: String,
        reason: io::Error,
    },
    /// A value that DPDK could not even be asked about.
    #[error("{field} `{value}` is not usable: {expected}")]
    Invalid {
        field: &'static str,
        value: String,
        expected: &'static str,
    },
    /// The driver is unknown, the name is taken, or the driver refused its
    /// arguments (for af_packet: no such interface, or no CAP_NET_RAW).
    #[error(
        "device `{name}` with arguments `{arguments}` could not be attached: {reason}; check \
         that the name starts with an installed driver's and is not in use, and that what the \
         arguments name exists"
    )]
    Attach {
        name: String,
        arguments: String,
        reason: io::Error,
    },
    #[error("no port is named `{name}`; attach the device first or name it at start-up")]
    NoPort { name: String },
    #[error("port `{name}` already has an owner in this process")]
    PortTaken { name: String },
    #[error(
        "pool `{name}` of {mbufs} mbufs could not be made: {reason}; the name must be new, the \
         cache at most 512 and two thirds of the pool, and the memory given to EAL large enough"
    )]
    Pool {
        name: String,
        mbufs: u32,
        reason: io::Error,
    },
    /// The pool ran dry. Not a fault of the pool: somebody holds its mbufs.
    #[error("pool `{name}` has no mbuf left; make it larger or find who keeps the mbufs")]
    PoolEmpty { name: &'static str },
    #[error(
        "{length} bytes do not fit: this mbuf takes at most {room} from where its frame starts"
    )]
    TooLong { length: usize, room: usize },
    #[error(
        "bounds {start}..{start}+{length} leave the buffer of {room} bytes, or the frame is longer than 65535"
    )]
    Bounds {
        start: usize,
        length: usize,
        room: usize,
    },
    #[error("port `{name}`: {operation} failed: {reason}")]
    Port {
        name: String,
        operation: &'static str,
        reason: io::Error,
    },
    #[error(
        "port `{name}`: frames of MTU {mtu} need mbufs with room for {needed} bytes, the pool's \
         have {room}; raise the pool's data_room or lower the port's mtu"
    )]
    FrameRoom {
        name: String,
        mtu: u16,
        needed: u32,
        room: u32,
    },
    #[error(
        "port `{name}` has {queues} queues in other hands; drop them (join their threads) first"
    )]
    QueuesInUse { name: String, queues: usize },
    #[error("port `{name}` is {state}")]
    State { name: String, state: &'static str },
    #[error("thread `{name}`: {operation} failed: {reason}")]
    Thread {
        name: String,
        operation: &'static str,
        reason: io::Error,
    },
    #[error("thread `{name}` panicked: {message}")]
    Panicked { name: String, message: String },
}

/// The calling thread's `rte_errno`.
pub(crate) fn last() -> io::Error {
    // SAFETY: reads a thread-local integer.
    io::Error::from_raw_os_error(unsafe { dpdk_sys::shim_errno() })
}

/// A negative return value as an error. Some drivers answer a bare -1, which
/// would read "operation not permitted"; `rte_errno` is no better there.
pub(crate) fn code(returned: c_int) -> io::Error {
    if returned == -1 {
        return io::Error::other("the driver refused without saying why (-1)");
    }
    io::Error::from_raw_os_error(-returned)
}
