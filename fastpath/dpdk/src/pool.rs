//! Pools of mbufs.

use std::ffi::{CStr, c_int};
use std::fmt;
use std::mem;
use std::ptr::{self, NonNull};

use dpdk_sys as sys;

use crate::burst::Burst;
use crate::eal::{Eal, text};
use crate::error::{self, Error};
use crate::mbuf::Mbuf;

/// Bytes that a fresh or received mbuf keeps free in front of its frame.
pub const HEADROOM: u16 = sys::RTE_PKTMBUF_HEADROOM as u16;

/// Size and shape of a pool.
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// Number of mbufs; a power of two less one wastes nothing.
    pub mbufs: u32,
    /// Mbufs that each polling thread may keep to itself, at most 512.
    pub cache: u32,
    /// Bytes of buffer per mbuf, [`HEADROOM`] included.
    pub data_room: u16,
    /// NUMA node of the memory; none is any.
    pub socket: Option<u16>,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            mbufs: 8191,
            cache: 256,
            data_room: 2048 + HEADROOM,
            socket: None,
        }
    }
}

/// A pool of mbufs. A handle to be copied freely: the pool itself lasts until the
/// process ends, because mbufs refer to it from places (drivers' rings, other threads'
/// bursts) that nobody could count cheaply.
#[derive(Clone, Copy)]
pub struct Mempool {
    raw: NonNull<sys::rte_mempool>,
    name: &'static str,
    mbufs: u32,
    data_room: u16,
}

// SAFETY: the pool is never freed, and its ring and per-lcore caches are made for use by
// any number of threads; a thread's cache is chosen by the lcore id that EAL gave to it alone.
unsafe impl Send for Mempool {}
// SAFETY: as above.
unsafe impl Sync for Mempool {}

impl Mempool {
    /// Makes a pool. Its name is unique in the process and at most 25 bytes.
    pub fn new(eal: &Eal, name: &str, config: &PoolConfig) -> Result<Self, Error> {
        let c_name = text("pool name", name)?;
        if name.is_empty() || name.len() > 25 {
            return Err(Error::Invalid {
                field: "pool name",
                value: name.to_owned(),
                expected: "1 to 25 bytes",
            });
        }
        if config.data_room <= HEADROOM {
            return Err(Error::Invalid {
                field: "data_room",
                value: config.data_room.to_string(),
                expected: "more than the headroom of 128 bytes",
            });
        }
        let socket = config.socket.map_or(sys::SHIM_SOCKET_ANY, c_int::from);
        let raw = if eal.is_no_huge() {
            by_hand(&c_name, config, socket)
        } else {
            // SAFETY: the name lives through the call and is copied; EAL runs (`eal`).
            NonNull::new(unsafe {
                sys::rte_pktmbuf_pool_create(
                    c_name.as_ptr(),
                    config.mbufs,
                    config.cache,
                    0,
                    config.data_room,
                    socket,
                )
            })
            .ok_or_else(error::last)
        };
        match raw {
            Ok(raw) => Ok(Self {
                raw,
                name: name.to_owned().leak(),
                mbufs: config.mbufs,
                data_room: config.data_room,
            }),
            Err(reason) => Err(Error::Pool {
                name: name.to_owned(),
                mbufs: config.mbufs,
                reason,
            }),
        }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How many mbufs the pool was made with.
    pub fn size(&self) -> u32 {
        self.mbufs
    }

    /// Bytes of buffer per mbuf, [`HEADROOM`] included.
    pub fn data_room(&self) -> u16 {
        self.data_room
    }

    /// Mbufs that can be had, those in threads' caches included. Exact when no
    /// other thread is taking or giving.
    pub fn available(&self) -> u32 {
        // SAFETY: the pool is never freed.
        unsafe { sys::rte_mempool_avail_count(self.raw.as_ptr()) }
    }

    /// Mbufs in somebody's hands, drivers' rings included.
    pub fn in_use(&self) -> u32 {
        // SAFETY: the pool is never freed.
        unsafe { sys::rte_mempool_in_use_count(self.raw.as_ptr()) }
    }

    /// An mbuf with an empty frame behind [`HEADROOM`] bytes.
    pub fn alloc(&self) -> Result<Mbuf, Error> {
        let mut one = ptr::null_mut();
        // SAFETY: the pool is never freed and there is room for one pointer.
        let returned = unsafe { sys::shim_alloc_bulk(self.raw.as_ptr(), &raw mut one, 1) };
        match NonNull::new(one) {
            // SAFETY: freshly allocated, so nobody else owns it.
            Some(raw) if returned == 0 => Ok(unsafe { Mbuf::from_raw(raw) }),
            _ => Err(Error::PoolEmpty { name: self.name }),
        }
    }

    /// An mbuf whose frame is a copy of `frame`.
    pub fn alloc_from(&self, frame: &[u8]) -> Result<Mbuf, Error> {
        let mut mbuf = self.alloc()?;
        mbuf.fill(frame)?;
        Ok(mbuf)
    }

    /// Adds `count` empty mbufs to the burst: all of them or, where the pool or the
    /// burst has not so many left, none. Says whether it did.
    #[must_use = "an empty pool is an answer, not an accident"]
    pub fn alloc_into(&self, burst: &mut Burst, count: usize) -> bool {
        let room = burst.spare();
        if count > room.len() {
            return false;
        }
        // SAFETY: `room` has place for `count` pointers; the pool is never freed. On success
        // all `count` are fresh mbufs without another owner, on failure none is.
        unsafe {
            let fresh = room.as_mut_ptr().cast();
            // `count` is at most the capacity of a burst.
            if sys::shim_alloc_bulk(self.raw.as_ptr(), fresh, count as u32) != 0 {
                return false;
            }
            burst.grow(count);
        }
        true
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::rte_mempool {
        self.raw.as_ptr()
    }
}

impl fmt::Debug for Mempool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mempool")
            .field("name", &self.name)
            .field("mbufs", &self.mbufs)
            .field("data_room", &self.data_room)
            .finish_non_exhaustive()
    }
}

