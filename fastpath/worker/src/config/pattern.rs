//! Patterns of interface names: `*` stands for any number of characters.

use std::fmt;

/// The kernel's limit of an interface's name (IFNAMSIZ less the final zero).
const NAME_MAX: usize = 15;

/// A checked pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// `None` if no interface could ever match.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let fixed = text.replace('*', "");
        let possible = fixed.is_empty() || Self::is_interface(&fixed);
        (possible && !text.is_empty() && text.len() <= 64).then(|| Self(text.to_owned()))
    }

    /// Whether the kernel takes this as an interface's name, and DPDK as the
    /// value of a device argument (no commas, no brackets).
    #[must_use]
    pub fn is_interface(name: &str) -> bool {
        let plain = |c: char| c.is_ascii_graphic() && !"/:,[]=*".contains(c);
        !name.is_empty()
            && name.len() <= NAME_MAX
            && name != "."
            && name != ".."
            && name.chars().all(plain)
    }

    /// Whether `name` matches.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        matches(self.0.as_bytes(), name.as_bytes())
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), None) => matches(rest, name),
        (Some((b'*', rest)), Some((_, tail))) => matches(rest, name) || matches(pattern, tail),
        (Some((p, rest)), Some((n, tail))) if p == n => matches(rest, tail),
        _ => false,
    }
}
