//! What sysstat noted down, as `sadf -j` prints it.
//!
//! Names and units are those of sysstat's manual pages of sadf and sar. Releases differ in what they
//! print: what is not there is not known, and what nobody asks for is passed over.

use std::path::Path;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::{Figure, Point, Values};
use crate::commands::{Question, ask};
use crate::files::{ReadError, Skipped};

/// A longer stretch is none that sysstat measured: at the first look after a start old releases
/// print what is left of a subtraction below 0.
const SECONDS_MAX: f64 = 86_400.0;

/// Sectors of `bread/s` and `bwrtn/s`.
const BLOCK_BYTES: f64 = 512.0;

/// Days of which sysstat is asked at most: it keeps a week, or four.
pub const DAYS_MAX: u32 = 31;

/// Interfaces that carry what another carries too, or nothing that leaves the machine.
const NOT_COUNTED: [&str; 16] = [
    "lo", "veth", "docker", "br-", "virbr", "vnet", "tap", "tun", "bond", "team", "dummy", "cni",
    "flannel", "cali", "ifb", "wg",
];

/// What sysstat of the machine below this root noted down on a day: 0 is today, 1 yesterday.
///
/// # Errors
/// sysstat is not installed, has nothing of that day, or what it says is no `sadf -j`.
pub fn day(root: &Path, days_ago: u32, skipped: &mut Skipped) -> Result<Vec<Point>, ReadError> {
    let day = format!("-{days_ago}");
    let asked = |queue: &[&str]| {
        let name = if days_ago == 0 { "sadf.json".to_owned() } else { format!("sadf{day}.json") };
        let which: &[&str] = if days_ago == 0 { &[] } else { &[&day] };
        let arguments = [&["-j"], which, &["--", "-u", "-r", "-b", "-d", "-n", "DEV"], queue];
        let question =
            Question { name: &name, program: "sadf", arguments: &arguments.concat(), input: "" };
        ask(root, &question)
    };
    // Releases before 12.3 know nothing of pressure, and refuse the word.
    let text = match asked(&["-q", "ALL"]) {
        Err(ReadError::Failed(..)) => asked(&["-q"])?,
        other => other?,
    };
    parse(&text, skipped)
}

/// What `sadf -j` printed, in the order of time.
///
/// # Errors
/// It is no such text.
pub fn parse(text: &str, skipped: &mut Skipped) -> Result<Vec<Point>, ReadError> {
    let garbled = || ReadError::Garbled("sadf -j".to_owned());
    let whole: Value = serde_json::from_str(text).map_err(|_| garbled())?;
    let hosts = whole.pointer("/sysstat/hosts").and_then(Value::as_array).ok_or_else(garbled)?;
    let mut points = Vec::new();
    for host in hosts {
        for entry in list(host, "/statistics") {
            match point(entry) {
                // A look at nothing that is asked for, or the first after a start.
                Some(point) if point.ms == 0 || point.values.is_empty() => {}
                Some(point) => points.push(point),
                None => skipped.note(&entry.get("timestamp").unwrap_or(entry).to_string()),
            }
        }
    }
    points.sort_by_key(|point| point.end_ms);
    Ok(points)
}

/// One entry; none where it does not say when that was.
fn point(entry: &Value) -> Option<Point> {
    let stamp = entry.get("timestamp")?;
    let text = |name: &str| stamp.get(name).and_then(Value::as_str);
    // Other times are some machine's local ones, of which only the machine knows what they mean.
    let utc = stamp.get("utc").and_then(Value::as_u64) == Some(1) || text("tz") == Some("UTC");
    let at = format!("{}T{}", text("date")?, text("time")?);
    let at: DateTime = at.parse().ok().filter(|_| utc)?;
    let end_ms = TimeZone::UTC.to_timestamp(at).ok()?.as_millisecond();
    let seconds = number(stamp, "/interval").filter(|seconds| *seconds <= SECONDS_MAX);
    Some(Point { end_ms, ms: (seconds.unwrap_or(0.0) * 1e3) as u64, values: values(entry) })
}