/// The pool for ordinary pages. `rte_pktmbuf_pool_create` keeps every mbuf within a page,
/// because physically neighbouring pages cannot be promised: one mbuf per page, all headers
/// in the same few cache sets, three to five times slower. Virtual devices do no DMA, so the flag
/// that waives contiguity is right there, and only there.
fn by_hand(
    name: &CStr,
    config: &PoolConfig,
    socket: c_int,
) -> Result<NonNull<sys::rte_mempool>, std::io::Error> {
    let element = mem::size_of::<sys::rte_mbuf>() as u32 + u32::from(config.data_room);
    let mut private = sys::rte_pktmbuf_pool_private {
        mbuf_data_room_size: config.data_room,
        ..Default::default()
    };
    // SAFETY: the name is copied, the private data is read by `rte_pktmbuf_pool_init` during
    // its call, and the element has the header and data room that `rte_pktmbuf_init` fills in. Until
    // it is returned nobody else knows the pool, so freeing it on failure is allowed.
    unsafe {
        let raw = NonNull::new(sys::rte_mempool_create_empty(
            name.as_ptr(),
            config.mbufs,
            element,
            config.cache,
            mem::size_of_val(&private) as u32,
            socket,
            sys::SHIM_MEMPOOL_NO_IOVA_CONTIG,
        ))
        .ok_or_else(error::last)?;
        let pool = raw.as_ptr();
        let ops = sys::rte_mbuf_best_mempool_ops();
        let mut returned = sys::rte_mempool_set_ops_byname(pool, ops, ptr::null_mut());
        if returned == 0 {
            sys::rte_pktmbuf_pool_init(pool, (&raw mut private).cast());
            returned = sys::rte_mempool_populate_default(pool);
        }
        if returned < 0 {
            sys::rte_mempool_free(pool);
            return Err(error::code(returned));
        }
        sys::rte_mempool_obj_iter(pool, Some(sys::rte_pktmbuf_init), ptr::null_mut());
        Ok(raw)
    }
}
