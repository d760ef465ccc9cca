//! Filesystems that are saturated: their licences are not given out until they are not.
//!
//! A figure has to be above its threshold for a while, and all below for a while after that. What
//! was not measured in this very look (a source that failed or is late, a mount that is gone, a
//! daemon that has just begun) holds nobody.

use super::Watch;
use crate::app::App;
use crate::identity;
use muster_api::StorageView;
use muster_config::FilesystemSection;
use muster_control::command::Command;
use muster_model::{LicenceHold, State, Timestamp};
use muster_node_metrics::collector::{Outcome, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often filesystems are looked at.
const PERIOD: Duration = Duration::from_secs(10);

/// Looks that are further apart have a gap between them.
const GAP_MAX: f64 = 60.0;

/// What the sources are called that tell of a kind.
const SOURCES: [(&str, &str); 5] = [
    ("disk", "disks"),
    ("lustre", "lustre"),
    ("gpfs", "gpfs"),
    ("beegfs", "beegfs"),
    ("nfs", "nfs"),
];

/// Looks at the filesystems that the configuration names, until the daemon ends.
pub(crate) async fn keep(app: Arc<App>) {
    let mut looks = Looks::default();
    loop {
        tokio::time::sleep(PERIOD).await;
        let config = app.config.load_full();
        let state = app.handle.state();
        let held = state.licences.values().any(|licence| licence.hold.is_some());
        if config.filesystem.is_empty() && !held {
            looks = Looks::default();
            continue;
        }
        let asked = Arc::clone(&app);
        let taken = tokio::task::spawn_blocking(move || {
            let measured = looks.measure(&asked.watch);
            let at = (asked.watch.seconds(), App::now());
            let orders = looks.orders(&state, &config.filesystem, &measured, at);
            (looks, orders)
        });
        let Ok((back, orders)) = taken.await else {
            tracing::error!("looking at filesystems failed");
            looks = Looks::default();
            continue;
        };
        looks = back;
        for order in orders {
            let daemon = identity::daemon();
            if let Err(error) = crate::http::jobs::command(&app.handle, &daemon, order).await {
                tracing::warn!(%error, "a licence could not be held back, or not let go");
            }
        }
    }
}

/// What is remembered between two looks.
#[derive(Default)]
struct Looks {
    before: Option<(Instant, Snapshot)>,
    /// By licence.
    courses: BTreeMap<String, Course>,
}

/// How a filesystem has fared.
#[derive(Clone, Copy, Debug, Default)]
struct Course {
    /// When it was looked at last.
    last: Option<f64>,
    /// Since when some figure has been above its threshold at every look.
    above: Option<f64>,
    /// Since when all have been well below.
    below: Option<f64>,
}

impl Looks {
    /// What storage did since the last look, of sources that answered both times.
    fn measure(&mut self, watch: &Watch) -> Vec<StorageView> {
        let now = watch.snapshot();
        let view = self.before.as_ref().map(|(at, before)| {
            let fresh = fresh(before).intersection(&fresh(&now)).copied().collect();
            measured(&super::machine::of(Some((at.elapsed(), before)), &now).storage, &fresh)
        });
        self.before = Some((Instant::now(), now));
        view.unwrap_or_default()
    }

    /// Which licences are to be held back or let go.
    fn orders(
        &mut self,
        state: &State,
        sections: &[FilesystemSection],
        measured: &[StorageView],
        (at, now): (f64, Timestamp),
    ) -> Vec<Command> {
        self.courses.retain(|licence, _| sections.iter().any(|one| one.licence == *licence));
        let mut orders = Vec::new();
        for (name, licence) in &state.licences {
            let section = sections.iter().find(|one| one.licence == *name);
            let wanted = section.and_then(|section| {
                let found = measured.iter().find(|one| one.name == section.name);
                let course = self.courses.entry(name.clone()).or_default();
                course.hold(section, found, licence.hold.as_ref(), (at, now))
            });
            if wanted != licence.hold {
                if let Some(hold) = &wanted {
                    tracing::warn!(
                        licence = name,
                        filesystem = hold.filesystem,
                        figure = hold.figure,
                        "jobs that ask for this licence are held back"
                    );
                } else {
                    tracing::info!(licence = name, "jobs that ask for this licence are let go");
                }
                orders.push(Command::HoldLicence { name: name.clone(), hold: wanted });
            }
        }
        orders
    }
}

/// The sources that were read for this very snapshot.
fn fresh(snapshot: &Snapshot) -> BTreeSet<&'static str> {
    let read = |report: &&muster_node_metrics::collector::Report| report.outcome == Outcome::Read;
    snapshot.reports.iter().filter(read).map(|report| report.source).collect()
}

