//! How figures are printed: lines for people, or JSON lines.

/// Where figures go.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// The bench's name.
    pub bench: &'static str,
    json: bool,
}

impl Report {
    /// As the environment says: `JSON` set to anything means JSON lines only.
    #[must_use]
    pub fn new(bench: &'static str) -> Self {
        let json = std::env::var("JSON").is_ok_and(|v| !v.is_empty());
        Self { bench, json }
    }

    /// Something that is no figure.
    pub fn note(&self, text: &str) {
        if !self.json {
            println!("{text}");
        }
    }

    /// One value per run: their median, the least and the largest.
    pub fn row(&self, case: &str, metric: &str, unit: &str, mut values: Vec<f64>) {
        values.sort_by(f64::total_cmp);
        let runs = values.len();
        let (Some(min), Some(value), Some(max)) =
            (values.first(), values.get(runs / 2), values.last())
        else {
            return;
        };
        if self.json {
            let bench = self.bench;
            println!(
                r#"{{"bench":"{bench}","case":"{case}","metric":"{metric}","value":{value:.4},"unit":"{unit}","label":"measured","min":{min:.4},"max":{max:.4},"runs":{runs}}}"#
            );
        } else {
            println!("{case:28} {metric:6} {value:9.2} {unit:5} ({min:.2} - {max:.2})");
        }
    }
}

/// The nearest-rank percentile; 0 of nothing.
#[must_use]
pub fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&hundred, 99), 99.0);
        assert_eq!(percentile(&hundred, 50), 50.0);
        assert_eq!(percentile(&[7.0], 99), 7.0);
        assert_eq!(percentile(&[], 99), 0.0);
    }
}
