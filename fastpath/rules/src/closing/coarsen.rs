//! Fewer regions by larger ones.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::region::Region;

/// Brings regions to `most` at most, one at least, by merging those that lie
/// close together. Nothing that was inside gets outside.
pub(super) fn coarsen(mut regions: Vec<Region>, most: usize) -> Vec<Region> {
    both_directions(&mut regions);
    let is_host = |r: &Region| r.peer.is_some_and(|p| p.len() == 128);
    let across_ports = |r: &Region| Region { port: None, ..*r };
    // One address that loses something everywhere costs the least to fence.
    merge(&mut regions, most, |r| is_host(r).then(|| across_ports(r)));
    merge(&mut regions, most, |r| {
        r.port.map(|_| Region {
            protocol: None,
            peer: None,
            ..*r
        })
    });
    merge(&mut regions, most, |r| {
        r.port.map(|_| Region {
            vni: r.vni,
            port: r.port,
            ..Region::EVERYTHING
        })
    });
    merge(&mut regions, most, |r| r.peer.map(|_| across_ports(r)));
    merge(&mut regions, most, |r| {
        Some(Region {
            vni: r.vni,
            ..Region::EVERYTHING
        })
    });
    merge(&mut regions, most, |_| Some(Region::EVERYTHING));
    without_covered(&mut regions);
    regions
}

/// What closes in both directions is one region.
fn both_directions(regions: &mut Vec<Region>) {
    regions.sort_unstable();
    regions.dedup();
    let mut found = BTreeMap::<Region, usize>::new();
    for r in regions.iter() {
        *found
            .entry(Region {
                direction: None,
                ..*r
            })
            .or_default() += 1;
    }
    for r in regions.iter_mut() {
        let both = Region {
            direction: None,
            ..*r
        };
        if found.get(&both).is_some_and(|n| *n > 1) {
            *r = both;
        }
    }
    regions.sort_unstable();
    regions.dedup();
}

/// Where there are too many, puts `larger` in the place of the regions that
/// share it: where most do first, and no more of them than it takes.
fn merge(regions: &mut Vec<Region>, most: usize, larger: impl Fn(&Region) -> Option<Region>) {
    let Some(mut surplus) = regions.len().checked_sub(most).filter(|n| *n > 0) else {
        return;
    };
    let mut shares = BTreeMap::<Region, usize>::new();
    for region in regions.iter().filter_map(&larger) {
        *shares.entry(region).or_default() += 1;
    }
    let mut largest: Vec<(usize, Region)> = shares
        .into_iter()
        .filter(|(_, share)| *share > 1)
        .map(|(region, share)| (share, region))
        .collect();
    largest.sort_unstable_by(|a, b| b.cmp(a));
    let mut chosen = Vec::new();
    for (share, region) in largest {
        if surplus == 0 {
            break;
        }
        surplus = surplus.saturating_sub(share - 1);
        chosen.push(region);
    }
    chosen.sort_unstable();
    for region in regions.iter_mut() {
        if let Some(large) = larger(region)
            && chosen.binary_search(&large).is_ok()
        {
            *region = large;
        }
    }
    regions.sort_unstable();
    regions.dedup();
}

/// `regions` are few by now.
fn without_covered(regions: &mut Vec<Region>) {
    let all = regions.clone();
    regions.retain(|r| !all.iter().any(|other| other != r && other.covers(r)));
}
