//! Addresses between two others.

use penstock_flow::{Addr, Prefix};

/// Both ends included.
pub(super) type Range = (u128, u128);

/// The IPv4 addresses among all.
const MAPPED: Range = (0xffff_0000_0000, 0xffff_ffff_ffff);

pub(super) const fn of(prefix: Prefix) -> Range {
    let first = prefix.addr().0;
    let host = match prefix.len() {
        0 => u128::MAX,
        len => match u128::MAX.checked_shr(len as u32) {
            Some(host) => host,
            None => 0,
        },
    };
    (first, first | host)
}

/// What is in any of `prefixes` and in none of `except`, as disjoint ranges.
pub(super) fn union(prefixes: &[Prefix], except: &[Prefix], is_v4: bool) -> Vec<Range> {
    let family = |all: &[Prefix]| {
        let mut ranges: Vec<Range> = all
            .iter()
            .filter(|prefix| prefix.is_v4() == is_v4)
            .map(|prefix| of(*prefix))
            .collect();
        ranges.sort_unstable();
        let mut merged: Vec<Range> = Vec::new();
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last);
                }
                _ => merged.push((first, last)),
            }
        }
        merged
    };
    let mut left = family(prefixes);
    for hole in family(except) {
        left = left
            .into_iter()
            .flat_map(|range| without(range, hole))
            .collect();
    }
    left
}

fn without((first, last): Range, hole: Range) -> impl Iterator<Item = Range> {
    if hole.1 < first || last < hole.0 {
        return [Some((first, last)), None].into_iter().flatten();
    }
    let below = (hole.0 > first).then(|| (first, hole.0.saturating_sub(1)));
    let above = (hole.1 < last).then(|| (hole.1.saturating_add(1), last));
    [below, above].into_iter().flatten()
}

pub(super) fn holds(ranges: &[Range], addr: u128) -> bool {
    let at = ranges.partition_point(|(first, _)| *first <= addr);
    let before = at.checked_sub(1).and_then(|at| ranges.get(at));
    before.is_some_and(|(_, last)| addr <= *last)
}

/// A family's addresses, cut wherever one of the ranges begins or ends.
pub(super) fn pieces<'a>(is_v4: bool, ranges: impl Iterator<Item = &'a Range>) -> Vec<Range> {
    let all: &[Range] = if is_v4 {
        &[MAPPED]
    } else {
        &[(0, MAPPED.0 - 1), (MAPPED.1 + 1, u128::MAX)]
    };
    let mut starts: Vec<u128> = ranges
        .flat_map(|(first, last)| [Some(*first), last.checked_add(1)])
        .flatten()
        .collect();
    starts.sort_unstable();
    starts.dedup();
    let mut pieces = Vec::new();
    for (first, last) in all {
        let mut at = *first;
        for start in starts.iter().filter(|s| (*first + 1..=*last).contains(s)) {
            pieces.push((at, start - 1));
            at = *start;
        }
        pieces.push((at, *last));
    }
    pieces
}

/// As a prefix where it is one.
pub(super) fn text((first, last): Range) -> String {
    let size = (last - first).checked_add(1);
    let len = size.map_or(0, |size| 128 - size.trailing_zeros() as u8);
    let prefix = Prefix::new(Addr(first), len);
    match prefix.filter(|prefix| of(*prefix) == (first, last)) {
        Some(prefix) => prefix.to_string(),
        None => format!("{}-{}", Addr(first), Addr(last)),
    }
}
