//! What this machine and nodes did in the past: of the machine, before muster looked at it, what
//! sysstat noted down.

use super::Watch;
use super::history::MACHINE;
use crate::app::App;
use muster_api::{LineView, MachineSeries, MachineSeriesQuery};
use muster_model::{EngineName, Node};
use muster_node_metrics::files::{ReadError, Skipped};
use muster_node_metrics::past::sadf::{self, DAYS_MAX};
use muster_node_metrics::past::{Layout, Point, lines, stretches};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const DAY_MS: i64 = 86_400_000;

/// What sysstat said of a day is good for so long: it looks every ten minutes, or every one.
const AGE_MAX: Duration = Duration::from_mins(1);

/// Days that are left when so much time has gone are not asked for.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Looks are a minute apart.
const FINEST_MS: u64 = 60_000;

/// The most stretches that are told at once, and how many where nobody says.
const POINTS: (u32, u32) = (1_000, 240);

/// A day as sysstat told it, and what it could not.
type Day = Result<Vec<Point>, String>;

/// What sysstat said, by how many days ago.
#[derive(Default)]
pub(super) struct Sysstat(Mutex<BTreeMap<u32, (Instant, Day)>>);

impl Sysstat {
    /// What it noted down from an instant on, in the order of time.
    fn since(&self, root: &Path, from_ms: i64, notes: &mut Vec<String>) -> Vec<Point> {
        let mut days = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Its days are those of the clock on the wall, which may be a day away from UTC's.
        let ago = (App::now().millis().saturating_sub(from_ms) / DAY_MS).saturating_add(1);
        let last = u32::try_from(ago.max(0)).unwrap_or(DAYS_MAX).min(DAYS_MAX);
        let (begun, mut points) = (Instant::now(), Vec::new());
        for day in 0..=last {
            if begun.elapsed() > TIME_MAX {
                notes.push(format!("sysstat takes long: what is {day} days old is left out"));
                break;
            }
            let told = match days.get(&day) {
                Some((at, told)) if at.elapsed() < AGE_MAX => told,
                _ => &days.entry(day).insert_entry((Instant::now(), read(root, day))).into_mut().1,
            };
            match told {
                Ok(more) => points.extend(more),
                Err(why) if !notes.contains(why) => notes.push(why.clone()),
                Err(_) => {}
            }
        }
        points.sort_by_key(|point: &Point| point.end_ms);
        // A day that ended since it was asked for is there twice.
        points.dedup_by_key(|point| point.end_ms);
        points
    }
}

fn read(root: &Path, day: u32) -> Day {
    match sadf::day(root, day, &mut Skipped::default()) {
        Ok(points) => Ok(points),
        // It is not installed, or keeps nothing of that day.
        Err(ReadError::Absent(_) | ReadError::Failed(..)) => Ok(Vec::new()),
        Err(why) => Err(format!("sysstat: {why}")),
    }
}

impl Watch {
    /// What the machine did over time. Takes a while; for threads that may wait.
    pub(crate) fn machine_series(&self, query: &MachineSeriesQuery) -> MachineSeries {
        let (layout, from_ms) = asked(query);
        let mut notes = Vec::new();
        let own = self.history.points(MACHINE, layout);
        let own_from_ms = own.first().map(Point::begin_ms);
        let mut points = Vec::new();
        // What muster saw itself needs nobody else.
        if own_from_ms.is_none_or(|own| own > from_ms) {
            points = self.sysstat.since(Path::new("/"), from_ms, &mut notes);
            points.retain(|point| own_from_ms.is_none_or(|own| point.end_ms <= own));
        }
        points.extend(own);
        MachineSeries { own_from_ms, notes, ..view(&points, layout) }
    }

    /// What jobs held of a node over time, and what it did where it is this machine.
    pub(crate) fn node_series(&self, node: &Node, query: &MachineSeriesQuery) -> MachineSeries {
        let (layout, _) = asked(query);
        let held = self.history.points(&node.name, layout);
        let mut series = view(&held, layout);
        series.own_from_ms = held.first().map(Point::begin_ms);
        if node.engine == EngineName::local() && !node.practice {
            series.lines.extend(self.machine_series(query).lines);
        }
        series
    }
}

/// The stretches that are asked for, and from when on.
fn asked(query: &MachineSeriesQuery) -> (Layout, i64) {
    let to_ms = query.to_ms.unwrap_or_else(|| App::now().millis());
    let from_ms = query.from_ms.unwrap_or_else(|| to_ms.saturating_sub(DAY_MS));
    let most = query.points.unwrap_or(POINTS.1).clamp(1, POINTS.0);
    let layout = Layout::over(from_ms, to_ms, most as usize).no_finer_than(FINEST_MS);
    (layout, layout.from_ms)
}

