//! Frames written out by hand, with a checksum routine of their own.

pub(crate) const ETHER: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
pub(crate) const A4: [u8; 4] = [10, 0, 0, 1];
pub(crate) const B4: [u8; 4] = [10, 0, 0, 2];
pub(crate) const A6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
pub(crate) const B6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

pub(crate) fn cat(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

pub(crate) fn checksum(bytes: &[u8]) -> [u8; 2] {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |b| u32::from(*b));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

pub(crate) fn ethernet(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    cat(&[&ETHER, &ethertype.to_be_bytes(), payload])
}

pub(crate) fn tagged(vlan: u16, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let tag = [0x8100, vlan, ethertype].map(u16::to_be_bytes).concat();
    cat(&[&ETHER, &tag, payload])
}

/// An IPv4 packet; options must be a multiple of four bytes.
pub(crate) struct V4<'a> {
    pub(crate) proto: u8,
    pub(crate) flags_offset: u16,
    pub(crate) ttl: u8,
    pub(crate) options: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl Default for V4<'_> {
    fn default() -> Self {
        Self {
            proto: 17,
            flags_offset: 0x4000,
            ttl: 64,
            options: &[],
            payload: &[],
        }
    }
}

impl V4<'_> {
    pub(crate) fn packet(&self) -> Vec<u8> {
        let header_len = 20 + self.options.len();
        let total = (header_len + self.payload.len()) as u16;
        let mut header = vec![0x40 | (header_len / 4) as u8, 0xb8];
        header.extend(total.to_be_bytes());
        header.extend([0x12, 0x34]);
        header.extend(self.flags_offset.to_be_bytes());
        header.extend([self.ttl, self.proto, 0, 0]);
        header.extend(A4);
        header.extend(B4);
        header.extend(self.options);
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum);
        header.extend(self.payload);
        header
    }

    pub(crate) fn frame(&self) -> Vec<u8> {
        ethernet(0x0800, &self.packet())
    }
}

pub(crate) fn v4(proto: u8, payload: &[u8]) -> Vec<u8> {
    V4 {
        proto,
        payload,
        ..V4::default()
    }
    .frame()
}

pub(crate) fn v6_packet(next: u8, hops: u8, src: [u8; 16], dst: [u8; 16], body: &[u8]) -> Vec<u8> {
    let [l0, l1] = (body.len() as u16).to_be_bytes();
    cat(&[&[0x6b, 0x80, 0, 0, l0, l1, next, hops], &src, &dst, body])
}

pub(crate) fn v6(next: u8, body: &[u8]) -> Vec<u8> {
    ethernet(0x86dd, &v6_packet(next, 64, A6, B6, body))
}

/// Header, options (a multiple of four bytes), two bytes of data.
pub(crate) fn tcp(flags: u8, options: &[u8]) -> Vec<u8> {
    let offset = ((20 + options.len()) / 4 * 16) as u8;
    let mut segment = vec![0x9c, 0x40, 0, 80, 0, 0, 3, 0xe8, 0, 0, 7, 0xd0];
    segment.extend([offset, flags, 0x80, 0, 0, 0, 0, 0]);
    segment.extend(options);
    segment.extend(b"hi");
    segment
}

pub(crate) fn udp(sport: u16, dport: u16, data: &[u8]) -> Vec<u8> {
    let len = 8 + data.len() as u16;
    let header = [sport, dport, len, 0].map(u16::to_be_bytes).concat();
    cat(&[&header, data])
}

pub(crate) fn icmp(kind: u8, code: u8, body: &[u8]) -> Vec<u8> {
    let mut message = cat(&[&[kind, code, 0, 0], body]);
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum);
    message
}

/// An ICMPv6 message in its frame, checksum included.
pub(crate) struct Icmp6<'a> {
    pub(crate) kind: u8,
    pub(crate) code: u8,
    pub(crate) hops: u8,
    pub(crate) src: [u8; 16],
    pub(crate) dst: [u8; 16],
    pub(crate) body: &'a [u8],
}

impl Icmp6<'_> {
    pub(crate) fn frame(&self) -> Vec<u8> {
        let mut message = cat(&[&[self.kind, self.code, 0, 0], self.body]);
        let len = (message.len() as u32).to_be_bytes();
        let pseudo = cat(&[&self.src, &self.dst, &len, &[0, 0, 0, 58], &message]);
        let sum = checksum(&pseudo);
        message[2..4].copy_from_slice(&sum);
        ethernet(
            0x86dd,
            &v6_packet(58, self.hops, self.src, self.dst, &message),
        )
    }
}

pub(crate) fn vxlan(flags: u8, vni: u32, inner: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = vni.to_be_bytes();
    cat(&[&[flags, 0xff, 0xff, 0xff, a, b, c, 0xff], inner])
}

pub(crate) fn arp(op: u16, sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let payload = cat(&[
        &[0, 1, 8, 0, 6, 4],
        &op.to_be_bytes(),
        &[2, 0, 0, 0, 0, 1],
        &sender,
        &[0; 6],
        &target,
    ]);
    ethernet(0x0806, &payload)
}
