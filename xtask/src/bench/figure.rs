//! One measured number, what it must hold, and how the table and the JSON say it.

use serde::Serialize;

use crate::stage::table;

/// What a figure must hold.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    /// Not less than this.
    AtLeast(f64),
    /// Not more than this.
    AtMost(f64),
}

/// One measured number.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    /// What was measured.
    pub(crate) name: String,
    /// The number.
    pub(crate) value: f64,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// What it must hold; none for a baseline.
    pub(crate) bound: Option<Bound>,
    /// How it came about, or what it is compared with.
    pub(crate) note: String,
}

impl Figure {
    /// A number that others are compared with.
    pub(crate) fn baseline(name: &str, value: f64, unit: &'static str, note: &str) -> Self {
        Self { name: name.to_owned(), value, unit, bound: None, note: note.to_owned() }
    }

    /// A number with a bound.
    pub(crate) fn bounded(
        name: &str,
        value: f64,
        unit: &'static str,
        bound: Bound,
        note: impl Into<String>,
    ) -> Self {
        Self { name: name.to_owned(), value, unit, bound: Some(bound), note: note.into() }
    }

    /// Whether it keeps its bound; a baseline does.
    pub(crate) fn holds(&self) -> bool {
        match self.bound {
            None => true,
            Some(Bound::AtLeast(least)) => self.value >= least,
            Some(Bound::AtMost(most)) => self.value <= most,
        }
    }

    fn row(&self) -> [String; 6] {
        let (bound, verdict) = match self.bound {
            None => (String::new(), ""),
            Some(Bound::AtLeast(least)) => (format!(">= {}", short(least)), self.word()),
            Some(Bound::AtMost(most)) => (format!("<= {}", short(most)), self.word()),
        };
        let value = short(self.value);
        let unit = self.unit.to_owned();
        [self.name.clone(), value, unit, bound, verdict.to_owned(), self.note.clone()]
    }

    fn word(&self) -> &'static str {
        if self.holds() { "holds" } else { "MISSED" }
    }
}

/// All figures for people.
pub(crate) fn render(figures: &[Figure]) -> String {
    let rows: Vec<[String; 6]> = figures.iter().map(Figure::row).collect();
    table(&["figure", "value", "unit", "bound", "", "how"], &rows)
}

/// A number with as many digits as say something.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// The value below which `share` of the samples lie; 0 without samples.
pub(crate) fn quantile(samples: &mut [f64], share: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let at = (samples.len() as f64 * share) as usize;
    samples.get(at.min(samples.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::{Bound, Figure, quantile, short};

    #[test]
    fn bounds_include_their_end() {
        let figure = |bound| Figure::bounded("x", 5.0, "s", bound, "");
        assert!(figure(Bound::AtLeast(5.0)).holds());
        assert!(figure(Bound::AtMost(5.0)).holds());
        assert!(!figure(Bound::AtMost(4.9)).holds());
    }

    #[test]
    fn quantiles_are_of_the_sorted_samples() {
        let mut samples: Vec<f64> = (0..100).rev().map(f64::from).collect();
        assert_eq!(short(quantile(&mut samples, 0.5)), "50.0");
        assert_eq!(short(quantile(&mut samples, 0.99)), "99.0");
        assert_eq!(short(quantile(&mut [], 0.99)), "0.00");
    }
}
