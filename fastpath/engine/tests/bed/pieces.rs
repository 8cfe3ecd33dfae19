//! Packets cut into fragments, as a host or an attacker would.

/// One piece: which bytes behind the IP header, and whether more follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) begin: usize,
    pub(crate) end: usize,
    pub(crate) more: bool,
}

fn l3(frame: &[u8]) -> usize {
    if frame[12..14] == [0x81, 0] { 18 } else { 14 }
}

/// Bytes in front of what is cut.
fn header(frame: &[u8]) -> usize {
    let l3 = l3(frame);
    l3 + if frame[l3] >> 4 == 4 { 20 } else { 40 }
}

/// What is cut.
pub(crate) fn body(frame: &[u8]) -> &[u8] {
    &frame[header(frame)..]
}

/// Pieces of `size` bytes, a multiple of eight, in order.
pub(crate) fn evenly(frame: &[u8], size: usize) -> Vec<Cut> {
    let len = body(frame).len();
    (0..len)
        .step_by(size)
        .map(|begin| Cut {
            begin,
            end: len.min(begin + size),
            more: begin + size < len,
        })
        .collect()
}

/// One fragment of `frame`. What `cut` names beyond the frame's end is zeros.
pub(crate) fn piece(frame: &[u8], id: u32, cut: Cut) -> Vec<u8> {
    let mut data = body(frame).to_vec();
    data.resize(data.len().max(cut.end), 0);
    let data = &data[cut.begin..cut.end];
    let (l3, body) = (l3(frame), header(frame));
    let mut out = frame[..body].to_vec();
    let more = u16::from(cut.more);
    let offset = cut.begin as u16;
    let ip = &mut out[l3..];
    if ip[0] >> 4 == 4 {
        ip[2..4].copy_from_slice(&(20 + data.len() as u16).to_be_bytes());
        ip[4..6].copy_from_slice(&(id as u16).to_be_bytes());
        ip[6..8].copy_from_slice(&((more << 13) | (offset / 8)).to_be_bytes());
        ip[10..12].fill(0);
        let sum = penstock_flow::checksum::Sum::default().bytes(ip).finish();
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        ip[4..6].copy_from_slice(&(8 + data.len() as u16).to_be_bytes());
        let next = std::mem::replace(&mut ip[6], 44);
        out.extend([next, 0]);
        out.extend((offset | more).to_be_bytes());
        out.extend(id.to_be_bytes());
    }
    out.extend(data);
    out
}

/// The piece that a frame carries, and its bytes; `None`: it is no fragment.
pub(crate) fn carried(frame: &[u8]) -> Option<(Cut, Vec<u8>)> {
    let packet = penstock_flow::packet::parse(frame).expect("a good frame");
    let ip = packet.ip().expect("IP");
    let penstock_flow::packet::L4::Fragment(piece) = ip.l4_kind else {
        return None;
    };
    let data = frame[usize::from(ip.l4)..usize::from(ip.end)].to_vec();
    let begin = usize::from(piece.offset);
    let cut = Cut {
        begin,
        end: begin + data.len(),
        more: piece.more,
    };
    Some((cut, data))
}