/// What was measured of storage: of fresh sources only.
fn measured(storage: &[StorageView], fresh: &BTreeSet<&'static str>) -> Vec<StorageView> {
    let is_fresh = |one: &&StorageView| {
        SOURCES.iter().any(|(kind, source)| one.kind == *kind && fresh.contains(source))
    };
    storage.iter().filter(is_fresh).cloned().collect()
}

impl Course {
    /// What holds the licence back from here on.
    fn hold(
        &mut self,
        section: &FilesystemSection,
        found: Option<&StorageView>,
        held: Option<&LicenceHold>,
        (at, now): (f64, Timestamp),
    ) -> Option<LicenceHold> {
        let figures: Vec<Figure> = found.map(|one| figures(section, one)).unwrap_or_default();
        let is_gap = self.last.is_none_or(|last| at - last > GAP_MAX);
        self.last = Some(at);
        if figures.is_empty() || is_gap {
            *self = Self { last: self.last, ..Self::default() };
            // Nothing is known yet, or not any more.
            return None;
        }
        let worst = figures.iter().max_by(|a, b| a.share().total_cmp(&b.share()))?;
        let is_above = worst.share() > 1.0;
        let is_below = worst.share() < f64::from(section.release_below) / 100.0;
        self.above = is_above.then(|| self.above.unwrap_or(at));
        self.below = is_below.then(|| self.below.unwrap_or(at));
        let for_long = |since: Option<f64>, long: muster_config::Duration| {
            since.is_some_and(|since| at - since >= long.0 as f64)
        };
        match held {
            Some(_) if for_long(self.below, section.release_after) => None,
            Some(hold) if hold.filesystem == section.name => Some(hold.clone()),
            _ if for_long(self.above, section.hold_after) => {
                let ms = ((at - self.above.unwrap_or(at)) * 1e3) as i64;
                Some(LicenceHold {
                    filesystem: section.name.clone(),
                    figure: worst.text(),
                    since: Timestamp::from_millis(now.millis().saturating_sub(ms)),
                })
            }
            _ => None,
        }
    }
}

/// A figure with its threshold.
struct Figure {
    value: f64,
    threshold: f64,
    /// As words, with the value and the threshold in their places.
    words: fn(&str, &str) -> String,
    shown: fn(f64) -> String,
}

impl Figure {
    /// How much of its threshold it is.
    fn share(&self) -> f64 {
        if self.threshold > 0.0 { self.value / self.threshold } else { f64::INFINITY }
    }

    fn text(&self) -> String {
        (self.words)(&(self.shown)(self.value), &(self.shown)(self.threshold))
    }
}

const MIB: f64 = 1_048_576.0;

