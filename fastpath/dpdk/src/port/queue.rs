//! Receiving and sending: the packet path.
//!
//! Both call the driver's function straight through `rte_eth_fp_ops`, as the inline
//! functions of C do. Callbacks of DPDK's own packet capture (`rte_pdump`) are
//! not run: nothing here installs any.

use std::fmt;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use dpdk_sys as sys;

use super::Device;
use crate::burst::Burst;
use crate::mbuf::Mbuf;

/// The queues of a started port, to be handed to their polling threads.
#[derive(Debug)]
pub struct Queues {
    pub rx: Vec<RxQueue>,
    pub tx: Vec<TxQueue>,
}

impl Queues {
    /// The device was just started with so many queues.
    pub(super) fn of(device: &Arc<Device>, rx: u16, tx: u16) -> Self {
        let rx = (0..rx)
            .map(|index| RxQueue {
                end: End::of(device, index),
                counters: RxCounters::default(),
            })
            .collect();
        let tx = (0..tx)
            .map(|index| TxQueue {
                end: End::of(device, index),
            })
            .collect();
        Self { rx, tx }
    }
}

/// The only right to poll one receive queue.
pub struct RxQueue {
    end: End,
    counters: RxCounters,
}

/// What a receive queue did to frames beyond delivering them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RxCounters {
    /// Frames of several segments that were copied together.
    pub linearised: u64,
    /// Frames of several segments that do not fit into one mbuf: dropped.
    pub too_long: u64,
    /// Frames whose VLAN tag the driver had taken out: put back in.
    pub tagged: u64,
    /// Frames without headroom for their VLAN tag, or too short for one: dropped.
    pub untaggable: u64,
}

impl RxQueue {
    /// Receives up to `most` frames, as far as the burst has room, behind those that
    /// are in it. Returns how many came. Frames are as they were on the wire, VLAN tag
    /// included, and in one segment.
    #[inline]
    pub fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        let spare = burst.spare();
        let most = most.min(spare.len());
        if most == 0 {
            return 0;
        }
        let places: *mut *mut sys::rte_mbuf = spare.as_mut_ptr().cast();
        // SAFETY: the port runs as long as `end` holds its device, so the driver's function
        // and queue data are valid; `&mut self` makes this the only poll of the queue. The
        // driver writes at most `most` pointers (<= Burst::CAPACITY) to mbufs that it gives up.
        let fresh = unsafe {
            let ops = &*self.end.ops;
            let Some(receive) = ops.rx_pkt_burst else {
                return 0;
            };
            let count = receive(*ops.rxq.data.add(self.end.index), places, most as u16);
            slice::from_raw_parts_mut(places, usize::from(count))
        };
        let mut odd = 0;
        for raw in fresh.iter() {
            // SAFETY: the driver delivered live mbufs.
            let raw = unsafe { &**raw };
            odd |= u64::from(raw.nb_segs ^ 1) | (raw.ol_flags & sys::SHIM_RX_VLAN_STRIPPED);
        }
        let count = if odd == 0 {
            fresh.len()
        } else {
            self.straighten(fresh)
        };
        // SAFETY: `count` mbufs of one segment at the front of `spare`, given up by the
        // driver; drivers deliver a reference count of one.
        unsafe { burst.grow(count) };
        count
    }

    pub fn counters(&self) -> RxCounters {
        self.counters
    }

    /// Number of the queue within its port.
    pub fn index(&self) -> usize {
        self.end.index
    }

    /// Makes the fresh mbufs plain or drops them; returns how many are left, at the front.
    #[cold]
    fn straighten(&mut self, fresh: &mut [*mut sys::rte_mbuf]) -> usize {
        let mut kept = 0;
        for next in 0..fresh.len() {
            let Some(raw) = NonNull::new(fresh[next]) else {
                continue;
            };
            // SAFETY: the driver gave the mbuf up and nobody else has it; freeing frees all its
            // segments, linearising leaves one.
            let (mut mbuf, flags, tag) = unsafe {
                if raw.as_ref().nb_segs != 1 {
                    if sys::shim_linearize(raw.as_ptr()) != 0 {
                        sys::rte_pktmbuf_free_bulk(&raw mut fresh[next], 1);
                        self.counters.too_long += 1;
                        continue;
                    }
                    self.counters.linearised += 1;
                }
                (
                    Mbuf::from_raw(raw),
                    raw.as_ref().ol_flags,
                    raw.as_ref().vlan_tci,
                )
            };
            if flags & sys::SHIM_RX_VLAN_STRIPPED != 0 {
                if !put_tag(&mut mbuf, tag) {
                    self.counters.untaggable += 1;
                    continue;
                }
                // SAFETY: `mbuf` owns it, and no borrow of it is alive.
                unsafe {
                    (*raw.as_ptr()).ol_flags &= !(sys::SHIM_RX_VLAN_STRIPPED | sys::SHIM_RX_VLAN);
                }
                self.counters.tagged += 1;
            }
            fresh[kept] = mbuf.into_raw();
            kept += 1;
        }
        kept
    }
}

