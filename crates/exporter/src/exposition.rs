//! Samples, bounded and without doubles, and the two texts that they are written in.
//!
//! The encoder is our own: `prometheus-client` writes OpenMetrics alone, in which the counters of
//! DCGM and cgroups could not keep the names that dashboards ask for.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use crate::families::{self, Family, Kind, Set};

/// What to tell, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The sets of metrics.
    pub sets: BTreeSet<Set>,
    /// The most series; what is beyond is counted and left out.
    pub series_max: usize,
    /// The most jobs of which each is told by itself.
    pub jobs_max: usize,
    /// The processes that moved most, so many.
    pub processes: usize,
    /// This machine's name.
    pub hostname: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sets: Set::ALL.into_iter().collect(),
            series_max: 50_000,
            jobs_max: 500,
            processes: 10,
            hostname: String::new(),
        }
    }
}

/// A value: whole numbers stay whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Whole(u64),
    Real(f64),
}

impl Value {
    /// As a real number.
    pub(crate) fn real(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Real(real) => real,
        }
    }
}

/// What a series can be given: a value, or none.
pub(crate) trait Given {
    fn value(self) -> Option<Value>;
}

impl Given for u64 {
    fn value(self) -> Option<Value> {
        Some(Value::Whole(self))
    }
}

impl Given for f64 {
    fn value(self) -> Option<Value> {
        Some(Value::Real(self))
    }
}

impl Given for bool {
    fn value(self) -> Option<Value> {
        Some(Value::Whole(u64::from(self)))
    }
}

impl<T: Given> Given for Option<T> {
    fn value(self) -> Option<Value> {
        self?.value()
    }
}

/// The series of one family: their labels as they are written, those without a value left out.
#[derive(Debug)]
struct Series {
    family: &'static Family,
    samples: Vec<(Arc<str>, Value)>,
    seen: HashSet<Arc<str>>,
}

/// Everything that is told of one snapshot.
#[derive(Debug)]
pub struct Exposition {
    sets: BTreeSet<Set>,
    series_max: usize,
    series: BTreeMap<&'static str, Series>,
    count: usize,
    /// Where labels are written before it is known whether they are new.
    labels: String,
    dropped: BTreeMap<&'static str, u64>,
}

impl Exposition {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            sets: settings.sets.clone(),
            series_max: settings.series_max,
            series: BTreeMap::new(),
            count: 0,
            labels: String::new(),
            dropped: BTreeMap::new(),
        }
    }

    /// Adds a series; nothing where there is no value. One that was there already, one beyond the
    /// bound and one that is no number are left out and counted.
    pub(crate) fn put(
        &mut self,
        family: &'static Family,
        labels: &[(&'static str, &str)],
        value: impl Given,
    ) {
        let Some(value) = value.value() else { return };
        if !self.sets.contains(&family.set) {
            return;
        }
        let is_number = !matches!(value, Value::Real(real) if !real.is_finite());
        // What tells of the exporter itself always has room.
        let has_room = self.count < self.series_max || family.set == Set::Own;
        self.labels.clear();
        write_labels(&mut self.labels, labels);
        let fresh = || Series { family, samples: Vec::new(), seen: HashSet::new() };
        let there = self.series.get(family.name);
        let known = there.is_some_and(|series| series.seen.contains(self.labels.as_str()));
        if !is_number || !has_room || known {
            *self.dropped.entry(family.name).or_default() += 1;
            return;
        }
        let labels: Arc<str> = Arc::from(self.labels.as_str());
        let series = self.series.entry(family.name).or_insert_with(fresh);
        series.seen.insert(Arc::clone(&labels));
        series.samples.push((labels, value));
        self.count += 1;
    }

    /// Counts series that were left out on purpose.
    pub(crate) fn drop_series(&mut self, family: &'static Family, count: usize) {
        if count > 0 {
            *self.dropped.entry(family.name).or_default() += count as u64;
        }
    }

    /// Tells how many series there are and were left out; the last thing that is added.
    pub(crate) fn close(&mut self) {
        for (family, count) in std::mem::take(&mut self.dropped) {
            self.put(&families::EXPORT_DROPPED, &[("family", family)], count);
        }
        self.put(&families::EXPORT_SERIES, &[], self.count as u64 + 1);
    }

    /// The number of series.
    pub fn series(&self) -> usize {
        self.count
    }

    /// The names of the metrics that are told.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.series.keys().copied()
    }

    /// Each metric with its series: their labels as they are written, and their values.
    pub(crate) fn families(&self) -> impl Iterator<Item = (&'static Family, &[(Arc<str>, Value)])> {
        self.series.values().map(|series| (series.family, series.samples.as_slice()))
    }

    /// As OpenMetrics 1.0 (`application/openmetrics-text`).
    pub fn open_metrics(&self) -> String {
        let mut text = self.write(true);
        text.push_str("# EOF\n");
        text
    }

    /// As Prometheus's older text, 0.0.4 (`text/plain`).
    pub fn text(&self) -> String {
        self.write(false)
    }

    fn write(&self, open: bool) -> String {
        let mut out = String::with_capacity(self.count * 100);
        for Series { family, samples, .. } in self.series.values() {
            head(&mut out, family, open);
            for (labels, value) in samples {
                out.push_str(family.name);
                out.push_str(labels);
                let _ = match value {
                    Value::Whole(whole) => writeln!(out, " {whole}"),
                    Value::Real(real) => writeln!(out, " {real}"),
                };
            }
        }
        out
    }
}