fn values(entry: &Value) -> Values {
    let mut values = Values::default();
    let share = |path: &str| Some((number(entry, path)? / 100.0).min(1.0));
    values.set(Figure::Cpu, busy(entry));
    values.set(Figure::CpuWaiting, share("/psi/psi-cpu/some_avg"));
    values.set(Figure::MemoryWaiting, share("/psi/psi-mem/some_avg"));
    values.set(Figure::IoWaiting, share("/psi/psi-io/some_avg"));
    values.set(Figure::Load, number(entry, "/queue/ldavg-1"));
    values.set(Figure::MemoryFree, number(entry, "/memory/avail").map(|kib| kib * 1024.0));
    let blocks = |path: &str| number(entry, path).map(|blocks| blocks * BLOCK_BYTES);
    values.set(Figure::Read, blocks("/io/io-reads/bread"));
    values.set(Figure::Written, blocks("/io/io-writes/bwrtn"));
    values.set(Figure::Reads, number(entry, "/io/io-reads/rtps"));
    let disks = list(entry, "/disk").filter_map(|disk| number(disk, "/util-percent"));
    let busiest = disks.reduce(f64::max).map(|percent| (percent / 100.0).min(1.0));
    values.set(Figure::DiskBusy, busiest);
    values.set(Figure::Received, carried(entry, "/rxkB"));
    values.set(Figure::Sent, carried(entry, "/txkB"));
    values
}

/// The share of all CPUs that worked; waiting for I/O is no work.
fn busy(entry: &Value) -> Option<f64> {
    // `-u ALL` is told under another name by some releases.
    let rows = list(entry, "/cpu-load").chain(list(entry, "/cpu-load-all"));
    let all = rows.into_iter().find(|row| row.get("cpu").and_then(Value::as_str) == Some("all"))?;
    let rest = number(all, "/idle")? + number(all, "/iowait")?;
    Some((1.0 - rest / 100.0).clamp(0.0, 1.0))
}

/// Bytes a second over the interfaces that count.
fn carried(entry: &Value, path: &str) -> Option<f64> {
    let counted = list(entry, "/network/net-dev").filter(|row| {
        let name = row.get("iface").and_then(Value::as_str).unwrap_or_default();
        // `eth0.7` is a part of `eth0`.
        !name.contains('.') && !NOT_COUNTED.iter().any(|prefix| name.starts_with(prefix))
    });
    counted.filter_map(|row| Some(number(row, path)? * 1024.0)).reduce(|sum, more| sum + more)
}

fn list<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

