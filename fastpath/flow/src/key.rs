//! The key of a connection: one value for the packets of both directions.

use core::hash::{Hash, Hasher};

use crate::tuple::proto;
use crate::{Addr, Tuple};

/// A connection as one port sees it.
///
/// The VPC is not part of it: a port belongs to one. Neither is anything about
/// the way a packet came (tunnel, NIC), so a reply on another path still meets
/// its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The lower end, or who sends the echo request.
    a: Addr,
    b: Addr,
    a_port: u16,
    b_port: u16,
    port: u32,
    proto: u8,
}

/// Which way a packet runs along its [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Orientation {
    /// From the key's first end to its second.
    Forward,
    /// From the second end to the first.
    Backward,
}

impl Orientation {
    /// The other way.
    #[must_use]
    pub const fn reverse(self) -> Self {
        match self {
            Self::Forward => Self::Backward,
            Self::Backward => Self::Forward,
        }
    }
}

impl Key {
    /// The key of the connection that `tuple` belongs to at port id `port`, and
    /// which way the packet runs.
    ///
    /// For an ICMP error, give the tuple of the packet inside. An ICMP message
    /// that knows no reply (see [`Tuple::reply`]) is `Forward` on a key of its
    /// own.
    #[must_use]
    #[inline]
    pub const fn new(port: u32, tuple: &Tuple) -> (Self, Orientation) {
        let t = tuple;
        let backward = match t.proto {
            // Two hosts may ping each other with the same identifier: the
            // type, not the order of addresses, tells who asked.
            proto::ICMP => t.dport == 0x0000,
            proto::ICMPV6 => t.dport == 0x8100,
            _ => t.src.0 > t.dst.0 || t.src.0 == t.dst.0 && t.sport > t.dport,
        };
        if !backward {
            let key = Self {
                a: t.src,
                b: t.dst,
                a_port: t.sport,
                b_port: t.dport,
                port,
                proto: t.proto,
            };
            return (key, Orientation::Forward);
        }
        let (a_port, b_port) = match t.proto {
            proto::ICMP => (t.sport, 0x0800),
            proto::ICMPV6 => (t.sport, 0x8000),
            _ => (t.dport, t.sport),
        };
        let key = Self {
            a: t.dst,
            b: t.src,
            a_port,
            b_port,
            port,
            proto: t.proto,
        };
        (key, Orientation::Backward)
    }

    /// The port id it was made for.
    #[must_use]
    pub const fn port(&self) -> u32 {
        self.port
    }

    /// The IANA protocol number.
    #[must_use]
    pub const fn proto(&self) -> u8 {
        self.proto
    }

    /// The tuple of a packet that runs `orientation`.
    #[must_use]
    pub const fn tuple(&self, orientation: Orientation) -> Tuple {
        let forward = Tuple {
            src: self.a,
            dst: self.b,
            proto: self.proto,
            sport: self.a_port,
            dport: self.b_port,
        };
        match orientation {
            Orientation::Forward => forward,
            Orientation::Backward => match forward.reply() {
                Some(tuple) => tuple,
                // Never made for such a key; its only packet runs forward.
                None => forward,
            },
        }
    }

    /// The key as words, for hashing: equal keys, equal words.
    #[inline]
    pub(crate) const fn words(&self) -> [u64; 6] {
        [
            self.a.0 as u64,
            (self.a.0 >> 64) as u64,
            self.b.0 as u64,
            (self.b.0 >> 64) as u64,
            (self.a_port as u64) << 48 | (self.b_port as u64) << 32 | self.port as u64,
            self.proto as u64,
        ]
    }
}

impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b, c, d, e, f] = self.words().map(u128::from);
        // Whole words of the hasher: it need not gather bytes.
        state.write_u128(b << 64 | a);
        state.write_u128(d << 64 | c);
        state.write_u128(f << 64 | e);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(protocol: u8, sport: u16, dport: u16) -> Tuple {
        Tuple {
            src: Addr::from_v4([10, 0, 0, 2]),
            dst: Addr::from_v4([10, 0, 0, 1]),
            proto: protocol,
            sport,
            dport,
        }
    }

    #[test]
    fn both_directions_share_the_key_and_differ_in_orientation() {
        for t in [
            tuple(proto::TCP, 1000, 80),
            tuple(proto::UDP, 53, 53),
            tuple(proto::ICMP, 7, 0x0800),
            tuple(proto::ICMPV6, 7, 0x8000),
            tuple(47, 0, 0),
        ] {
            let reply = t.reply().expect("has a reply");
            let (there, way) = Key::new(3, &t);
            let (back, way_back) = Key::new(3, &reply);
            assert_eq!(there, back);
            assert_eq!(way, way_back.reverse());
            assert_eq!(there.tuple(way), t);
            assert_eq!(there.tuple(way_back), reply);
            assert_ne!(there, Key::new(4, &t).0);
        }
    }

    #[test]
    fn crossing_pings_are_two_connections() {
        let ask = tuple(proto::ICMP, 7, 0x0800);
        let cross = Tuple {
            src: ask.dst,
            dst: ask.src,
            ..ask
        };
        assert_ne!(Key::new(1, &ask).0, Key::new(1, &cross).0);
    }

    #[test]
    fn a_message_without_reply_stands_alone() {
        let (key, way) = Key::new(1, &tuple(proto::ICMP, 0, 0x0d00));
        assert_eq!(way, Orientation::Forward);
        assert_eq!(key.tuple(Orientation::Forward).dport, 0x0d00);
    }
}