/// Points as lines.
fn view(points: &[Point], layout: Layout) -> MachineSeries {
    let lines = lines(&stretches(points, layout)).into_iter().map(|(figure, values)| LineView {
        name: figure.name().to_owned(),
        unit: figure.unit().to_owned(),
        values,
    });
    MachineSeries {
        from_ms: layout.from_ms,
        step_ms: layout.step_ms,
        lines: lines.collect(),
        ..MachineSeries::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Layout, MachineSeriesQuery, Sysstat, view};
    use crate::app::App;
    use crate::watch::Watch;
    use crate::watch::history::{MACHINE, Stretch};
    use muster_model::{EngineName, Node};
    use muster_node_metrics::past::{Figure, Values};

    #[test]
    fn a_node_of_another_engine_has_what_was_held_and_this_machines_what_it_did_too() {
        let dir = tempfile::tempdir().unwrap();
        let watch = Watch::new("i".to_owned(), dir.path());
        let (mut held, mut did) = (Values::default(), Values::default());
        held.set(Figure::GpusHeld, Some(4.0));
        did.set(Figure::Cpu, Some(0.5));
        let end_s = App::now().millis() / 60_000 * 60;
        let both = [(MACHINE.to_owned(), did), ("node1".to_owned(), held)];
        watch.history.note(Stretch { end_s, seconds: 60 }, &both).unwrap();
        let query = MachineSeriesQuery {
            from_ms: Some((end_s - 60) * 1_000),
            to_ms: Some(end_s * 1_000),
            points: None,
        };
        let names = |engine: EngineName| {
            let node = Node { name: "node1".to_owned(), engine, ..Node::default() };
            let series = watch.node_series(&node, &query);
            assert_eq!(series.own_from_ms, query.from_ms);
            series.lines.into_iter().map(|line| (line.name, line.values)).collect::<Vec<_>>()
        };
        let gpus = ("gpus_held".to_owned(), vec![Some(4.0)]);
        let of_slurm = names(EngineName("slurm".to_owned()));
        assert_eq!(of_slurm, std::slice::from_ref(&gpus));
        assert_eq!(names(EngineName::local()), [gpus, ("cpu".to_owned(), vec![Some(0.5)])]);
        // It begins where it is asked from: sysstat has nothing to add.
        let series = watch.machine_series(&query);
        assert_eq!((series.own_from_ms, series.step_ms), (query.from_ms, 60_000));
        assert_eq!(series.lines.len(), 1);
    }

    fn captured(dir: &std::path::Path, day: u32, stamps: &[i64]) {
        let entry = |at: &i64| {
            let at = jiff::Timestamp::from_millisecond(*at).unwrap();
            let at = jiff::tz::TimeZone::UTC.to_datetime(at);
            format!(
                r#"{{"timestamp": {{"date": "{}", "time": "{}", "utc": 1, "interval": 600}},
                    "queue": {{"ldavg-1": 2.5}}}}"#,
                at.date(),
                at.time().strftime("%H:%M:%S"),
            )
        };
        let entries = stamps.iter().map(entry).collect::<Vec<_>>().join(",");
        let text = format!(r#"{{"sysstat": {{"hosts": [{{"statistics": [{entries}]}}]}}}}"#);
        let name = if day == 0 { "sadf.json".to_owned() } else { format!("sadf-{day}.json") };
        std::fs::create_dir_all(dir.join("commands")).unwrap();
        std::fs::write(dir.join("commands").join(name), text).unwrap();
    }

    #[test]
    fn days_of_sysstat_are_one_past_and_a_day_without_is_a_gap() {
        let root = tempfile::tempdir().unwrap();
        let second = App::now().millis() / 1_000 * 1_000;
        let (hour, day) = (3_600_000, 86_400_000);
        captured(root.path(), 0, &[second, second - hour]);
        // The same instant twice, as after midnight; of the day before yesterday there is nothing.
        captured(root.path(), 1, &[second - hour, second - day]);
        captured(root.path(), 3, &[second - 3 * day]);
        let (sysstat, mut notes) = (Sysstat::default(), Vec::new());
        let points = sysstat.since(root.path(), second - 3 * day, &mut notes);
        let ends: Vec<i64> = points.iter().map(|point| point.end_ms).collect();
        assert_eq!(ends, [second - 3 * day, second - day, second - hour, second]);
        assert!(notes.is_empty(), "{notes:?}");
        let series = view(&points, Layout { from_ms: second - hour, step_ms: 600_000, steps: 6 });
        assert_eq!(series.lines.len(), 1);
        let known: Vec<bool> = series.lines[0].values.iter().map(Option::is_some).collect();
        assert_eq!(known, [false, false, false, false, false, true]);
    }

    #[test]
    fn what_is_no_answer_of_sysstat_is_told_once() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("commands")).unwrap();
        for name in ["sadf.json", "sadf-1.json"] {
            std::fs::write(root.path().join("commands").join(name), "no").unwrap();
        }
        let mut notes = Vec::new();
        let points = Sysstat::default().since(root.path(), App::now().millis(), &mut notes);
        assert!(points.is_empty());
        assert_eq!(notes, ["sysstat: sadf -j: cannot be understood"]);
    }
}
