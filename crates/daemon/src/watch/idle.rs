//! GPUs that a job has and does not use: its owner is told, and where that does not help the site
//! may take them back.
//!
//! All of it rests on what was measured without a gap. Where the source fails, or the daemon was
//! away, the time begins anew and what was told is taken back.

use super::{Ring, Watch, grants, running, whole_gpus};
use crate::app::App;
use muster_config::{Daemon, IdleGpusWord};
use muster_control::command::Command;
use muster_diagnosis::Sample;
use muster_model::{IdleGpus, Job, Seconds, State, Timestamp};
use muster_node_metrics::collector::{Outcome, Snapshot};

/// Two looks that are further apart than so many periods have a gap between them.
const PERIODS_MAX: f64 = 3.0;

/// Whether the GPUs were read for this very snapshot: what a source that is late or failed said
/// before stays in it.
pub(super) fn measured(snapshot: &Snapshot) -> bool {
    let is_it = |report: &&muster_node_metrics::collector::Report| report.source == "gpus";
    snapshot.reports.iter().find(is_it).is_some_and(|report| report.outcome == Outcome::Read)
}

impl Ring {
    /// Takes what was measured of a job's GPUs, where `fresh`.
    pub(super) fn look_at_gpus(
        &mut self,
        state: &State,
        job: &Job,
        sample: &Sample,
        (fresh, period): (bool, u64),
    ) {
        let whole = whole_gpus(state, job).len();
        self.gpus = whole as u32;
        // Of a part of a GPU nobody can tell who uses it.
        let all = whole == grants(state, job).count();
        if !fresh || !all || job.state != muster_model::JobState::Running {
            return self.idle.end();
        }
        self.idle.add(sample, whole, PERIODS_MAX * period as f64);
    }
}

impl Watch {
    /// What is to be told of jobs whose GPUs do nothing, and which are to be taken back.
    pub(crate) fn idle_orders(&self, state: &State, settings: &Daemon) -> Vec<Command> {
        let (at, now) = (self.seconds(), App::now());
        let mut rings = self.rings();
        let jobs = running(state).filter(|job| job.stop.is_none());
        jobs.filter_map(|job| {
            let ring = rings.get_mut(&job.id).filter(|ring| ring.attempt == job.attempt);
            order(job, ring, settings, (at, now))
        })
        .collect()
    }
}