/// `{name="value",...}`; nothing where no label has a value.
fn write_labels(out: &mut String, labels: &[(&'static str, &str)]) {
    let mut before = '{';
    for (name, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
        out.push(before);
        out.push_str(name);
        out.push_str("=\"");
        escape(out, value, true);
        out.push('"');
        before = ',';
    }
    if before == ',' {
        out.push('}');
    }
}

/// The names and values in labels that [`write_labels`] wrote.
pub(crate) fn read_labels(written: &str) -> Vec<(&str, String)> {
    let mut labels = Vec::new();
    let mut rest = written.trim_start_matches('{');
    while let Some((name, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut letters = after.chars();
        while let Some(letter) = letters.next().filter(|letter| *letter != '"') {
            value.push(match letter {
                '\\' => match letters.next() {
                    Some('n') => '\n',
                    Some(escaped) => escaped,
                    None => '\\',
                },
                letter => letter,
            });
        }
        labels.push((name, value));
        rest = letters.as_str().trim_start_matches(',');
    }
    labels
}

/// What a family is. In OpenMetrics a counter is named without its `_total`, and one that never had
/// it cannot be a counter.
fn head(out: &mut String, family: &Family, open: bool) {
    let counted = family.kind == Kind::Counter;
    let (name, kind) = match (open, family.name.strip_suffix("_total")) {
        (true, Some(base)) if counted => (base, "counter"),
        (true, None) if counted => (family.name, "unknown"),
        (false, _) if counted => (family.name, "counter"),
        _ => (family.name, "gauge"),
    };
    let _ = write!(out, "# HELP {name} ");
    escape(out, family.help, open);
    let _ = write!(out, "\n# TYPE {name} {kind}\n");
    if open && !family.unit.is_empty() && name.ends_with(&format!("_{}", family.unit)) {
        let _ = writeln!(out, "# UNIT {name} {}", family.unit);
    }
}

/// A label's value or a help text: what would end it or its line is escaped, and what could take
/// over somebody's terminal is replaced.
fn escape(out: &mut String, text: &str, quotes: bool) {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'\\' && byte != b'"';
    if text.bytes().all(is_plain) {
        return out.push_str(text);
    }
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            _ if letter.is_control() => out.push('\u{fffd}'),
            _ => out.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Exposition, Settings, read_labels, write_labels};
    use crate::families::{EXPORT_DROPPED, GPU_ENERGY, JOB_INFO, LOAD_1, NETWORK_RX_BYTES};

    #[test]
    fn the_two_texts_differ_in_what_they_call_a_counter() {
        let mut all = Exposition::new(&Settings::default());
        all.put(&NETWORK_RX_BYTES, &[("device", "eth0")], 5_u64);
        all.put(&GPU_ENERGY, &[], 7_u64);
        all.put(&LOAD_1, &[], 0.5);
        let (open, text) = (all.open_metrics(), all.text());
        assert!(open.contains("# TYPE node_network_receive_bytes counter\n# UNIT node_network_receive_bytes bytes\nnode_network_receive_bytes_total{device=\"eth0\"} 5\n"), "{open}");
        assert!(text.contains("# TYPE node_network_receive_bytes_total counter\nnode_network_receive_bytes_total{device=\"eth0\"} 5\n"), "{text}");
        assert!(open.contains("# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION unknown\n"));
        assert!(text.contains("# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n"));
        assert!(open.contains("node_load1 0.5\n") && open.ends_with("# EOF\n"));
    }

    #[test]
    fn hostile_names_cannot_leave_their_label() {
        let mut all = Exposition::new(&Settings::default());
        let name = "a\"} 1\nevil 2\\\u{1b}[31m";
        all.put(&JOB_INFO, &[("jobid", "1"), ("name", name)], 1_u64);
        let wanted = "muster_job_info{jobid=\"1\",name=\"a\\\"} 1\\nevil 2\\\\\u{fffd}[31m\"} 1\n";
        assert!(all.text().contains(wanted), "{}", all.text());
    }

    #[test]
    fn labels_are_read_as_they_were_before_they_were_written() {
        let value = "a\"} 1\nevil,b=\"c\\ \\n \u{e9}";
        let labels = [("jobid", "1"), ("user", ""), ("name", value), ("account", "p=\"q")];
        let mut written = String::new();
        write_labels(&mut written, &labels);
        let read = read_labels(&written);
        let read: Vec<(&str, &str)> = read.iter().map(|(k, v)| (*k, v.as_str())).collect();
        assert_eq!(read, [labels[0], labels[2], labels[3]]);
        assert!(read_labels("").is_empty());
    }

    #[test]
    fn doubles_noughts_and_what_is_beyond_the_bound_are_left_out_and_counted() {
        let mut all = Exposition::new(&Settings { series_max: 3, ..Settings::default() });
        for device in ["a", "a", "b", "c", "d"] {
            all.put(&NETWORK_RX_BYTES, &[("device", device)], 1_u64);
        }
        all.put(&LOAD_1, &[], f64::NAN);
        all.put(&LOAD_1, &[], None::<u64>);
        all.close();
        let text = all.text();
        let dropped = |family: &str| format!("{}{{family=\"{family}\"}}", EXPORT_DROPPED.name);
        assert!(
            text.contains(&format!("{} 2\n", dropped("node_network_receive_bytes_total"))),
            "{text}"
        );
        assert!(text.contains(&format!("{} 1\n", dropped("node_load1"))), "{text}");
        assert_eq!(all.series(), 6);
        assert!(text.contains("muster_export_series 6\n"), "{text}");
    }
}
