//! Prometheus' text form: families of samples.

use std::fmt::{Display, Write as _};

/// What a number is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// The text, growing.
#[derive(Debug, Default)]
pub(super) struct Text {
    out: String,
    family: &'static str,
}

impl Text {
    /// Begins a family.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        self.family = name;
        // Writing to a String does not fail.
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A sample of the family. Label values are names and numbers of ours: nothing in
    /// them needs an escape.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.out.push_str(self.family);
        for (i, (label, value)) in labels.iter().enumerate() {
            let open = if i == 0 { '{' } else { ',' };
            let _ = write!(self.out, "{open}{label}=\"{value}\"");
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }

    /// A family of one sample.
    pub(super) fn one(&mut self, name: &'static str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    pub(super) fn finish(self) -> String {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_and_samples() {
        let mut text = Text::default();
        text.one("a", Kind::Gauge, "An a.", 1);
        text.family("b_total", Kind::Counter, "Some b.");
        text.sample(&[("x", "1"), ("y", "z")], 2_u64);
        let expected = "# HELP a An a.\n# TYPE a gauge\na 1\n\
                        # HELP b_total Some b.\n# TYPE b_total counter\nb_total{x=\"1\",y=\"z\"} 2\n";
        assert_eq!(text.finish(), expected);
    }
}
