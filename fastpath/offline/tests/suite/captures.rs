//! The reader: every flavour, and what is wrong with a file.

use penstock_offline::capture::{CaptureError, Reader};

use crate::files::{Order, Seen, block, enhanced, interface, pcap, section, simple};

/// Time, length and bytes of all packets, and why there is none after them.
type Read = (Vec<(Option<i128>, u32, Vec<u8>)>, Option<CaptureError>);

fn read(bytes: &[u8]) -> Read {
    let mut packets = Vec::new();
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (packets, Some(error)),
    };
    loop {
        match reader.next_packet() {
            Ok(Some(it)) => packets.push((it.time, it.length, it.data.to_vec())),
            Ok(None) => return (packets, None),
            Err(error) => return (packets, Some(error)),
        }
    }
}

/// What a file is refused for, after so many packets.
fn refused(bytes: &[u8]) -> (usize, String) {
    let (packets, error) = read(bytes);
    (packets.len(), error.expect("it is refused").to_string())
}

const AT: u64 = 1_700_000_000_123_456_789;
const FRAME: &[u8] = b"seventeen bytes!!";

#[test]
fn pcap_in_either_order_and_precision() {
    for order in [Order::Big, Order::Little] {
        for nano in [false, true] {
            let cut = Seen {
                at: AT + 1_000_000,
                length: 1500,
                data: &FRAME[..5],
            };
            let file = pcap(order, nano, 1, &[Seen::whole(AT, FRAME), cut]);
            let (packets, error) = read(&file);
            assert!(error.is_none(), "{error:?}");
            let time = i128::from(if nano { AT } else { AT / 1000 * 1000 });
            let expected = [
                (Some(time), 17, FRAME.to_vec()),
                (Some(time + 1_000_000), 1500, FRAME[..5].to_vec()),
            ];
            assert_eq!(packets, expected, "{order:?} {nano}");
        }
    }
    // A frame check sequence is told of in the upper half.
    let file = pcap(Order::Little, true, 0x2400_0001, &[Seen::whole(AT, FRAME)]);
    assert_eq!(read(&file).0.len(), 1);
}

#[test]
fn pcapng_with_every_clock() {
    let seconds = AT / 1_000_000_000;
    for order in [Order::Big, Order::Little] {
        for (resolution, ahead, ticks, time) in [
            (None, 0, AT / 1000, i128::from(AT / 1000 * 1000)),
            (Some(9), 0, AT, AT.into()),
            (Some(9), -7, AT, i128::from(AT) - 7_000_000_000),
            (Some(0), 5, seconds, i128::from(seconds + 5) * 1_000_000_000),
            (Some(12), 0, 4_000_500, 4_000),
            (Some(127), 0, u64::MAX, 0),
            (
                Some(0x80 | 10),
                0,
                seconds << 10 | 512,
                i128::from(seconds) * 1_000_000_000 + 500_000_000,
            ),
            (Some(0xff), 0, u64::MAX, 0),
        ] {
            let file = [
                section(order),
                interface(order, 1, resolution, ahead),
                block(order, 5, b"statistics"),
                enhanced(order, 0, ticks, 100, FRAME),
                simple(order, 17, FRAME),
            ]
            .concat();
            let (packets, error) = read(&file);
            assert!(error.is_none(), "{error:?}");
            let expected = [
                (Some(time), 100, FRAME.to_vec()),
                (None, 17, FRAME.to_vec()),
            ];
            assert_eq!(packets, expected, "{order:?} {resolution:?} {ahead}");
        }
    }
}

#[test]
fn a_second_section_has_its_own_order_and_interfaces() {
    let (big, little) = (Order::Big, Order::Little);
    let file = [
        section(big),
        interface(big, 1, Some(9), 0),
        enhanced(big, 0, 1, 17, FRAME),
        section(little),
        interface(little, 113, None, 0),
        interface(little, 1, Some(9), 0),
        enhanced(little, 1, 2, 17, FRAME),
    ];
    let times: Vec<_> = read(&file.concat()).0.iter().map(|it| it.0).collect();
    assert_eq!(times, [Some(1), Some(2)]);
    let lost = [&file[..4], &file[6..]].concat().concat();
    let (packets, why) = refused(&lost);
    assert_eq!(packets, 1);
    assert!(why.contains("a packet's interface is 1"), "{why}");
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let order = Order::Little;
    let good = pcap(order, false, 1, &[]);
    let whole = |link| pcap(order, false, link, &[Seen::whole(AT, FRAME)]);
    let mut huge = good.clone();
    huge.extend([[0; 4], [0; 4], order.u32(1 << 30), order.u32(1 << 30)].concat());
    let mut version = good.clone();
    version[4] = 9;
    let ng = [section(order), interface(order, 1, None, 0)].concat();
    let with = |block: Vec<u8>| [ng.clone(), block].concat();
    let mut unequal = enhanced(order, 0, 1, 17, FRAME);
    let end = unequal.len() - 4;
    unequal[end] ^= 4;
    let mut odd = enhanced(order, 0, 1, 17, FRAME);
    odd[4] += 1;
    let mut long = enhanced(order, 0, 1, 17, FRAME);
    long[20] = 200;
    for (file, packets, told) in [
        (
            vec![],
            0,
            "the file ends at byte 0, inside the file's header that begins at byte 0",
        ),
        (
            b"\x1f\x8b\x08\x00gzip".to_vec(),
            0,
            "no capture: it begins with [1f, 8b, 08, 00]",
        ),
        (
            good[..23].to_vec(),
            0,
            "ends at byte 23, inside the file's header",
        ),
        (
            version,
            0,
            "byte 4: the major version is 9; only 2 is known",
        ),
        (
            whole(113),
            0,
            "byte 20: link type 113 (Linux cooked): only Ethernet (1) is read; capture on one interface",
        ),
        (whole(276), 0, "link type 276 (Linux cooked, v2)"),
        (whole(101), 0, "link type 101 (raw IP)"),
        (
            whole(1)[..50].to_vec(),
            0,
            "ends at byte 50, inside a packet that begins at byte 24",
        ),
        (
            [whole(1), vec![0; 3]].concat(),
            1,
            "ends at byte 60, inside a packet that begins at byte 57",
        ),
        (huge, 0, "byte 32: a packet's captured length is 1073741824"),
        (
            with(enhanced(order, 3, 1, 17, FRAME)),
            0,
            "byte 64: a packet's interface is 3",
        ),
        (
            with(unequal),
            0,
            "byte 112: a block's length at its end is 48",
        ),
        (
            with(odd),
            0,
            "byte 68: a block's length is 53; it is 12 or more, in fours",
        ),
        (
            with(long),
            0,
            "byte 68: a block's length is 52; it does not hold what its type says",
        ),
        (
            with(block(order, 6, &[0; 4])),
            0,
            "byte 68: a block's length is 16; it does not hold",
        ),
        (
            with(vec![6, 0]),
            0,
            "ends at byte 66, inside a block that begins at byte 64",
        ),
        (
            [
                section(order),
                interface(order, 113, None, 0),
                enhanced(order, 0, 1, 17, FRAME),
            ]
            .concat(),
            0,
            "byte 36: link type 113 (Linux cooked)",
        ),
        (
            [section(order), simple(order, 17, FRAME)].concat(),
            0,
            "byte 28: a packet's interface is 0",
        ),
    ] {
        let (count, why) = refused(&file);
        assert!(why.contains(told), "{why}\nis not\n{told}");
        assert_eq!(count, packets, "{why}");
    }
}
