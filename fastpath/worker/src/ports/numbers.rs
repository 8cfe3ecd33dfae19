//! Device port numbers of attachments.

use std::collections::BTreeMap;

/// Uplinks are below.
pub const FIRST_ATTACHMENT: u32 = 17;

/// Who has which number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers {
    by_interface: BTreeMap<String, u32>,
    /// Numbers are below.
    limit: u32,
    /// Numbers come round, so that one that was just given back is used last:
    /// tables may still speak of it.
    next: u32,
}

impl Numbers {
    /// As kept over a restart: numbers out of range or given twice are forgotten.
    #[must_use]
    pub fn resume(limit: u32, kept: impl IntoIterator<Item = (String, u32)>) -> Self {
        let mut this = Self {
            by_interface: BTreeMap::new(),
            limit,
            next: FIRST_ATTACHMENT,
        };
        for (interface, number) in kept {
            let free = !this.by_interface.values().any(|used| *used == number);
            if free && (FIRST_ATTACHMENT..limit).contains(&number) {
                this.by_interface.insert(interface, number);
                this.next = this.next.max(number + 1);
            }
        }
        this
    }

    /// The interface's number, a new one if it has none; `None`: all are in use.
    pub fn take(&mut self, interface: &str) -> Option<u32> {
        if let Some(number) = self.by_interface.get(interface) {
            return Some(*number);
        }
        let used: std::collections::BTreeSet<_> = self.by_interface.values().copied().collect();
        let from_next = self.next..self.limit;
        let round = FIRST_ATTACHMENT..self.next.min(self.limit);
        let number = from_next.chain(round).find(|n| !used.contains(n))?;
        self.next = number + 1;
        self.by_interface.insert(interface.to_owned(), number);
        Some(number)
    }

    /// The interface's number, if it has one.
    #[must_use]
    pub fn of(&self, interface: &str) -> Option<u32> {
        self.by_interface.get(interface).copied()
    }

    /// Numbers are below.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Gives an interface's number back.
    pub fn release(&mut self, interface: &str) {
        self.by_interface.remove(interface);
    }

    /// Who has which number, to be kept.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.by_interface
            .iter()
            .map(|(name, n)| (name.as_str(), *n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_and_returns_last() {
        let mut n = Numbers::resume(20, []);
        assert_eq!(n.take("a"), Some(17));
        assert_eq!(n.take("b"), Some(18));
        assert_eq!(n.take("a"), Some(17));
        n.release("a");
        assert_eq!(n.take("c"), Some(19), "17 rests");
        assert_eq!(n.take("d"), Some(17));
        assert_eq!(n.take("e"), None);
        let kept: Vec<_> = n.iter().map(|(i, n)| (i.to_owned(), n)).collect();
        let mut again = Numbers::resume(20, kept);
        assert_eq!(again.take("d"), Some(17));
        assert_eq!(again.take("e"), None);
    }

    #[test]
    fn nonsense_from_disk_is_forgotten() {
        let kept = [("a", 3), ("b", 17), ("c", 17), ("d", 99)];
        let n = Numbers::resume(20, kept.map(|(i, n)| (i.to_owned(), n)));
        assert_eq!(n.iter().collect::<Vec<_>>(), [("b", 17)]);
    }
}
