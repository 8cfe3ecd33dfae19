//! Frames by hand, sharing nothing with the program under test.

/// The 128-bit form of an IPv4 address.
pub fn v4(address: [u8; 4]) -> u128 {
    0xffff_0000_0000 | u128::from(u32::from_be_bytes(address))
}

pub fn ethernet(dst: [u8; 6], src: [u8; 6], ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&dst, &src, &ether_type.to_be_bytes()[..], payload].concat()
}

/// Puts an 802.1Q tag into a frame.
pub fn tagged(vid: u16, frame: &[u8]) -> Vec<u8> {
    [
        &frame[..12],
        &[0x81, 0x00],
        &vid.to_be_bytes(),
        &frame[12..],
    ]
    .concat()
}

#[derive(Clone, Copy)]
pub struct Ip {
    pub src: u128,
    pub dst: u128,
    pub ttl: u8,
    /// DSCP and ECN.
    pub tos: u8,
}

impl Ip {
    pub fn new(src: u128, dst: u128) -> Self {
        Self {
            src,
            dst,
            ttl: 64,
            tos: 0,
        }
    }

    /// The EtherType and the packet, IPv4 if the addresses are mapped.
    pub fn packet(self, proto: u8, payload: &[u8]) -> (u16, Vec<u8>) {
        if self.dst >> 32 == 0xffff {
            (0x0800, self.ipv4(proto, 0, &[], payload))
        } else {
            (0x86dd, self.ipv6(proto, payload))
        }
    }

    pub fn ipv4(self, proto: u8, fragment: u16, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let header = 20 + options.len();
        let total = (header + payload.len()) as u16;
        let mut packet = vec![0x40 | (header / 4) as u8, self.tos];
        packet.extend(total.to_be_bytes());
        packet.extend([0x12, 0x34]);
        packet.extend(fragment.to_be_bytes());
        packet.extend([self.ttl, proto, 0, 0]);
        packet.extend((self.src as u32).to_be_bytes());
        packet.extend((self.dst as u32).to_be_bytes());
        packet.extend(options);
        let sum = checksum(&packet).to_be_bytes();
        packet[10..12].copy_from_slice(&sum);
        packet.extend(payload);
        packet
    }

    pub fn ipv6(self, next_header: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60 | self.tos >> 4, self.tos << 4, 0, 0];
        packet.extend((payload.len() as u16).to_be_bytes());
        packet.extend([next_header, self.ttl]);
        packet.extend(self.src.to_be_bytes());
        packet.extend(self.dst.to_be_bytes());
        packet.extend(payload);
        packet
    }
}

fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

pub fn udp(sport: u16, dport: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    datagram.extend(sport.to_be_bytes());
    datagram.extend(dport.to_be_bytes());
    datagram.extend((8 + payload.len() as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    datagram
}

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

pub fn tcp(sport: u16, dport: u16, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend(sport.to_be_bytes());
    segment.extend(dport.to_be_bytes());
    segment.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(payload);
    segment
}

pub fn icmp(kind: u8, code: u8, id: u16) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    vec![kind, code, 0, 0, high, low, 0, 1, 0xaa, 0xbb, 0xcc, 0xdd]
}

/// A RoCEv2 datagram: BTH, some payload, ICRC.
pub fn roce(sport: u16, dest_qp: u32) -> Vec<u8> {
    let mut bth = vec![0x04, 0x40, 0xff, 0xff, 0];
    bth.extend(&dest_qp.to_be_bytes()[1..]);
    bth.extend([0x80, 0, 0, 1]);
    bth.extend([0x5a; 8]);
    bth.extend([0xde, 0xad, 0xbe, 0xef]);
    udp(sport, 4791, &bth)
}

/// VXLAN header and frame.
pub fn vxlan(vni: u32, frame: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = vni.to_be_bytes();
    [&[8, 0, 0, 0, a, b, c, 0], frame].concat()
}

/// CRC-32 as Ethernet has it, bit by bit.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0xedb8_8320 & 0_u32.wrapping_sub(crc & 1));
        }
    }
    !crc
}
