use super::record::Stretch;
use super::{DAY_S, HOUR_S, History, MACHINE, TIERS, begin_of, path};
use muster_node_metrics::past::{Figure, Layout, Point, Values};
use std::path::Path;

/// Some midnight.
const BEGIN_S: i64 = 1_796_256_000;

fn values(load: f64) -> Values {
    let mut values = Values::default();
    values.set(Figure::Load, Some(load));
    values
}

fn minute(history: &History, end_s: i64, load: f64) {
    history
        .note(Stretch { end_s, seconds: 60 }, &[(MACHINE.to_owned(), values(load))])
        .expect("written");
}

fn loads(history: &History, from_s: i64, step_s: u64, steps: usize) -> Vec<(i64, f64)> {
    let layout = Layout { from_ms: from_s * 1_000, step_ms: step_s * 1_000, steps };
    let points = history.points(MACHINE, layout);
    let load = |point: &Point| point.values.get(Figure::Load).expect("a load");
    points.iter().map(|point| (point.end_ms / 1_000, load(point))).collect()
}

fn bytes(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).expect("a folder");
    files.map(|file| file.expect("a file").metadata().expect("its size").len()).sum()
}

#[test]
fn coarser_stretches_are_the_means_of_finer_ones_and_the_newest_is_fine() {
    let dir = tempfile::tempdir().unwrap();
    let history = History::new(dir.path().to_owned());
    for minute_no in 1..=73 {
        let load = if minute_no <= 60 { 2.0 } else { 4.0 };
        minute(&history, BEGIN_S + 60 * minute_no, load);
    }
    let found = loads(&history, BEGIN_S, 600, 8);
    let tens: Vec<i64> = (1..=7).map(|ten| BEGIN_S + 600 * ten).collect();
    assert_eq!(found.iter().map(|one| one.0).take(7).collect::<Vec<_>>(), tens);
    assert_eq!(
        found[..7].iter().map(|one| one.1).collect::<Vec<_>>(),
        [2., 2., 2., 2., 2., 2., 4.]
    );
    // Three minutes of the ten that are not over yet.
    assert_eq!(found.len(), 10);
    let hours = loads(&history, BEGIN_S, 3_600, 2);
    assert_eq!(hours[0], (BEGIN_S + HOUR_S, 2.0));
    assert_eq!(hours.len(), 1 + 1 + 3);
    let fine = loads(&history, BEGIN_S + 58 * 60, 60, 4);
    assert_eq!(fine.iter().map(|one| one.1).collect::<Vec<_>>(), [2.0, 2.0, 4.0, 4.0, 4.0]);
}

#[test]
fn a_restart_goes_on_and_makes_what_was_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let history = || History::new(dir.path().to_owned());
    let first = history();
    (1..=9).for_each(|at| minute(&first, BEGIN_S + 60 * at, 1.0));
    // It was away over two ends of ten minutes; what it saw of the first is made.
    let next = history();
    minute(&next, BEGIN_S + 60 * 25, 5.0);
    let found = loads(&next, BEGIN_S, 600, 3);
    assert_eq!(found, [(BEGIN_S + 600, 1.0), (BEGIN_S + 1_500, 5.0)]);
    // The same minute again, and one before it, are told already.
    minute(&next, BEGIN_S + 60 * 25, 9.0);
    minute(&next, BEGIN_S + 60 * 24, 9.0);
    assert_eq!(loads(&next, BEGIN_S, 600, 3), found);
}

#[test]
fn what_a_crash_cut_is_left_out_and_what_comes_after_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let file = path(dir.path(), 0, begin_of(0, BEGIN_S + 60));
    minute(&History::new(dir.path().to_owned()), BEGIN_S + 60, 1.0);
    let one = std::fs::read(&file).unwrap();
    minute(&History::new(dir.path().to_owned()), BEGIN_S + 120, 2.0);
    let two = std::fs::read(&file).unwrap();
    for cut in one.len()..two.len() {
        for rest in [&[][..], &[0; 32][..]] {
            let mut torn = two[..cut].to_vec();
            torn.extend(rest);
            std::fs::write(&file, torn).unwrap();
            let history = History::new(dir.path().to_owned());
            minute(&history, BEGIN_S + 180, 3.0);
            let found = loads(&history, BEGIN_S, 60, 4);
            assert_eq!(found, [(BEGIN_S + 60, 1.0), (BEGIN_S + 180, 3.0)], "{cut}");
        }
    }
}

