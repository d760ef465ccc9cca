//! What earlier runs of a script used, for what `muster why` and submissions say of it.
//!
//! A script that is submitted a thousand times in a row is looked up once a second.

use muster_control::need::{self, Advice, RUNS_MAX};
use muster_control::{Handle, SystemClock};
use muster_model::{Job, JobSpec, Timestamp};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Runs that are looked at ended in so many days.
const DAYS: i64 = 30;

/// A look at the store is good for so long.
const AGE_MAX: Duration = Duration::from_secs(1);

/// So many scripts are remembered.
const SCRIPTS_MAX: usize = 1_000;

/// User, name and command: what makes a script the same.
type Script = (String, String, String);

/// When a look was taken at the store, and what it found.
type Runs = (Instant, Arc<[Arc<Job>]>);

/// The newest runs of scripts.
#[derive(Default)]
pub(crate) struct Measured {
    known: Mutex<BTreeMap<Script, Runs>>,
}

impl Measured {
    /// What earlier runs propose for this request; nothing where the history cannot be read.
    pub(crate) fn advice(&self, handle: &Handle, spec: &JobSpec) -> Vec<Advice> {
        if let Some(advice) = self.remembered(spec) {
            return advice;
        }
        let runs: Arc<[Arc<Job>]> = read(handle, spec).into();
        let advice = advice_of(&runs, spec);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= SCRIPTS_MAX {
            known.clear();
        }
        known.insert(script(spec), (Instant::now(), runs));
        advice
    }

    /// The same without a look at the store; `None` where that is needed.
    pub(crate) fn remembered(&self, spec: &JobSpec) -> Option<Vec<Advice>> {
        let runs = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let (at, runs) = known.get(&script(spec))?;
            (at.elapsed() < AGE_MAX).then(|| Arc::clone(runs))?
        };
        Some(advice_of(&runs, spec))
    }
}

fn script(spec: &JobSpec) -> Script {
    (spec.owner.user.clone(), spec.name.clone(), spec.command.clone())
}

fn advice_of(runs: &[Arc<Job>], spec: &JobSpec) -> Vec<Advice> {
    need::advice(&runs.iter().map(AsRef::as_ref).collect::<Vec<_>>(), spec)
}

fn read(handle: &Handle, spec: &JobSpec) -> Vec<Arc<Job>> {
    use muster_control::Clock as _;
    let back = DAYS * 24 * 3600 * 1000;
    let from = Timestamp::from_millis(SystemClock.now().millis().saturating_sub(back));
    let wanted = muster_store::HistoryQuery {
        users: vec![spec.owner.user.clone()],
        names: vec![spec.name.clone()],
        ended_from: Some(from),
        // Other scripts may have the same name.
        limit: 4 * RUNS_MAX,
        newest: true,
        ..muster_store::HistoryQuery::default()
    };
    let Ok(page) = handle.reader().history(&wanted) else { return Vec::new() };
    page.rows.into_iter().map(|row| row.job).filter(|run| need::is_same_script(run, spec)).collect()
}
