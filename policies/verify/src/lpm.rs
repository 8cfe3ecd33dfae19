//! Longest prefixes as intervals. As the NIC sees them: 128 bits, without families.

use penstock_flow::Prefix;

/// Addresses that one row answers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) low: u128,
    pub(crate) high: u128,
    /// What the row says.
    pub(crate) id: u32,
    /// Which of the rows.
    pub(crate) row: usize,
}

/// Host bits of a prefix's length.
pub(crate) fn host_bits(prefix: Prefix) -> u128 {
    u128::MAX.checked_shr(prefix.len().into()).unwrap_or(0)
}

/// The intervals that prefixes, each with what it says and its row, answer for: disjoint,
/// ascending.
pub(crate) fn spans(mut rows: Vec<(Prefix, u32, usize)>) -> Vec<Span> {
    rows.sort_by_key(|(prefix, ..)| (prefix.addr(), prefix.len()));
    let mut out = Vec::with_capacity(rows.len());
    // Prefixes around the place looked at, the longest last.
    let mut around: Vec<Span> = Vec::new();
    // `None`: behind the last address.
    let mut at = Some(0);
    let mut emit = |low: u128, high: u128, of: Span| {
        if low <= high {
            out.push(Span { low, high, ..of });
        }
    };
    let close = |around: &mut Vec<Span>,
                 at: &mut Option<u128>,
                 emit: &mut dyn FnMut(u128, u128, Span),
                 until: Option<u128>| {
        while let Some(top) = around.last().copied()
            && until.is_none_or(|until| top.high < until)
        {
            if let Some(low) = *at {
                emit(low, top.high, top);
            }
            if at.is_some_and(|low| low <= top.high) {
                *at = top.high.checked_add(1);
            }
            around.pop();
        }
    };
    for (prefix, id, row) in rows {
        let low = prefix.addr().0;
        close(&mut around, &mut at, &mut emit, Some(low));
        if let (Some(top), Some(from), Some(until)) = (around.last(), at, low.checked_sub(1)) {
            emit(from, until, *top);
        }
        at = Some(low);
        let high = low | host_bits(prefix);
        around.push(Span { low, high, id, row });
    }
    close(&mut around, &mut at, &mut emit, None);
    out
}

/// Those that meet `low..=high`.
pub(crate) fn within(spans: &[Span], low: u128, high: u128) -> impl Iterator<Item = Span> + '_ {
    let from = spans.partition_point(|span| span.high < low);
    spans[from..]
        .iter()
        .take_while(move |span| span.low <= high)
        .map(move |span| Span {
            low: span.low.max(low),
            high: span.high.min(high),
            ..*span
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_flow::Addr;

    fn prefix(addr: u128, len: u8) -> Prefix {
        let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
        Prefix::new(Addr(addr & mask), len).expect("a prefix")
    }

    /// Every address of the lowest and the highest 64, against the longest that holds it.
    #[test]
    fn the_longest_prefix_counts_everywhere() {
        let mut seed = 1_u64;
        let mut next = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % n
        };
        for _ in 0..500 {
            let mut rows: Vec<(Prefix, u32, usize)> = Vec::new();
            for row in 0..next(8) as usize {
                let base = if next(2) == 0 { 0 } else { u128::MAX - 63 };
                let len = if next(9) == 0 { 0 } else { 122 + next(7) as u8 };
                let one = prefix(base + u128::from(next(64)), len);
                if rows.iter().all(|(other, ..)| *other != one) {
                    rows.push((one, row as u32, row));
                }
            }
            let spans = spans(rows.clone());
            assert!(spans.windows(2).all(|w| w[0].high < w[1].low), "{spans:?}");
            for i in 0..64 {
                for at in [i, u128::MAX - i] {
                    let longest = rows
                        .iter()
                        .filter(|(p, ..)| at & !host_bits(*p) == p.addr().0)
                        .max_by_key(|(p, ..)| p.len())
                        .map(|(_, id, _)| *id);
                    let found = within(&spans, at, at).next().map(|span| span.id);
                    assert_eq!(found, longest, "{at:x} {rows:?} {spans:?}");
                }
            }
        }
    }
}
