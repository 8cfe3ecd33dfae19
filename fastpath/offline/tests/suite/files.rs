//! Captures as other programs write them.

/// Either byte order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    Big,
    Little,
}

impl Order {
    pub(crate) fn u16(self, value: u16) -> [u8; 2] {
        match self {
            Self::Big => value.to_be_bytes(),
            Self::Little => value.to_le_bytes(),
        }
    }

    pub(crate) fn u32(self, value: u32) -> [u8; 4] {
        match self {
            Self::Big => value.to_be_bytes(),
            Self::Little => value.to_le_bytes(),
        }
    }
}

/// A frame, how long it was, and when it was seen, in nanoseconds.
pub(crate) struct Seen<'a> {
    pub(crate) at: u64,
    pub(crate) length: u32,
    pub(crate) data: &'a [u8],
}

impl<'a> Seen<'a> {
    pub(crate) fn whole(at: u64, data: &'a [u8]) -> Self {
        let length = data.len() as u32;
        Self { at, length, data }
    }
}

pub(crate) fn pcap(order: Order, nano: bool, link: u32, packets: &[Seen<'_>]) -> Vec<u8> {
    let magic = if nano { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let mut out = order.u32(magic).to_vec();
    out.extend([order.u16(2), order.u16(4)].concat());
    for field in [0, 0, 262_144, link] {
        out.extend(order.u32(field));
    }
    for Seen { at, length, data } in packets {
        let fraction = at % 1_000_000_000 / if nano { 1 } else { 1000 };
        for field in [
            (at / 1_000_000_000) as u32,
            fraction as u32,
            data.len() as u32,
            *length,
        ] {
            out.extend(order.u32(field));
        }
        out.extend(*data);
    }
    out
}

/// One block.
pub(crate) fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let total = order.u32(padded as u32 + 12);
    let mut out = [order.u32(kind), total].concat();
    out.extend(body);
    out.resize(8 + padded, 0);
    out.extend(total);
    out
}

pub(crate) fn section(order: Order) -> Vec<u8> {
    let mut body = order.u32(0x1a2b_3c4d).to_vec();
    body.extend([order.u16(1), order.u16(0)].concat());
    body.extend([0xff; 8]);
    block(order, 0x0a0d_0d0a, &body)
}

/// An interface, with what its times are counted in, and from when.
pub(crate) fn interface(order: Order, link: u16, resolution: Option<u8>, ahead: i64) -> Vec<u8> {
    let mut body = [order.u16(link), order.u16(0)].concat();
    body.extend(order.u32(0));
    // A name, to be skipped.
    body.extend([order.u16(2), order.u16(5)].concat());
    body.extend(b"eth99\0\0\0");
    if let Some(resolution) = resolution {
        body.extend([order.u16(9), order.u16(1)].concat());
        body.extend([resolution, 0, 0, 0]);
    }
    if ahead != 0 {
        body.extend([order.u16(14), order.u16(8)].concat());
        body.extend(match order {
            Order::Big => ahead.to_be_bytes(),
            Order::Little => ahead.to_le_bytes(),
        });
    }
    body.extend([0; 4]);
    block(order, 1, &body)
}

/// An enhanced packet block.
pub(crate) fn enhanced(
    order: Order,
    interface: u32,
    ticks: u64,
    length: u32,
    data: &[u8],
) -> Vec<u8> {
    let mut body = Vec::new();
    for field in [
        interface,
        (ticks >> 32) as u32,
        ticks as u32,
        data.len() as u32,
        length,
    ] {
        body.extend(order.u32(field));
    }
    body.extend(data);
    block(order, 6, &body)
}

pub(crate) fn simple(order: Order, length: u32, data: &[u8]) -> Vec<u8> {
    let mut body = order.u32(length).to_vec();
    body.extend(data);
    block(order, 3, &body)
}
