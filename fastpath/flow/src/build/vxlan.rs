//! VXLAN encapsulation (RFC 7348), over IPv4 and IPv6.
//!
//! A next hop's outer headers differ between packets in four fields only, so
//! they are laid out once as a [`Template`] and copied in front of each frame.

use super::{BuildError, Writer, put_at};
use crate::checksum::Sum;
use crate::packet::VXLAN_PORT;
use crate::tuple::proto;
use crate::{Addr, Mac};

/// Bytes in front of a frame with an IPv4 underlay.
pub const VXLAN_V4_OVERHEAD: usize = 50;
/// Bytes in front of a frame with an IPv6 underlay.
pub const VXLAN_V6_OVERHEAD: usize = 70;

const ETHERNET_LEN: usize = 14;
const UDP_VXLAN_LEN: usize = 16;

/// The two ends of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encap {
    /// Outer Ethernet source.
    pub src_mac: Mac,
    /// Outer Ethernet destination: the VTEP's, or the underlay gateway's.
    pub dst_mac: Mac,
    /// This node's VTEP.
    pub src: Addr,
    /// The other node's VTEP.
    pub dst: Addr,
    /// VXLAN network identifier; the upper eight bits are ignored.
    pub vni: u32,
    /// Outer TTL or hop limit.
    pub ttl: u8,
}

/// Prepared outer headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    bytes: [u8; VXLAN_V6_OVERHEAD],
    len: u8,
    /// Of the IPv4 header with traffic class and length 0.
    sum: Sum,
}

impl Template {
    /// Lays out the headers.
    ///
    /// # Errors
    /// [`BuildError::MixedFamilies`].
    pub fn new(encap: &Encap) -> Result<Self, BuildError> {
        let mut bytes = [0; VXLAN_V6_OVERHEAD];
        let mut writer = Writer(&mut bytes);
        let len = match (encap.src.v4_octets(), encap.dst.v4_octets()) {
            (Some(src), Some(dst)) => {
                writer
                    .ethernet(encap.dst_mac, encap.src_mac, 0x0800)
                    // Identification 0 is right with DF (RFC 6864).
                    .put(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, encap.ttl, proto::UDP, 0, 0])
                    .put(&src)
                    .put(&dst);
                VXLAN_V4_OVERHEAD
            }
            (None, None) => {
                writer
                    .ethernet(encap.dst_mac, encap.src_mac, 0x86dd)
                    .put(&[0x60, 0, 0, 0, 0, 0, proto::UDP, encap.ttl])
                    .put(&encap.src.octets())
                    .put(&encap.dst.octets());
                VXLAN_V6_OVERHEAD
            }
            _ => return Err(BuildError::MixedFamilies),
        };
        // UDP checksum 0: the inner frame has its own (RFC 7348; for IPv6,
        // RFC 6935 allows it to tunnels).
        let [_, v0, v1, v2] = encap.vni.to_be_bytes();
        writer
            .put(&[0, 0])
            .put(&VXLAN_PORT.to_be_bytes())
            .put(&[0, 0, 0, 0, 0x08, 0, 0, 0, v0, v1, v2, 0]);
        let sum = match len {
            VXLAN_V4_OVERHEAD => Sum::default().bytes(&bytes[ETHERNET_LEN..ETHERNET_LEN + 20]),
            _ => Sum::default(),
        };
        Ok(Self {
            bytes,
            len: len as u8,
            sum,
        })
    }

    /// Bytes that [`Self::write`] needs in front of the inner frame.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Writes the headers into the first [`Self::len`] bytes of `frame`, whose
    /// rest is the inner frame. `sport` carries the inner flow's hash; `tos` is
    /// the inner packet's, so that the underlay sees its class and marks its
    /// ECN (RFC 6040).
    ///
    /// # Errors
    /// [`BuildError::NoRoom`] if `frame` is shorter than the headers, or longer
    /// than a 16-bit length can say.
    #[inline]
    pub fn write(&self, frame: &mut [u8], sport: u16, tos: u8) -> Result<(), BuildError> {
        let (need, have) = (self.len(), frame.len());
        let Ok(total) = u16::try_from(have) else {
            return Err(BuildError::NoRoom { need, have });
        };
        let header = frame
            .get_mut(..need)
            .ok_or(BuildError::NoRoom { need, have })?;
        let udp_len = if need == VXLAN_V4_OVERHEAD {
            let ip_len = total - ETHERNET_LEN as u16;
            header.copy_from_slice(&self.bytes[..VXLAN_V4_OVERHEAD]);
            let sum = self.sum.word(u16::from(tos)).word(ip_len).finish();
            header[15] = tos;
            header[16..18].copy_from_slice(&ip_len.to_be_bytes());
            header[24..26].copy_from_slice(&sum.to_be_bytes());
            ip_len - 20
        } else {
            let udp_len = total - (ETHERNET_LEN + 40) as u16;
            header.copy_from_slice(&self.bytes);
            header[14] |= tos >> 4;
            header[15] |= tos << 4;
            header[18..20].copy_from_slice(&udp_len.to_be_bytes());
            udp_len
        };
        put_at(header, need - UDP_VXLAN_LEN, &sport.to_be_bytes());
        put_at(header, need - UDP_VXLAN_LEN + 4, &udp_len.to_be_bytes());
        Ok(())
    }
}