#[test]
fn old_files_go_and_those_of_a_future_that_never_was() {
    let dir = tempfile::tempdir().unwrap();
    let history = History::new(dir.path().to_owned());
    minute(&history, BEGIN_S + 400 * DAY_S, 1.0);
    minute(&history, BEGIN_S, 1.0);
    minute(&history, BEGIN_S + 3 * DAY_S, 2.0);
    minute(&history, BEGIN_S + 3 * DAY_S + 600, 3.0);
    let left: Vec<(usize, i64)> =
        history.segments().iter().map(|segment| (segment.tier, segment.begin_s)).collect();
    let now_s = BEGIN_S + 3 * DAY_S + 600;
    assert!(left.iter().all(|(_, begin)| *begin <= now_s), "{left:?}");
    assert!(left.iter().any(|(tier, _)| *tier == 0) && left.iter().any(|(tier, _)| *tier == 1));
    assert!(!left.contains(&(0, begin_of(0, BEGIN_S))), "{left:?}");
    // By ten minutes it is still known.
    assert_eq!(loads(&history, BEGIN_S - 600, 600, 1), [(BEGIN_S, 1.0)]);
}

#[test]
fn where_all_together_is_too_large_the_oldest_of_the_finest_goes_first() {
    let dir = tempfile::tempdir().unwrap();
    let history = History::new(dir.path().to_owned());
    let end_s = BEGIN_S + 8 * HOUR_S;
    (1..=8 * 60).for_each(|at| minute(&history, BEGIN_S + 60 * at, 1.0));
    let before = history.segments();
    history.prune(end_s, bytes(dir.path()) - 1).unwrap();
    let after = history.segments();
    assert_eq!(after.len(), before.len() - 1);
    assert!(after.iter().all(|segment| (segment.tier, segment.begin_s) != (0, BEGIN_S)));
    // What is written to stays, however large.
    history.prune(end_s, 0).unwrap();
    assert_eq!(history.segments().len(), TIERS.len());
}

/// A node's records in one tier: number, what is known, and three figures; beside it its name in
/// each file.
const NODE_BYTES: u64 = 2 + 3 + 3 * 2;
const NAME_BYTES: u64 = 12;

/// What is kept grows by the node: 100 of them show it, and `MUSTER_HISTORY_NODES` takes others.
fn nodes() -> u64 {
    let asked = std::env::var("MUSTER_HISTORY_NODES").ok();
    asked.map_or(100, |nodes| nodes.parse().expect("a number of nodes"))
}

#[test]
fn a_week_of_many_nodes_stays_within_its_bound() {
    let nodes = nodes();
    let dir = tempfile::tempdir().unwrap();
    let history = History::new(dir.path().to_owned());
    let mut did: Vec<(String, Values)> =
        (0..nodes).map(|at| (format!("node{at:04}"), Values::default())).collect();
    let mut worst = 0;
    for minute in 1..=7 * 24 * 60_i64 {
        for (at, (_, values)) in did.iter_mut().enumerate() {
            let busy = (minute + at as i64) % 65;
            values.set(Figure::CpusHeld, Some(busy as f64));
            values.set(Figure::MemoryHeld, Some((busy << 32) as f64));
            values.set(Figure::GpusHeld, Some((busy % 9) as f64));
        }
        let end_s = BEGIN_S + 60 * minute;
        history.note(Stretch { end_s, seconds: 60 }, &did).expect("written");
        if end_s % DAY_S == 0 {
            worst = worst.max(bytes(dir.path()));
        }
    }
    let bound: u64 = TIERS
        .iter()
        .map(|tier| {
            let span_s = (tier.keep_s.min(7 * DAY_S) + 2 * tier.file_s).unsigned_abs();
            let (records, files) =
                (span_s / tier.step_s.unsigned_abs(), span_s / tier.file_s.unsigned_abs() + 1);
            records * (nodes * NODE_BYTES + 32) + files * nodes * NAME_BYTES
        })
        .sum();
    println!(
        "a week of {nodes} nodes: {:.1} MB on disk, at most {:.1} MB",
        worst as f64 / 1e6,
        bound as f64 / 1e6
    );
    assert!(worst <= bound, "{worst} {bound}");
    // By ten minutes all of the week is there.
    let layout = Layout { from_ms: BEGIN_S * 1_000, step_ms: 600_000, steps: 7 * 144 };
    let last = format!("node{:04}", nodes - 1);
    assert_eq!(history.points(&last, layout).len(), 7 * 144);
    assert_eq!(history.points("node", layout).len(), 0);
}