/// The only right to send on one transmit queue.
pub struct TxQueue {
    end: End,
}

impl TxQueue {
    /// Offers the burst to the driver and returns how many frames it took, from the front. Those
    /// are the driver's; the others stay in the burst, and whether to try again or to drop them
    /// is the caller's choice. Keep frames within the port's MTU: some drivers (af_packet)
    /// take longer ones and drop them uncounted.
    #[inline]
    pub fn send(&mut self, burst: &mut Burst) -> usize {
        let offered = burst.len();
        // SAFETY: as in `RxQueue::receive`; the driver reads `offered` pointers to mbufs of
        // ours, and those it accepts, counted from the front, are forgotten here.
        unsafe {
            let ops = &*self.end.ops;
            let Some(send) = ops.tx_pkt_burst else {
                return 0;
            };
            let queue = *ops.txq.data.add(self.end.index);
            let taken = usize::from(send(queue, burst.as_mut_ptrs(), offered as u16));
            burst.forget_front(taken);
            taken
        }
    }

    /// Number of the queue within its port.
    pub fn index(&self) -> usize {
        self.end.index
    }
}

/// What both kinds of queue are made of. Not Sync and not Clone: one queue, one poller.
struct End {
    ops: *const sys::rte_eth_fp_ops,
    index: usize,
    device: Arc<Device>,
}

// SAFETY: `ops` points into a static table of libdpdk whose entry for this port changes only while
// no queue of it lives; drivers allow any thread to poll a queue, one at a time.
unsafe impl Send for End {}

impl End {
    fn of(device: &Arc<Device>, index: u16) -> Self {
        // The address only; nothing is read before the first poll.
        let table = (&raw const sys::rte_eth_fp_ops).cast::<sys::rte_eth_fp_ops>();
        // SAFETY: a valid port's id is below RTE_MAX_ETHPORTS, the length of the table.
        let ops = unsafe { table.add(usize::from(device.id)) };
        Self {
            ops,
            index: usize::from(index),
            device: Arc::clone(device),
        }
    }
}

/// Puts a stripped VLAN tag back behind the addresses.
fn put_tag(mbuf: &mut Mbuf, tag: u16) -> bool {
    const ADDRESSES: usize = 12;
    let (buffer, start, len) = mbuf.frame_parts();
    if start < 4 || len < ADDRESSES {
        return false;
    }
    buffer.copy_within(start..start + ADDRESSES, start - 4);
    let place = start - 4 + ADDRESSES;
    buffer[place..place + 2].copy_from_slice(&[0x81, 0x00]);
    buffer[place + 2..place + 4].copy_from_slice(&tag.to_be_bytes());
    mbuf.set_bounds(start - 4, len + 4).is_ok()
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("End")
            .field("port", &self.device.name)
            .field("index", &self.index)
            .finish()
    }
}