/// The figures that are known and have a threshold.
fn figures(section: &FilesystemSection, now: &StorageView) -> Vec<Figure> {
    let whole = |value: f64| format!("{value:.0}");
    let throughput = match (now.read, now.written) {
        (None, None) => None,
        (read, written) => Some(read.unwrap_or(0.0) + written.unwrap_or(0.0)),
    };
    let of = |value: Option<f64>, threshold: Option<f64>, words, shown| {
        Some(Figure { value: value?, threshold: threshold?, words, shown })
    };
    let number = |threshold: Option<u32>| threshold.map(f64::from);
    [
        of(
            now.busy.map(|share| share * 100.0),
            number(section.busy),
            |value, most| format!("{value} % busy, more than {most} %"),
            whole,
        ),
        of(
            now.wait_ms,
            number(section.wait),
            |value, most| format!("slow: a read takes {value} ms, more than {most} ms"),
            whole,
        ),
        of(
            now.metadata,
            number(section.metadata),
            |value, most| format!("at {value} metadata operations a second, more than {most}"),
            whole,
        ),
        of(
            throughput,
            section.throughput.map(|size| size.0 as f64 * MIB),
            |value, most| format!("at {value} MiB a second, more than {most} MiB"),
            |value| format!("{:.0}", value / MIB),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::{Looks, fresh, measured};
    use muster_api::StorageView;
    use muster_config::{Duration, FilesystemSection, Size};
    use muster_control::command::Command;
    use muster_model::{Licence, LicenceHold, State, Timestamp};
    use muster_node_metrics::collector::{Collector, Options, Outcome};
    use std::path::PathBuf;

    const NOW: Timestamp = Timestamp::from_secs(10_000);

    fn section() -> FilesystemSection {
        FilesystemSection {
            name: "work".to_owned(),
            licence: "work_io".to_owned(),
            metadata: Some(10_000),
            hold_after: Duration(60),
            release_after: Duration(120),
            ..FilesystemSection::default()
        }
    }

    fn work(metadata: f64) -> StorageView {
        StorageView {
            kind: "lustre".to_owned(),
            name: "work".to_owned(),
            metadata: Some(metadata),
            ..StorageView::default()
        }
    }

    fn state() -> State {
        let mut state = State::default();
        for name in ["work_io", "sim"] {
            let licence = Licence { name: name.to_owned(), total: 9, hold: None };
            state.licences.insert(name.to_owned(), licence);
        }
        state
    }

    /// Looks every ten seconds; what is ordered becomes the state. The instants of holds and of
    /// releases.
    fn course(
        state: &mut State,
        looks: &mut Looks,
        (from, to): (u32, u32),
        at: impl Fn(u32) -> Option<f64>,
    ) -> Vec<(u32, Option<LicenceHold>)> {
        let mut found = Vec::new();
        for second in (from..=to).step_by(10) {
            let seen: Vec<StorageView> = at(second).map(work).into_iter().collect();
            let now = (f64::from(second), NOW);
            for order in looks.orders(state, &[section()], &seen, now) {
                let Command::HoldLicence { name, hold } = order else { panic!("{order:?}") };
                assert_eq!(name, "work_io");
                state.licences.get_mut(&name).expect("a licence").hold.clone_from(&hold);
                found.push((second, hold));
            }
        }
        found
    }

    #[test]
    fn it_is_held_after_a_while_above_and_let_go_after_a_while_well_below() {
        let (mut state, mut looks) = (state(), Looks::default());
        let hold = LicenceHold {
            filesystem: "work".to_owned(),
            figure: "at 12000 metadata operations a second, more than 10000".to_owned(),
            since: Timestamp::from_secs(9_940),
        };
        let held = course(&mut state, &mut looks, (100, 400), |_| Some(12_000.0));
        assert_eq!(held, [(170, Some(hold))]);
        // Between the two it stays as it is, however long.
        assert_eq!(course(&mut state, &mut looks, (410, 2_000), |_| Some(8_500.0)), []);
        // A moment below is not enough.
        let moment = |at| Some(if at == 2_100 { 9_000.0 } else { 7_000.0 });
        assert_eq!(course(&mut state, &mut looks, (2_010, 2_200), moment), []);
        let gone = course(&mut state, &mut looks, (2_210, 2_300), |_| Some(7_000.0));
        assert_eq!(gone, [(2_230, None)]);
    }

    #[test]
    fn a_peak_holds_nobody() {
        let (mut state, mut looks) = (state(), Looks::default());
        let peaks = |at: u32| Some(if at.is_multiple_of(50) { 100.0 } else { 90_000.0 });
        assert_eq!(course(&mut state, &mut looks, (100, 3_000), peaks), []);
    }

    #[test]
    fn what_is_not_measured_holds_nobody() {
        let (mut state, mut looks) = (state(), Looks::default());
        let held = course(&mut state, &mut looks, (100, 200), |_| Some(12_000.0));
        assert_eq!(held.len(), 1);
        // The source fails: those who wait are let go, and it begins anew.
        let fails = |at: u32| (at != 210).then_some(12_000.0);
        let found = course(&mut state, &mut looks, (210, 300), fails);
        let (at, holds): (Vec<u32>, Vec<bool>) =
            found.iter().map(|(at, hold)| (*at, hold.is_some())).unzip();
        assert_eq!((at, holds), (vec![210, 280], vec![false, true]));
        // The daemon began anew.
        let mut looks = Looks::default();
        let gone = course(&mut state, &mut looks, (400, 410), |_| Some(12_000.0));
        assert_eq!(gone, [(400, None)]);
        // It was away for a while.
        let held = course(&mut state, &mut looks, (420, 480), |_| Some(12_000.0));
        assert_eq!(held.len(), 1);
        assert_eq!(course(&mut state, &mut looks, (900, 900), |_| Some(12_000.0)), [(900, None)]);
    }

    #[test]
    fn a_section_that_is_gone_holds_nobody() {
        let (mut state, mut looks) = (state(), Looks::default());
        course(&mut state, &mut looks, (100, 200), |_| Some(12_000.0));
        let orders = looks.orders(&state, &[], &[work(12_000.0)], (210.0, NOW));
        let gone = Command::HoldLicence { name: "work_io".to_owned(), hold: None };
        assert_eq!(orders, [gone]);
    }

    #[test]
    fn each_figure_says_what_it_is() {
        let section = FilesystemSection {
            busy: Some(90),
            wait: Some(50),
            throughput: Some(Size(4_096)),
            ..section()
        };
        let now = StorageView {
            busy: Some(0.934),
            wait_ms: Some(120.4),
            read: Some(3.0 * 1_073_741_824.0),
            written: Some(2.0 * 1_073_741_824.0),
            ..work(10_001.0)
        };
        let texts: Vec<String> =
            super::figures(&section, &now).iter().map(super::Figure::text).collect();
        assert_eq!(
            texts,
            [
                "93 % busy, more than 90 %",
                "slow: a read takes 120 ms, more than 50 ms",
                "at 10001 metadata operations a second, more than 10000",
                "at 5120 MiB a second, more than 4096 MiB",
            ]
        );
        // What has no threshold, or is not known, counts for nothing.
        assert_eq!(super::figures(&section, &StorageView::default()).len(), 0);
    }

    #[test]
    fn a_source_that_is_late_is_not_measured() {
        let root =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../exporter/tests/captured/gpu-node");
        let mut snapshot = Collector::new(&Options { root, ..Options::default() }).collect();
        let storage = super::super::machine::of(None, &snapshot).storage;
        let names = |snapshot: &_| -> Vec<String> {
            measured(&storage, &fresh(snapshot)).into_iter().map(|one| one.kind).collect()
        };
        assert!(
            ["disk", "lustre", "gpfs", "nfs"]
                .iter()
                .all(|kind| { names(&snapshot).iter().any(|name| name == kind) })
        );
        let report = snapshot.reports.iter_mut().find(|report| report.source == "lustre");
        report.expect("a report").outcome = Outcome::Late;
        assert!(!names(&snapshot).contains(&"lustre".to_owned()));
        assert!(names(&snapshot).contains(&"nfs".to_owned()));
    }
}
