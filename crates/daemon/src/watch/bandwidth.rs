//! Tests of the network between nodes, as admins reported them: one small file.

use crate::app::App;
use muster_api::BandwidthView;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Pairs of nodes whose newest test is kept; those tested longest ago go first.
const PAIRS_MAX: usize = 256;

/// The longest name.
const NAME_MAX: usize = 255;

/// The newest test of each pair, the newest first.
pub(crate) struct Bandwidth {
    file: PathBuf,
    /// Read when it is first asked for.
    known: Mutex<Option<Vec<BandwidthView>>>,
}

impl Bandwidth {
    /// Kept in this file, which need not be there.
    pub(crate) fn new(file: PathBuf) -> Self {
        Self { file, known: Mutex::new(None) }
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<BandwidthView> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_with(|| self.read()).clone()
    }

    /// Takes a test; it is in the place of an earlier one between the same two.
    pub(crate) fn add(&self, test: BandwidthView) -> BandwidthView {
        let test = BandwidthView { at_ms: App::now(), ..test };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let all = known.get_or_insert_with(|| self.read());
        all.retain(|other| (&other.from, &other.to) != (&test.from, &test.to));
        all.insert(0, test.clone());
        all.truncate(PAIRS_MAX);
        if let Err(error) = self.write(all) {
            tracing::warn!(%error, "a test of the network is not kept over a restart");
        }
        test
    }

    fn read(&self) -> Vec<BandwidthView> {
        let text = std::fs::read(&self.file).unwrap_or_default();
        let mut all: Vec<BandwidthView> = serde_json::from_slice(&text).unwrap_or_default();
        all.truncate(PAIRS_MAX);
        all
    }

    fn write(&self, all: &[BandwidthView]) -> std::io::Result<()> {
        if let Some(dir) = self.file.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let new = self.file.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(all)?)?;
        std::fs::rename(&new, &self.file)
    }
}

/// What is wrong with a report.
pub(crate) fn wrong(test: &BandwidthView) -> Option<&'static str> {
    let names = [Some(&test.from), Some(&test.to), Some(&test.tool), test.interface.as_ref()];
    let fits = |name: &String| {
        !name.is_empty() && name.len() <= NAME_MAX && !name.chars().any(char::is_control)
    };
    let counts = |number: f64| number.is_finite() && number > 0.0;
    if !names.into_iter().flatten().all(fits) {
        return Some("a name is missing, too long or no name");
    }
    if !counts(test.seconds) || !counts(test.bits_per_second) {
        return Some("seconds and bits_per_second are numbers above 0");
    }
    (test.from == test.to).then_some("a test is between two nodes")
}

#[cfg(test)]
mod tests {
    use super::{Bandwidth, PAIRS_MAX, wrong};
    use muster_api::BandwidthView;

    fn test(from: &str, to: &str, bits_per_second: f64) -> BandwidthView {
        BandwidthView {
            from: from.to_owned(),
            to: to.to_owned(),
            tool: "muster".to_owned(),
            seconds: 5.0,
            bits_per_second,
            link_bits_per_second: Some(10_000_000_000),
            ..BandwidthView::default()
        }
    }

    #[test]
    fn the_newest_of_each_pair_is_kept_over_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("reports/bandwidth.json");
        let tests = Bandwidth::new(file.clone());
        assert!(tests.all().is_empty());
        tests.add(test("a", "b", 1e9));
        tests.add(test("b", "a", 2e9));
        tests.add(test("a", "b", 5e9));
        let again = Bandwidth::new(file.clone()).all();
        let speeds: Vec<f64> = again.iter().map(|test| test.bits_per_second).collect();
        assert_eq!(speeds, [5e9, 2e9]);
        assert_eq!((again[0].share(), again[0].at_ms.millis() > 0), (Some(0.5), true));
        for pair in 0..PAIRS_MAX + 3 {
            tests.add(test("a", &pair.to_string(), 1e9));
        }
        assert_eq!(tests.all().len(), PAIRS_MAX);
        std::fs::write(&file, "[{]").unwrap();
        assert!(Bandwidth::new(file).all().is_empty());
    }

    #[test]
    fn what_is_no_test_is_not_taken() {
        assert_eq!(wrong(&test("a", "b", 1e9)), None);
        for bad in [test("a", "a", 1e9), test("", "b", 1e9), test("a\u{1b}", "b", 1e9)] {
            assert!(wrong(&bad).is_some(), "{bad:?}");
        }
        for bits in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(wrong(&test("a", "b", bits)).is_some(), "{bits}");
        }
    }
}
