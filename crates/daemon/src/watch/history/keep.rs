//! Every minute: what the machine did, and what jobs hold of each node.

use super::{History, MACHINE, SUBJECTS_MAX, Stretch};
use crate::app::App;
use muster_model::{Node, State};
use muster_node_metrics::collector::Snapshot;
use muster_node_metrics::past::{Figure, Values, look};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often; the finest that is kept.
const EVERY: Duration = Duration::from_mins(1);

/// A pause that is longer (a machine that slept) is none that a look tells of.
const PAUSE_MAX: Duration = Duration::from_mins(5);

/// Keeps the history until the daemon ends, where the configuration wants anything to be looked at.
pub(crate) async fn keep(app: Arc<App>) {
    let mut earlier = None;
    loop {
        tokio::time::sleep(until_the_minute(App::now().millis())).await;
        if app.config.load().daemon.watch_period.0 == 0 {
            earlier = None;
            continue;
        }
        let looked = Arc::clone(&app);
        let taken = tokio::task::spawn_blocking(move || {
            let (at, snapshot) = (Instant::now(), looked.watch.snapshot());
            let end_s = App::now().millis().div_euclid(1_000) / 60 * 60;
            let state = looked.handle.state();
            let noted = note(&looked.watch.history, end_s, earlier, (at, &snapshot), &state);
            if let Err(error) = noted {
                tracing::warn!(%error, "the history of the machine and nodes cannot be kept");
            }
            (at, snapshot)
        });
        earlier = taken.await.ok();
        if earlier.is_none() {
            tracing::error!("keeping the history failed");
        }
    }
}

/// So long it is until the next full minute.
fn until_the_minute(now_ms: i64) -> Duration {
    let every = EVERY.as_millis() as i64;
    Duration::from_millis((every - now_ms.rem_euclid(every)).unsigned_abs())
}

fn note(
    history: &History,
    end_s: i64,
    earlier: Option<(Instant, Snapshot)>,
    (at, now): (Instant, &Snapshot),
    state: &State,
) -> std::io::Result<()> {
    let earlier = earlier.map(|(then, snapshot)| (at - then, snapshot));
    let earlier = earlier.filter(|(passed, _)| *passed <= PAUSE_MAX);
    let (passed, before) = earlier.unwrap_or_default();
    let machine = look::between(&before.parts, &now.parts, passed.as_secs_f64());
    let mut did = vec![(MACHINE.to_owned(), machine)];
    let nodes = state.nodes.values().take(SUBJECTS_MAX - 1);
    did.extend(nodes.map(|node| (node.name.clone(), held(state, node))));
    let seconds = EVERY.as_secs() as u32;
    history.note(Stretch { end_s, seconds }, &did)
}

/// What jobs hold of a node.
fn held(state: &State, node: &Node) -> Values {
    let (mut cpus, mut memory_mib, mut gpus) = (0, 0, BTreeSet::new());
    for (_, share) in state.shares_on(node.id) {
        cpus += share.cpu_count();
        memory_mib += share.memory.0;
        gpus.extend(share.devices.iter().map(|grant| grant.index));
    }
    let mut values = Values::default();
    values.set(Figure::CpusHeld, Some(f64::from(cpus)));
    values.set(Figure::MemoryHeld, Some(memory_mib as f64 * 1_048_576.0));
    if !node.devices.is_empty() {
        values.set(Figure::GpusHeld, Some(gpus.len() as f64));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::{held, note, until_the_minute};
    use crate::watch::history::{History, MACHINE};
    use muster_model::NodeId;
    use muster_node_metrics::collector::{Collector, Options};
    use muster_node_metrics::past::{Figure, Layout};
    use std::time::{Duration, Instant};

    #[test]
    fn what_jobs_hold_of_a_node_is_counted() {
        let mut state = crate::watch::tests::state();
        state.index.on_node.insert(NodeId(0), state.index.active.clone());
        let held = held(&state, &state.nodes[&NodeId(0)]);
        assert_eq!(held.get(Figure::CpusHeld), Some(12.0));
        assert_eq!(held.get(Figure::GpusHeld), Some(2.0));
        assert_eq!(held.get(Figure::MemoryHeld), Some(0.0));
    }

    #[test]
    fn a_minute_of_the_machine_and_its_nodes_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let history = History::new(dir.path().join("history"));
        let mut collector = Collector::new(&Options::default());
        let (then, before) = (Instant::now(), collector.collect());
        let now = collector.collect();
        let at = then + Duration::from_mins(1);
        let state = crate::watch::tests::state();
        note(&history, 600, Some((then, before)), (at, &now), &state).unwrap();
        let layout = Layout { from_ms: 540_000, step_ms: 60_000, steps: 1 };
        let machine = history.points(MACHINE, layout);
        assert_eq!(machine.len(), 1);
        assert!(machine[0].values.get(Figure::Load).is_some());
        let name = &state.nodes[&NodeId(0)].name;
        // The node of this state has no name, as the machine has none.
        assert_eq!(name, MACHINE);
    }

    #[test]
    fn looks_are_at_full_minutes() {
        assert_eq!(until_the_minute(1_000), Duration::from_secs(59));
        assert_eq!(until_the_minute(60_000), Duration::from_mins(1));
    }
}
