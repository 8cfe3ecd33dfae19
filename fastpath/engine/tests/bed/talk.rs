//! Two hosts that talk.

use penstock_flow::{Addr, Mac};

use super::frames::{ACK, FIN, Headers, Layer4, RST, SYN, build};
use super::{Bed, Fate};

/// Who talks with whom, about what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Talk {
    pub(crate) a: &'static str,
    pub(crate) b: &'static str,
    pub(crate) v6: bool,
    pub(crate) sport: u16,
    pub(crate) dport: u16,
}

impl Talk {
    pub(crate) const fn new(a: &'static str, b: &'static str) -> Self {
        Self {
            a,
            b,
            v6: false,
            sport: 40_000,
            dport: 80,
        }
    }

    /// The frame that `a` (or, back, `b`) sends, as its host would address it.
    pub(crate) fn headers(&self, bed: &Bed, back: bool, l4: Layer4) -> Headers {
        let (from, to) = if back {
            (self.b, self.a)
        } else {
            (self.a, self.b)
        };
        let (from, to) = (bed.place(from), bed.place(to));
        let near = from.subnet == to.subnet;
        Headers {
            src_mac: from.mac,
            dst_mac: if near { to.mac } else { Mac::GATEWAY },
            vlan: from.vlan,
            src: from.ip(self.v6),
            dst: to.ip(self.v6),
            ttl: 64,
            l4,
        }
    }

    pub(crate) fn send(&self, bed: &mut Bed, back: bool, l4: Layer4, len: usize) -> Fate {
        let frame = build(&self.headers(bed, back, l4), len);
        bed.send(if back { self.b } else { self.a }, &frame)
    }

    pub(crate) fn tcp(
        &self,
        bed: &mut Bed,
        back: bool,
        flags: u8,
        seq: u32,
        ack: u32,
        len: usize,
    ) -> Fate {
        let (sport, dport) = if back {
            (self.dport, self.sport)
        } else {
            (self.sport, self.dport)
        };
        let l4 = Layer4::Tcp {
            sport,
            dport,
            flags,
            seq,
            ack,
        };
        self.send(bed, back, l4, len)
    }

    pub(crate) fn syn(&self, bed: &mut Bed) -> Fate {
        self.tcp(bed, false, SYN, 1000, 0, 0)
    }

    /// SYN, SYN-ACK, ACK; all arrive.
    #[track_caller]
    pub(crate) fn open(&self, bed: &mut Bed) {
        let fates = [
            self.syn(bed),
            self.tcp(bed, true, SYN | ACK, 5000, 1001, 0),
            self.tcp(bed, false, ACK, 1001, 5001, 0),
        ];
        for (fate, at) in fates.iter().zip([self.b, self.a, self.b]) {
            assert_eq!(fate.at(), at, "{self:?}: {fate:?}");
        }
    }

    /// Data, after `open`.
    pub(crate) fn data(&self, bed: &mut Bed, back: bool) -> Fate {
        if back {
            self.tcp(bed, true, ACK, 5001, 1001, 100)
        } else {
            self.tcp(bed, false, ACK, 1001, 5001, 100)
        }
    }

    /// Both sides finish, after `open` and `data`.
    #[track_caller]
    pub(crate) fn close(&self, bed: &mut Bed) {
        for (back, flags, seq, ack) in [
            (false, FIN | ACK, 1101, 5101),
            (true, FIN | ACK, 5101, 1102),
            (false, ACK, 1102, 5102),
        ] {
            let fate = self.tcp(bed, back, flags, seq, ack, 0);
            assert!(!fate.at().is_empty(), "{self:?}: {fate:?}");
        }
    }

    pub(crate) fn rst(&self, bed: &mut Bed) -> Fate {
        self.tcp(bed, false, RST | ACK, 1001, 5001, 0)
    }

    pub(crate) fn udp(&self, bed: &mut Bed, back: bool) -> Fate {
        let (sport, dport) = if back {
            (self.dport, self.sport)
        } else {
            (self.sport, self.dport)
        };
        self.send(bed, back, Layer4::Udp { sport, dport }, 64)
    }

    pub(crate) fn ping(&self, bed: &mut Bed, reply: bool) -> Fate {
        let id = self.sport;
        self.send(bed, reply, Layer4::Echo { id, reply }, 56)
    }

    pub(crate) fn dst(&self, bed: &Bed) -> Addr {
        bed.place(self.b).ip(self.v6)
    }
}
