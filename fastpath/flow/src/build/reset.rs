//! TCP resets: "nobody listens here", for segments that policy rejects.

use super::{BuildError, Writer, put_at, room};
use crate::Mac;
use crate::checksum::Sum;
use crate::packet::{ETHERNET_LEN, L4, Packet, Tcp, tcp_flags};
use crate::tuple::proto;

const TCP_LEN: usize = 20;

/// Writes the answer that a closed port would give to the segment that `packet`
/// describes (RFC 9293, section 3.10.7.1) into `out`: from `mac` and the segment's
/// destination to its sender. The result is untagged; its length, 54 or 74, is returned.
///
/// # Errors
/// [`BuildError::WrongPacket`] for what is not answered: anything but TCP, and resets.
/// [`BuildError::NoRoom`] if `out` is too small.
pub fn tcp_reset(out: &mut [u8], packet: &Packet, mac: Mac) -> Result<usize, BuildError> {
    let ip = packet.ip().ok_or(BuildError::WrongPacket)?;
    let L4::Tcp(segment) = &ip.l4_kind else {
        return Err(BuildError::WrongPacket);
    };
    if segment.flags & tcp_flags::RST != 0 || packet.dst_mac.is_multicast() {
        return Err(BuildError::WrongPacket);
    }
    let (from, to) = (ip.tuple.dst, ip.tuple.src);
    let ip_len = if ip.v6 { 40 } else { 20 };
    let out = room(out, ETHERNET_LEN + ip_len + TCP_LEN)?;
    let mut writer = Writer(out);
    if let (Some(from), Some(to)) = (from.v4_octets(), to.v4_octets()) {
        // Don't fragment, TTL 64.
        let mut header = [0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, proto::TCP, 0, 0];
        let sum = Sum::default().bytes(&header).bytes(&from).bytes(&to);
        header[10..].copy_from_slice(&sum.finish().to_be_bytes());
        writer
            .ethernet(packet.src_mac, mac, 0x0800)
            .put(&header)
            .put(&from)
            .put(&to);
    } else {
        writer
            .ethernet(packet.src_mac, mac, 0x86dd)
            .put(&[0x60, 0, 0, 0, 0, TCP_LEN as u8, proto::TCP, 64])
            .put(&from.octets())
            .put(&to.octets());
    }
    let (seq, ack, flags) = numbers(segment);
    writer
        .put(&ip.tuple.dport.to_be_bytes())
        .put(&ip.tuple.sport.to_be_bytes())
        .put(&seq.to_be_bytes())
        .put(&ack.to_be_bytes())
        // Five words, no window, no checksum yet.
        .put(&[0x50, flags, 0, 0, 0, 0, 0, 0]);
    let tcp = &mut out[ETHERNET_LEN + ip_len..];
    let sum = Sum::default()
        .pseudo(from, to, proto::TCP, TCP_LEN as u16)
        .bytes(tcp)
        .finish();
    put_at(tcp, 16, &sum.to_be_bytes());
    Ok(ETHERNET_LEN + ip_len + TCP_LEN)
}

/// What makes the sender believe it: the number that it expects, or else an
/// acknowledgement of all that it has sent.
fn numbers(segment: &Tcp) -> (u32, u32, u8) {
    if segment.flags & tcp_flags::ACK != 0 {
        return (segment.ack, 0, tcp_flags::RST);
    }
    let flags = u32::from(segment.flags & tcp_flags::SYN != 0)
        + u32::from(segment.flags & tcp_flags::FIN != 0);
    let length = u32::from(segment.payload_len) + flags;
    let ack = segment.seq.wrapping_add(length);
    (0, ack, tcp_flags::RST | tcp_flags::ACK)
}
