//! Sets of addresses as intervals, and dimensions cut where anything changes.

use penstock_flow::Prefix;

use crate::lpm::host_bits;

/// Where IPv4 addresses lie.
pub(crate) const V4: (u128, u128) = (0xffff_0000_0000, 0xffff_ffff_ffff);

/// Intervals of one family.
pub(crate) fn family(is_v4: bool) -> Vec<(u128, u128)> {
    if is_v4 {
        vec![V4]
    } else {
        vec![(0, V4.0 - 1), (V4.1 + 1, u128::MAX)]
    }
}

/// Addresses: disjoint intervals, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Addresses(pub(crate) Vec<(u128, u128)>);

impl Addresses {
    /// A prefix as documents mean it: of one family.
    pub(crate) fn of(prefix: Prefix) -> Self {
        let low = prefix.addr().0;
        let whole = (low, low | host_bits(prefix));
        let all = Self(vec![whole]);
        if prefix.is_v4() {
            all
        } else {
            all.without(&Self(vec![V4]))
        }
    }

    pub(crate) fn union(mut all: Vec<(u128, u128)>) -> Self {
        all.sort_unstable();
        let mut out: Vec<(u128, u128)> = Vec::with_capacity(all.len());
        for (low, high) in all {
            match out.last_mut() {
                Some(last) if last.1.checked_add(1).is_none_or(|next| low <= next) => {
                    last.1 = last.1.max(high);
                }
                _ => out.push((low, high)),
            }
        }
        Self(out)
    }

    pub(crate) fn without(&self, holes: &Self) -> Self {
        let mut out = Vec::new();
        for (low, high) in &self.0 {
            let mut from = Some(*low);
            for (first, last) in &holes.0 {
                let Some(at) = from.filter(|at| first <= high && last >= at) else {
                    continue;
                };
                if at < *first {
                    out.push((at, first - 1));
                }
                from = last.checked_add(1).filter(|next| next <= high);
            }
            if let Some(at) = from {
                out.push((at, *high));
            }
        }
        Self(out)
    }

    pub(crate) fn contain(&self, at: u128) -> bool {
        let i = self.0.partition_point(|(_, high)| *high < at);
        self.0.get(i).is_some_and(|(low, _)| *low <= at)
    }
}

/// Cuts `low..=high` at the beginning and behind the end of each of `by`.
pub(crate) fn cells<T>(
    (low, high): (T, T),
    by: impl IntoIterator<Item = (T, T)>,
    next: impl Fn(T) -> Option<T>,
    before: impl Fn(T) -> T,
) -> Vec<(T, T)>
where
    T: Copy + Ord,
{
    let mut starts = vec![low];
    for (first, last) in by {
        starts.push(first);
        starts.extend(next(last));
    }
    starts.retain(|at| (low..=high).contains(at));
    starts.sort_unstable();
    starts.dedup();
    let ends = starts.iter().skip(1).map(|at| before(*at));
    let ends: Vec<T> = ends.chain(std::iter::once(high)).collect();
    starts.into_iter().zip(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_flow::Addr;

    #[test]
    fn sets_are_what_they_hold() {
        let set = Addresses::union(vec![(5, 9), (0, 3), (4, 4), (20, u128::MAX)]);
        assert_eq!(set.0, vec![(0, 9), (20, u128::MAX)]);
        let holes = Addresses(vec![(0, 0), (3, 4), (9, 25), (u128::MAX, u128::MAX)]);
        let less = set.without(&holes);
        assert_eq!(less.0, vec![(1, 2), (5, 8), (26, u128::MAX - 1)]);
        for (at, is_in) in [
            (0, false),
            (1, true),
            (3, false),
            (8, true),
            (9, false),
            (26, true),
        ] {
            assert_eq!(less.contain(at), is_in, "{at}");
        }
    }

    #[test]
    fn all_of_ipv6_is_without_ipv4() {
        let all = Addresses::of(Prefix::new(Addr(0), 0).expect("a prefix"));
        assert_eq!(all.0, family(false));
        let v4 = Addresses::of(Prefix::new(Addr(V4.0), 96).expect("a prefix"));
        assert_eq!(v4.0, family(true));
    }

    #[test]
    fn a_dimension_is_cut_at_every_edge() {
        let cut = |by: Vec<(u16, u16)>| cells((10, 20), by, |x| x.checked_add(1), |x| x - 1);
        assert_eq!(cut(vec![]), vec![(10, 20)]);
        assert_eq!(
            cut(vec![(0, 12), (15, 15), (18, u16::MAX)]),
            vec![(10, 12), (13, 14), (15, 15), (16, 17), (18, 20)]
        );
    }
}
