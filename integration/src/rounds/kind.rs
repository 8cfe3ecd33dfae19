//! What a round does, in which order.

/// Hosts with a worker.
pub(super) const HOSTS: [&str; 2] = ["host-a", "host-b"];

/// What is ended, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    CrashController,
    StopController,
    CrashWorker,
    StopWorker,
    /// While there is no controller.
    CrashWorkerAlone,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::CrashController,
        Self::StopController,
        Self::CrashWorker,
        Self::StopWorker,
        Self::CrashWorkerAlone,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::CrashController => "penstockd killed",
            Self::StopController => "penstockd stopped",
            Self::CrashWorker => "worker killed",
            Self::StopWorker => "worker stopped",
            Self::CrashWorkerAlone => "both killed, worker first up",
        }
    }

    pub(super) const fn ends_a_worker(self) -> bool {
        !matches!(self, Self::CrashController | Self::StopController)
    }

    pub(super) const fn ends_the_controller(self) -> bool {
        !matches!(self, Self::CrashWorker | Self::StopWorker)
    }
}

/// All kinds equally often, in an order that the seed chooses.
pub(super) struct Plan {
    state: u64,
    left: Vec<Kind>,
}

impl Plan {
    pub(super) fn new(seed: u64, rounds: usize) -> Self {
        Self {
            state: seed,
            left: Kind::ALL.into_iter().cycle().take(rounds).collect(),
        }
    }

    /// SplitMix64.
    fn random(&mut self, below: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % below.max(1) as u64) as usize
    }
}

impl Iterator for Plan {
    type Item = (Kind, &'static str);

    fn next(&mut self) -> Option<Self::Item> {
        if self.left.is_empty() {
            return None;
        }
        let index = self.random(self.left.len());
        let kind = self.left.swap_remove(index);
        let host = HOSTS[self.random(HOSTS.len())];
        Some((kind, host))
    }
}

/// What each kind has cost.
pub(super) fn print(costs: &mut [(Kind, f64)]) {
    costs.sort_by(|(a, x), (b, y)| a.cmp(b).then(x.total_cmp(y)));
    println!("{:32} rounds  gap ms: min  median  max", "kind");
    for group in costs.chunk_by(|(a, _), (b, _)| a == b) {
        if let [(kind, min), ..] = group
            && let Some((_, median)) = group.get(group.len() / 2)
            && let Some((_, max)) = group.last()
        {
            let (name, rounds) = (kind.name(), group.len());
            println!("{name:32} {rounds:6}  {min:11.0}  {median:6.0}  {max:3.0}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_its_seeds_alone_and_leaves_no_kind_out() {
        let all: Vec<_> = Plan::new(7, 50).collect();
        assert_eq!(all, Plan::new(7, 50).collect::<Vec<_>>());
        assert_ne!(all, Plan::new(8, 50).collect::<Vec<_>>());
        for kind in Kind::ALL {
            assert_eq!(all.iter().filter(|(k, _)| *k == kind).count(), 10);
        }
        for host in HOSTS {
            assert!(all.iter().filter(|(_, h)| *h == host).count() > 10);
        }
    }
}