/// A number that sysstat can mean: none of its figures is below 0.
fn number(value: &Value, path: &str) -> Option<f64> {
    value.pointer(path)?.as_f64().filter(|number| *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::{day, parse};
    use crate::files::{ReadError, Skipped};
    use crate::past::{Figure, Point};
    use crate::test_tree::tree;

    const CAPTURED: &str = include_str!("../../tests/sadf/12.6.1.json");

    fn read(text: &str) -> (Vec<Point>, Skipped) {
        let mut skipped = Skipped::default();
        let points = parse(text, &mut skipped).expect("sadf -j");
        (points, skipped)
    }

    #[test]
    fn what_sysstat_12_6_prints_is_read_in_base_units() {
        let (points, skipped) = read(CAPTURED);
        assert_eq!((points.len(), skipped), (2, Skipped::default()));
        let point = points[1];
        // 2026-12-03 13:41:08 UTC, by `date -u -d ... +%s`.
        assert_eq!((point.end_ms, point.ms), (1_796_305_268_000, 1_000));
        let is = |figure, wanted: f64| {
            let found = point.values.get(figure).expect("a value");
            assert!((found - wanted).abs() < 1e-9 * wanted.max(1.0), "{figure:?} {found} {wanted}");
        };
        is(Figure::Cpu, 1.0);
        is(Figure::CpuWaiting, 0.0636);
        is(Figure::IoWaiting, 0.0022);
        is(Figure::MemoryWaiting, 0.0);
        is(Figure::Load, 2.66);
        is(Figure::MemoryFree, 23_291_116.0 * 1024.0);
        // The one disk says the same in its own unit: 16 and 4,348 kB.
        is(Figure::Read, 16.0 * 1024.0);
        is(Figure::Written, 4_348.0 * 1024.0);
        is(Figure::Reads, 4.0);
        is(Figure::DiskBusy, 0.004);
        // Of lo, veth12, docker0 and eth0 the last one counts.
        is(Figure::Received, 0.0);
        assert_eq!(point.values.get(Figure::Gpu), None);
    }

    #[test]
    fn what_a_release_does_not_print_is_not_known_and_never_zero() {
        let (points, skipped) = read(
            r#"{"sysstat": {"sysdata-version": 2.13, "hosts": [{"nodename": "old", "statistics": [
            {"timestamp": {"date": "2015-07-16", "time": "07:00:01", "utc": 1,
                           "interval": 184467440737095516}, "queue": {"ldavg-1": 9.0}},
            {"timestamp": {"date": "2015-07-16", "time": "07:10:01", "utc": 1, "interval": 600},
             "cpu-load-all": [{"cpu": "0", "idle": 1.0, "iowait": 1.0},
                              {"cpu": "all", "usr": 20.0, "iowait": 15.0, "idle": 60.0}],
             "memory": {"memfree": 5, "memused": 7}, "queue": {"ldavg-1": "x"},
             "network": {"net-dev": [{"iface": "eth0", "rxkB": 2.0, "txkB": -1.0},
                                     {"iface": "eth0.7", "rxkB": 2.0}, {"rxkB": 1.5}]}},
            {"timestamp": {"date": "2015-07-16", "time": "07:20:01", "utc": 1, "interval": 600},
             "hugepages": {"hugfree": 0}}
            ], "restarts": [{"boot": {"date": "2015-07-16"}}]}]}}"#,
        );
        assert_eq!((points.len(), skipped.count), (1, 0));
        let values = points[0].values;
        assert_eq!(points[0].ms, 600_000);
        assert_eq!(values.get(Figure::Cpu), Some(0.25));
        assert_eq!(values.get(Figure::Received), Some(3.5 * 1024.0));
        let known = Figure::ALL.into_iter().filter(|figure| values.get(*figure).is_some());
        assert_eq!(known.collect::<Vec<_>>(), [Figure::Cpu, Figure::Received]);
    }

    #[test]
    fn times_that_mean_nothing_here_are_left_out_and_counted() {
        let entry = |stamp: &str| {
            let entry = format!(r#"{{"timestamp": {stamp}, "queue": {{"ldavg-1": 1}}}}"#);
            read(&format!(r#"{{"sysstat": {{"hosts": [{{"statistics": [{entry}]}}]}}}}"#))
        };
        for local in [
            r#"{"date": "2026-12-03", "time": "13:41:07", "utc": 0, "interval": 1}"#,
            r#"{"date": "2026-12-03", "time": "13:41:07", "tz": "KST", "interval": 1}"#,
            r#"{"date": "2026-12-33", "time": "13:41:07", "utc": 1, "interval": 1}"#,
            "7",
        ] {
            let (points, skipped) = entry(local);
            assert_eq!((points.len(), skipped.count), (0, 1), "{local}");
        }
        let newer = r#"{"date": "2026-12-03", "time": "13:41:07", "tz": "UTC", "interval": 1}"#;
        assert_eq!(entry(newer).0.len(), 1);
    }

    #[test]
    fn what_is_no_sadf_is_refused() {
        for text in ["", "[]", "{\"sysstat\": 1}", &CAPTURED[..CAPTURED.len() / 2]] {
            let refused = parse(text, &mut Skipped::default());
            assert!(matches!(refused, Err(ReadError::Garbled(_))), "{text:.20}");
        }
    }

    #[test]
    fn a_captured_machine_has_its_days_as_files() {
        let root = tree("");
        let dir = root.path().join("commands");
        std::fs::create_dir_all(&dir).expect("directory");
        std::fs::write(dir.join("sadf-1.json"), CAPTURED).expect("file");
        let mut skipped = Skipped::default();
        assert_eq!(day(root.path(), 1, &mut skipped).expect("a day").len(), 2);
        assert!(matches!(day(root.path(), 0, &mut skipped), Err(ReadError::Absent(_))));
    }
}