impl fmt::Debug for RxQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RxQueue")
            .field(&self.end)
            .field(&self.counters)
            .finish()
    }
}

impl fmt::Debug for TxQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TxQueue").field(&self.end).finish()
    }
}

#[cfg(test)]
mod tests {
    //! What no software device delivers by itself: a ring brings whatever was put in.

    use super::*;
    use crate::{Eal, EalConfig, Mempool, PoolConfig, PortConfig};

    fn raw(mbuf: &mut Mbuf) -> &mut sys::rte_mbuf {
        // SAFETY: Mbuf is a transparent wrapper of a pointer to a live mbuf of ours.
        unsafe { (*(&raw mut *mbuf).cast::<NonNull<sys::rte_mbuf>>()).as_mut() }
    }

    /// One frame of several segments, each full but the last.
    fn chain(pool: Mempool, segments: usize, last: usize) -> Mbuf {
        let mut head = pool.alloc_from(&[1; 2048]).unwrap();
        let mut end: *mut sys::rte_mbuf = raw(&mut head);
        for number in 2..=segments {
            let len = if number == segments { last } else { 2048 };
            let next = pool
                .alloc_from(&vec![number as u8; len])
                .unwrap()
                .into_raw();
            raw(&mut head).nb_segs += 1;
            raw(&mut head).pkt_len += len as u32;
            // SAFETY: `end` is the live last segment of the chain that `head` owns.
            unsafe { (*end).next = next };
            end = next;
        }
        head
    }

    #[test]
    fn odd_frames_are_made_plain_or_dropped() {
        let eal = Eal::init(&EalConfig::new().no_huge(true)).unwrap();
        let pool = Mempool::new(&eal, "odd", &PoolConfig::default()).unwrap();
        let mut port = eal.attach("net_ring0", "").unwrap();
        let mut queues = port.start(&PortConfig::default(), pool).unwrap();
        let (mut rx, mut tx) = (queues.rx.remove(0), queues.tx.remove(0));
        let mut burst = Burst::new();

        // A short head with room for its second segment, one that is too long, a tagged one,
        // one that has no room for its tag, one too short for a tag, and a plain one.
        let mut fits = chain(pool, 2, 100);
        raw(&mut fits).data_len = 200;
        raw(&mut fits).pkt_len = 300;
        let mut tagged = pool.alloc_from(&[3; 60]).unwrap();
        raw(&mut tagged).vlan_tci = 0x202a;
        let mut roomless = pool.alloc_from(&[4; 60]).unwrap();
        roomless.set_bounds(3, 60).unwrap();
        let mut short = pool.alloc_from(&[5; 11]).unwrap();
        for mbuf in [&mut tagged, &mut roomless, &mut short] {
            raw(mbuf).ol_flags = sys::SHIM_RX_VLAN | sys::SHIM_RX_VLAN_STRIPPED;
        }
        let plain = pool.alloc_from(&[6; 60]).unwrap();
        for mbuf in [fits, chain(pool, 3, 9), tagged, roomless, short, plain] {
            burst.push(mbuf).unwrap();
        }
        assert_eq!(tx.send(&mut burst), 6);
        assert_eq!(rx.receive(&mut burst, 32), 3);

        assert_eq!(burst[0].data(), [[1; 200].as_slice(), &[2; 100]].concat());
        let expected = [[3; 12].as_slice(), &[0x81, 0, 0x20, 0x2a], &[3; 48]].concat();
        assert_eq!(burst[1].data(), expected);
        assert_eq!(raw(&mut burst[1]).ol_flags, 0);
        assert_eq!(burst[2].data(), [6; 60]);
        let counted = RxCounters {
            linearised: 1,
            too_long: 1,
            tagged: 1,
            untaggable: 2,
        };
        assert_eq!(rx.counters(), counted);
        burst.clear();
        assert_eq!(pool.in_use(), 0, "every segment went back");
    }
}