/// What is to be done about a job of which this is remembered; `at` on the samples' clock is `now`.
fn order(
    job: &Job,
    ring: Option<&mut Ring>,
    settings: &Daemon,
    (at, now): (f64, Timestamp),
) -> Option<Command> {
    let told = job.idle;
    let (job, attempt, requeue) =
        (job.id, job.attempt, settings.idle_gpus == IdleGpusWord::Requeue);
    let after = Seconds(ring.as_ref().map_or(0, |ring| ring.idle.seconds()));
    let long = after.0 >= settings.idle_gpus_after.0;
    let Some(ring) = ring.filter(|_| settings.idle_gpus != IdleGpusWord::Off && long) else {
        return told.map(|_| Command::Idle { job, attempt, idle: None });
    };
    let takes = settings.idle_gpus != IdleGpusWord::Notify;
    let grace = settings.idle_gpus_grace.0;
    let Some(_) = told.filter(|told| told.until.is_some() == takes) else {
        ring.told = None;
        let ms = i64::try_from(after.0.saturating_mul(1_000)).unwrap_or(i64::MAX);
        let since = Timestamp::from_millis(now.millis().saturating_sub(ms));
        let until = takes.then(|| now.plus(Seconds(grace)));
        let idle = IdleGpus { gpus: ring.gpus, since, until, taken_after: None };
        return Some(Command::Idle { job, attempt, idle: Some(idle) });
    };
    // The grace counts from the first look at which the owner could know.
    let since = *ring.told.get_or_insert(at);
    (takes && at - since >= grace as f64).then_some(Command::TakeBack {
        job,
        attempt,
        after,
        requeue,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Ring, Watch};
    use super::{measured, order};
    use crate::app::App;
    use muster_config::{Daemon, Duration, IdleGpusWord};
    use muster_control::command::Command;
    use muster_diagnosis::{Gpu, Sample};
    use muster_model::{IdleGpus, Job, JobId, Seconds, State, Timestamp};
    use muster_node_metrics::collector::{Collector, Options};
    use std::path::PathBuf;
    use std::sync::Arc;

    fn settings(word: IdleGpusWord) -> Daemon {
        let (idle_gpus_after, idle_gpus_grace) = (Duration(600), Duration(120));
        Daemon { idle_gpus: word, idle_gpus_after, idle_gpus_grace, ..Daemon::default() }
    }

    /// A job with both GPUs of a node, and what the daemon remembers of it.
    fn job(state: &mut State) -> (Arc<Job>, Ring) {
        *state = super::super::tests::state();
        let mut job = (*state.jobs[&JobId(7)]).clone();
        let mut placement = (**job.placement.as_ref().expect("placed")).clone();
        let other = state.jobs[&JobId(8)].placement.clone().expect("placed");
        placement.nodes[0].devices.extend(other.nodes[0].devices.clone());
        job.placement = Some(Arc::new(placement));
        (Arc::new(job), Ring::default())
    }

    fn sample(at: f64, busy: [Option<f64>; 2]) -> Sample {
        let gpu = |(uuid, busy): (&str, Option<f64>)| Gpu {
            uuid: uuid.to_owned(),
            busy,
            ..Gpu::default()
        };
        let gpus = ["GPU-A", "GPU-B"].into_iter().zip(busy).map(gpu).collect();
        Sample { at, gpus, ..Sample::default() }
    }

    const NOW: Timestamp = Timestamp::from_secs(10_000);
    const IDLE: [Option<f64>; 2] = [Some(0.0), Some(0.0)];

    /// Looks from one instant to another every 30 seconds, and says what is ordered at the last.
    fn look(
        (state, job, ring): (&State, &Job, &mut Ring),
        settings: &Daemon,
        (from, to): (u32, u32),
        fresh: bool,
    ) -> Option<Command> {
        let mut last = None;
        for at in (from..=to).step_by(30).map(f64::from) {
            ring.look_at_gpus(state, job, &sample(at, IDLE), (fresh, 30));
            last = order(job, Some(ring), settings, (at, NOW));
        }
        last
    }

    #[test]
    fn the_owner_is_told_after_the_whole_window_and_loses_them_after_the_grace() {
        let mut state = State::default();
        let (mut job, mut ring) = job(&mut state);
        let settings = settings(IdleGpusWord::Requeue);
        let ordered = look((&state, &job, &mut ring), &settings, (0, 570), true);
        assert_eq!(ordered, None);
        let idle = IdleGpus {
            gpus: 2,
            since: Timestamp::from_secs(9_400),
            until: Some(Timestamp::from_secs(10_120)),
            taken_after: None,
        };
        let (id, attempt) = (job.id, job.attempt);
        let told = Some(Command::Idle { job: id, attempt, idle: Some(idle) });
        assert_eq!(look((&state, &job, &mut ring), &settings, (600, 600), true), told);
        Arc::make_mut(&mut job).idle = Some(idle);
        // The grace counts from here.
        assert_eq!(look((&state, &job, &mut ring), &settings, (630, 720), true), None);
        let taken = Command::TakeBack { job: id, attempt, after: Seconds(750), requeue: true };
        assert_eq!(look((&state, &job, &mut ring), &settings, (750, 750), true), Some(taken));
    }

    #[test]
    fn one_that_works_again_keeps_its_gpus() {
        let mut state = State::default();
        let (mut job, mut ring) = job(&mut state);
        let settings = settings(IdleGpusWord::Cancel);
        assert!(look((&state, &job, &mut ring), &settings, (0, 600), true).is_some());
        Arc::make_mut(&mut job).idle = Some(IdleGpus {
            gpus: 2,
            since: Timestamp::from_secs(9_400),
            until: Some(Timestamp::from_secs(10_120)),
            taken_after: None,
        });
        look((&state, &job, &mut ring), &settings, (630, 690), true);
        let works = sample(720.0, [Some(0.0), Some(0.5)]);
        ring.look_at_gpus(&state, &job, &works, (true, 30));
        let back = Some(Command::Idle { job: job.id, attempt: job.attempt, idle: None });
        assert_eq!(order(&job, Some(&mut ring), &settings, (720.0, NOW)), back);
        // After that all begins anew, though what was told may still be in the state.
        assert_eq!(look((&state, &job, &mut ring), &settings, (750, 1_320), true), back);
    }

    #[test]
    fn what_is_not_measured_is_never_told_of() {
        let mut state = State::default();
        let (job, mut ring) = job(&mut state);
        let cancel = settings(IdleGpusWord::Cancel);
        assert_eq!(look((&state, &job, &mut ring), &cancel, (0, 3_000), false), None);
        // A source that failed once, in the middle.
        assert_eq!(look((&state, &job, &mut ring), &cancel, (3_030, 3_600), true), None);
        assert_eq!(look((&state, &job, &mut ring), &cancel, (3_630, 3_630), false), None);
        assert_eq!(look((&state, &job, &mut ring), &cancel, (3_660, 4_230), true), None);
        // A GPU of which nothing is known (MIG).
        for at in (4_260..8_000).step_by(30).map(f64::from) {
            let sample = sample(at, [Some(0.0), None]);
            ring.look_at_gpus(&state, &job, &sample, (true, 30));
            assert_eq!(order(&job, Some(&mut ring), &cancel, (at, NOW)), None);
        }
        // A part of a GPU.
        let mut shared = (*job).clone();
        let mut placement = (**shared.placement.as_ref().expect("placed")).clone();
        placement.nodes[0].devices[1].share = muster_model::DeviceMilli(500);
        shared.placement = Some(Arc::new(placement));
        assert_eq!(look((&state, &shared, &mut ring), &cancel, (8_010, 12_000), true), None);
    }

    #[test]
    fn off_and_notify_take_nothing_back() {
        let mut state = State::default();
        let (mut job, mut ring) = job(&mut state);
        let off = settings(IdleGpusWord::Off);
        assert_eq!(look((&state, &job, &mut ring), &off, (0, 9_000), true), None);
        let notify = settings(IdleGpusWord::Notify);
        let told = order(&job, Some(&mut ring), &notify, (9_000.0, NOW));
        let Some(Command::Idle { idle: Some(idle), .. }) = told else { panic!("{told:?}") };
        assert_eq!(idle.until, None);
        Arc::make_mut(&mut job).idle = Some(idle);
        assert_eq!(look((&state, &job, &mut ring), &notify, (9_030, 18_000), true), None);
        // Where the site changes its mind the owner is told of that first.
        let cancel = settings(IdleGpusWord::Cancel);
        let told = order(&job, Some(&mut ring), &cancel, (18_000.0, NOW));
        let Some(Command::Idle { idle: Some(idle), .. }) = told else { panic!("{told:?}") };
        assert!(idle.until.is_some());
        // Switched off, what was told is taken back.
        let back = order(&job, Some(&mut ring), &off, (18_030.0, NOW));
        assert_eq!(back, Some(Command::Idle { job: job.id, attempt: job.attempt, idle: None }));
        // Nothing is remembered after a restart of the daemon.
        assert_eq!(order(&job, None, &cancel, (0.0, NOW)), back);
    }

    #[test]
    fn a_source_that_is_late_or_failed_or_absent_measures_nothing() {
        let root =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../exporter/tests/captured/gpu-node");
        let of = |root| Collector::new(&Options { root, ..Options::default() }).collect();
        let mut snapshot = of(root);
        assert!(measured(&snapshot));
        let report = snapshot.reports.iter_mut().find(|report| report.source == "gpus");
        report.expect("a report").outcome = super::Outcome::Late;
        assert!(!measured(&snapshot));
        assert!(!measured(&of(PathBuf::from("/nonexistent"))));
    }

    #[test]
    fn orders_are_for_jobs_that_run_and_are_not_ended_already() {
        let state = super::super::tests::state();
        let watch = Watch::new("i".to_owned(), std::path::Path::new("/nonexistent"));
        let mut told = state.clone();
        let idle = IdleGpus { gpus: 1, since: App::now(), until: None, taken_after: None };
        for job in told.jobs.iter().map(|(_, job)| (**job).clone()).collect::<Vec<_>>() {
            told.jobs.insert(job.id, Arc::new(Job { idle: Some(idle), ..job }));
        }
        assert!(watch.idle_orders(&state, &Daemon::default()).is_empty());
        assert_eq!(watch.idle_orders(&told, &Daemon::default()).len(), 2);
        let mut ending = (*told.jobs[&JobId(7)]).clone();
        ending.stop = Some(muster_model::Stop {
            cause: muster_model::StopCause::Cancelled(0),
            at: App::now(),
            hurry: false,
        });
        told.jobs.insert(ending.id, Arc::new(ending));
        assert_eq!(watch.idle_orders(&told, &Daemon::default()).len(), 1);
    }
}
