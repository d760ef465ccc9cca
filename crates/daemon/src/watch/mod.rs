//! What this machine does for which job: metrics when asked, and samples of running jobs for their
//! diagnosis.
//!
//! Beside the history's look once a minute nothing is read before somebody asks or a job runs.

pub(crate) mod bandwidth;
pub(crate) mod endings;
pub(crate) mod health;
pub(crate) mod history;
mod idle;
mod kept;
mod machine;
pub(crate) mod otlp;
mod past;
pub(crate) mod report;
mod sample;
pub(crate) mod saturation;
mod series;

use crate::app::App;
use crate::identity;
use bandwidth::Bandwidth;
use kept::{Kept, Watched};
use muster_api::DiagnosisView;
use muster_control::command::Principal;
use muster_diagnosis::{Course, IdleStretch, Sample, Tally};
use muster_exporter::{Owner, Owners};
use muster_model::{DeviceGrant, Job, JobId, JobState, Node, State};
use muster_node_metrics::collector::{Collector, Options, Snapshot};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A reading is good for so long: many who ask at once cost one.
const AGE_MAX: Duration = Duration::from_secs(1);

/// Samples that are kept of a job: an hour and more at the usual period.
const SAMPLES_MAX: usize = 150;

/// How often what was seen of running jobs is written down: what a kill can lose of a graph.
const KEEP_EVERY: Duration = Duration::from_mins(10);

/// Jobs of which samples are kept; others of very many at once are not sampled.
const JOBS_MAX: usize = 1_000;

/// What is remembered of one attempt of a job.
#[derive(Default)]
struct Ring {
    attempt: u32,
    /// The newest samples, the oldest of them first.
    samples: VecDeque<Sample>,
    /// All of them added up.
    tally: Tally,
    /// What it did over its whole life.
    course: Course,
    /// What a daemon before this one found.
    earlier: Option<DiagnosisView>,
    /// How long its GPUs have done nothing, and how many it has.
    idle: IdleStretch,
    gpus: u32,
    /// When its owner could first know of that.
    told: Option<f64>,
}

/// What is read and remembered.
pub(crate) struct Watch {
    instance: String,
    begun: Instant,
    collector: Mutex<Option<Collector>>,
    newest: Mutex<Option<(Instant, Snapshot)>>,
    /// The one before it, and the time between them.
    earlier: Mutex<Option<(Duration, Snapshot)>>,
    rings: Mutex<BTreeMap<JobId, Ring>>,
    kept: Kept,
    /// Tests of the network between nodes.
    pub(crate) bandwidth: Bandwidth,
    sysstat: past::Sysstat,
    history: history::History,
}

impl Watch {
    /// Of the engine that calls itself so; what was seen is kept in folders of the state directory.
    pub(crate) fn new(instance: String, dir: &Path) -> Self {
        Self {
            instance,
            begun: Instant::now(),
            collector: Mutex::new(None),
            newest: Mutex::new(None),
            earlier: Mutex::new(None),
            rings: Mutex::new(BTreeMap::new()),
            kept: Kept::new(dir.join("reports")),
            history: history::History::new(dir.join("history")),
            bandwidth: Bandwidth::new(dir.join("bandwidth.json")),
            sysstat: past::Sysstat::default(),
        }
    }

    /// What the machine does now. Takes a while; for threads that may wait.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut collector = self.collector.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = || self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, snapshot)) = &*newest()
            && at.elapsed() < AGE_MAX
        {
            return snapshot.clone();
        }
        let instance = Some(self.instance.clone());
        let fresh = || Collector::new(&Options { instance, ..Options::default() });
        let snapshot = collector.get_or_insert_with(fresh).collect();
        let now = Instant::now();
        if let Some((at, before)) = newest().replace((now, snapshot.clone())) {
            let mut earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
            *earlier = Some((now - at, before));
        }
        snapshot
    }

    /// The jobs that the caller may see, and the GPUs that they have.
    pub(crate) fn owners(&self, state: &State, caller: &Principal) -> Owners {
        let mut owners = Owners {
            only_these: !caller.admin,
            instance: self.instance.clone(),
            ..Owners::default()
        };
        for job in running(state).filter(|job| caller.owns(job)) {
            let owner = &job.spec.owner;
            let partition = job.placement.as_ref().map(|placement| placement.partition.clone());
            let known = Owner {
                user: owner.user.clone(),
                account: job.spec.account.clone(),
                partition: partition.unwrap_or_default(),
                name: job.spec.name.clone(),
            };
            owners.jobs.insert(u64::from(job.id.0), known);
            for (node, grant) in grants(state, job) {
                let Some(device) = node.devices.get(grant.index as usize) else { continue };
                let jobs = owners.gpus.entry(device.uuid.clone()).or_default();
                if !jobs.contains(&u64::from(job.id.0)) {
                    jobs.push(u64::from(job.id.0));
                }
            }
        }
        owners
    }

    /// Seconds on a clock that only goes forward.
    fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// The samples of a job's present attempt.
    pub(crate) fn samples(&self, job: &Job) -> Vec<Sample> {
        let rings = self.rings();
        let ring = rings.get(&job.id).filter(|ring| ring.attempt == job.attempt);
        ring.map(|ring| ring.samples.iter().cloned().collect()).unwrap_or_default()
    }

    fn rings(&self) -> MutexGuard<'_, BTreeMap<JobId, Ring>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was seen of a job's last attempt.
    fn watched(&self, job: &Job) -> Option<Watched> {
        let rings = self.rings();
        match rings.get(&job.id).filter(|ring| ring.attempt == job.attempt) {
            Some(ring) => Some(self.watched_of(job, ring)),
            None => self.kept.of(job),
        }
    }

    fn watched_of(&self, job: &Job, ring: &Ring) -> Watched {
        let series = series::of(job, &ring.course, self.seconds());
        report::watched(job, ring, series)
    }

    /// Keeps what was seen of a job that is over.
    pub(crate) fn finish(&self, job: &Job) {
        let mut rings = self.rings();
        if let Some(ring) = rings.get(&job.id).filter(|ring| ring.attempt == job.attempt) {
            // It is on the disk before it is gone from memory: who asks finds it in one of them.
            self.kept.keep(job.id, &self.watched_of(job, ring));
        }
        rings.remove(&job.id);
    }

    /// Lets go of jobs that do not run any more.
    fn let_go(&self, state: &State) {
        let ids: Vec<JobId> = self.rings().keys().copied().collect();
        for id in ids {
            match state.job(id) {
                Some(job) if job.state.is_over() => self.finish(job),
                // One that clears up ends soon.
                Some(job) if job.state.holds_resources() => {}
                _ => drop(self.rings().remove(&id)),
            }
        }
    }

    /// What is remembered of a job's present attempt at the first look at it: its graph and its
    /// totals go on where a daemon before this one watched it.
    fn ring(&self, job: &Job, at: f64) -> Ring {
        let attempt = job.attempt;
        let Some(kept) = self.kept.of(job) else { return Ring { attempt, ..Ring::default() } };
        let course = series::resumed(&kept.series, at);
        let tally = match &kept.standing {
            Some(standing) => {
                let first = course.first().unwrap_or(at - kept.seconds as f64);
                Tally::resumed(standing, first, at)
            }
            None => Tally::default(),
        };
        Ring { attempt, course, tally, earlier: Some(kept.diagnosis), ..Ring::default() }
    }

    /// Keeps what was seen of jobs that run, for a daemon after this one.
    pub(crate) fn keep_running(&self, state: &State) {
        let rings = self.rings();
        for (id, ring) in rings.iter() {
            if let Some(job) = state.job(*id).filter(|job| job.attempt == ring.attempt) {
                self.kept.keep(*id, &self.watched_of(job, ring));
            }
        }
    }

    /// Takes a sample of every job that runs, as every so many seconds; lets go of those that do not.
    pub(crate) fn sample(&self, state: &State, period: u64) {
        let jobs: Vec<&Arc<Job>> = running(state).take(JOBS_MAX).collect();
        self.let_go(state);
        if jobs.is_empty() {
            return;
        }
        let snapshot = self.snapshot();
        let at = self.seconds();
        let alone = state.index.active.len() == 1;
        let fresh = idle::measured(&snapshot);
        let mut rings = self.rings();
        for job in jobs {
            let gpus = whole_gpus(state, job);
            let taken = sample::of(&snapshot, &self.instance, job.id, &gpus, alone);
            if rings.get(&job.id).is_none_or(|ring| ring.attempt != job.attempt) {
                rings.insert(job.id, self.ring(job, at));
            }
            let Some(ring) = rings.get_mut(&job.id) else { continue };
            // Where no cgroup says how many CPUs it may use, they are those that it was given.
            let given = job.placement.as_ref().map(|placement| placement.cpus());
            let given = given.filter(|cpus| *cpus > 0).map(f64::from);
            let sample = Sample { at, cpus: taken.cpus.or(given), ..taken };
            ring.look_at_gpus(state, job, &sample, (fresh, period));
            ring.tally.add(&sample);
            ring.course.add(&sample);
            ring.samples.push_back(sample);
            if ring.samples.len() > SAMPLES_MAX {
                ring.samples.pop_front();
            }
        }
    }
}

fn running(state: &State) -> impl Iterator<Item = &Arc<Job>> {
    let active = state.index.active.iter().filter_map(|id| state.job(*id));
    active.filter(|job| matches!(job.state, JobState::Running | JobState::Suspended))
}

/// What a job has of which devices.
fn grants<'a>(
    state: &'a State,
    job: &'a Job,
) -> impl Iterator<Item = (&'a Arc<Node>, &'a DeviceGrant)> {
    let shares = job.placement.iter().flat_map(|placement| &placement.nodes);
    shares.flat_map(|share| {
        let node = state.nodes.get(&share.node);
        node.into_iter().flat_map(|node| share.devices.iter().map(move |grant| (node, grant)))
    })
}

/// The GPUs that a job has for itself: of others nobody can tell which part of the use is its.
fn whole_gpus(state: &State, job: &Job) -> Vec<String> {
    grants(state, job)
        .filter(|(_, grant)| grant.is_whole())
        .filter_map(|(node, grant)| Some(node.devices.get(grant.index as usize)?.uuid.clone()))
        .collect()
}

/// Samples running jobs at the period that the configuration sets, until the daemon ends.
pub(crate) async fn keep(app: Arc<App>) {
    let mut kept = Instant::now();
    loop {
        let period = app.config.load().daemon.watch_period.0;
        // Switched off, it may be switched on by a reload.
        tokio::time::sleep(Duration::from_secs(if period == 0 { 60 } else { period })).await;
        if period == 0 || app.handle.state().index.active.is_empty() {
            continue;
        }
        let sampled = Arc::clone(&app);
        let due = kept.elapsed() >= KEEP_EVERY;
        if due {
            kept = Instant::now();
        }
        let taken = tokio::task::spawn_blocking(move || {
            let state = sampled.handle.state();
            sampled.watch.sample(&state, period);
            if due {
                sampled.watch.keep_running(&state);
            }
            sampled.watch.idle_orders(&state, &sampled.config.load().daemon)
        });
        let Ok(orders) = taken.await else {
            tracing::error!("taking samples of jobs failed");
            continue;
        };
        for order in orders {
            let daemon = identity::daemon();
            if let Err(error) = crate::http::jobs::command(&app.handle, &daemon, order).await {
                tracing::warn!(%error, "idle GPUs could not be told of, or not taken back");
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::Watch;
    use muster_control::command::Principal;
    use muster_model::{
        Device, DeviceGrant, DeviceMilli, Job, JobId, JobState, Node, NodeId, NodeShare, Placement,
        State,
    };
    use std::path::Path;
    use std::sync::Arc;

    pub(crate) fn state() -> State {
        let mut state = State::default();
        let device =
            |index, uuid: &str| Device { index, uuid: uuid.to_owned(), ..Device::default() };
        let node =
            Node { devices: vec![device(0, "GPU-A"), device(1, "GPU-B")], ..Node::default() };
        state.nodes.insert(NodeId(0), Arc::new(node));
        for (id, uid, index) in [(7, 1_000, 1), (8, 2_000, 0)] {
            let grant = DeviceGrant { index, share: DeviceMilli::WHOLE, ..DeviceGrant::default() };
            let share = NodeShare { devices: vec![grant], cpu_pool: 6, ..NodeShare::default() };
            let placement = Placement { nodes: vec![share], ..Placement::default() };
            let owner = serde_json::json!({"uid": uid, "gid": uid, "user": format!("u{uid}")});
            let job = serde_json::json!({
                "id": id, "spec": {"owner": owner}, "submitted": 0, "state": "running",
                "time_limit": "unlimited",
            });
            let mut job: Job = serde_json::from_value(job).expect("a job");
            job.placement = Some(Arc::new(placement));
            state.jobs.insert(JobId(id), Arc::new(job));
            state.index.active.insert(JobId(id));
        }
        state
    }

    fn caller(uid: u32, admin: bool) -> Principal {
        Principal { uid, gid: uid, user: format!("u{uid}"), admin }
    }

    #[test]
    fn m07_a_job_has_the_gpu_of_its_allocation_whatever_number_it_sees() {
        let owners = Watch::new("i".to_owned(), Path::new("/nonexistent"))
            .owners(&state(), &caller(0, true));
        assert_eq!(owners.gpus["GPU-B"], [7]);
        assert_eq!(owners.gpus["GPU-A"], [8]);
        assert!(!owners.only_these && owners.jobs.len() == 2);
    }

    #[test]
    fn a_user_sees_their_own_jobs_and_nothing_of_the_machine() {
        let owners = Watch::new("i".to_owned(), Path::new("/nonexistent"))
            .owners(&state(), &caller(1_000, false));
        assert!(owners.only_these);
        assert_eq!(owners.jobs.keys().copied().collect::<Vec<_>>(), [7]);
        assert_eq!(owners.jobs[&7].user, "u1000");
        assert_eq!(owners.gpus.len(), 1);
    }

    #[test]
    fn samples_are_kept_of_jobs_that_run_and_of_their_present_attempt() {
        let (watch, mut state) = (Watch::new("i".to_owned(), Path::new("/nonexistent")), state());
        watch.sample(&state, 30);
        let job = Arc::clone(&state.jobs[&JobId(7)]);
        assert_eq!(watch.samples(&job).len(), 1);
        // No cgroup tells of this one.
        assert_eq!(watch.samples(&job)[0].cpus, Some(6.0));
        let again = Job { attempt: job.attempt + 1, ..(*job).clone() };
        assert!(watch.samples(&again).is_empty());
        state.index.active.clear();
        state.jobs.clear();
        watch.sample(&state, 30);
        assert!(watch.samples(&job).is_empty());
    }

    #[test]
    fn a_running_jobs_graph_goes_on_after_a_restart() {
        let (dir, state) = (tempfile::tempdir().unwrap(), state());
        let job = Arc::clone(&state.jobs[&JobId(7)]);
        let kept = || Watch::new("i".to_owned(), dir.path());
        let watch = kept();
        let lines = || {
            vec![muster_api::LineView {
                name: "cpu".to_owned(),
                unit: "cpus".to_owned(),
                values: vec![Some(3.0), None, Some(2.0)],
            }]
        };
        watch.sample(&state, 30);
        let mut seen = watch.watched(&job).expect("seen");
        let from_ms = crate::app::App::now().millis() - 90_000;
        seen.series = muster_api::SeriesView { id: 7, from_ms, step_ms: 30_000, lines: lines() };
        watch.kept.keep(job.id, &seen);
        let next = kept();
        next.sample(&state, 30);
        let series = next.series(&job);
        assert_eq!((series.step_ms, &series.lines), (30_000, &lines()));
        assert!((series.from_ms - from_ms).abs() < 10_000, "{} {from_ms}", series.from_ms);
        // It is written down again as it is.
        next.keep_running(&state);
        assert_eq!(next.kept.of(&job).map(|kept| kept.series.lines), Some(lines()));
        // Another attempt begins its own.
        let mut again = state.clone();
        again.jobs.insert(job.id, Arc::new(Job { attempt: job.attempt + 1, ..(*job).clone() }));
        let next = kept();
        next.sample(&again, 30);
        assert!(next.series(&again.jobs[&job.id]).lines.is_empty());
    }

    #[test]
    fn a_jobs_totals_go_on_after_a_restart() {
        let (dir, state) = (tempfile::tempdir().unwrap(), state());
        let job = Arc::clone(&state.jobs[&JobId(7)]);
        let watch = Watch::new("i".to_owned(), dir.path());
        watch.sample(&state, 30);
        let mut seen = watch.watched(&job).expect("seen");
        // As it would be after half an hour.
        let standing = serde_json::json!({ "samples": 60, "read": 5e9, "joules": 7e6 });
        seen.standing = Some(serde_json::from_value(standing).unwrap());
        seen.series.from_ms = crate::app::App::now().millis() - 1_800_000;
        let kept = &seen.series;
        let line = muster_api::LineView {
            name: "cpu".to_owned(),
            unit: "cpus".to_owned(),
            values: vec![Some(1.0); 60],
        };
        seen.series = muster_api::SeriesView { step_ms: 30_000, lines: vec![line], ..kept.clone() };
        seen.diagnosis.verdict = "fine".to_owned();
        watch.kept.keep(job.id, &seen);
        let next = Watch::new("i".to_owned(), dir.path());
        next.sample(&state, 30);
        let report = next.report(&state, &job);
        assert!(report.read_bytes.is_some_and(|bytes| bytes >= 5_000_000_000), "{report:?}");
        assert!(report.gpu_joules.is_some_and(|joules| joules >= 7_000_000), "{report:?}");
        assert!((1_790..1_900).contains(&report.watched_s), "{report:?}");
        // What was found stands until more is seen.
        assert_eq!(report.diagnosis.map(|found| found.verdict).as_deref(), Some("fine"));
        // A file of an earlier release has no totals to go on from: they begin anew.
        seen.standing = None;
        watch.kept.keep(job.id, &seen);
        let next = Watch::new("i".to_owned(), dir.path());
        next.sample(&state, 30);
        assert_eq!(next.report(&state, &job).gpu_joules, None);
    }

    #[test]
    fn what_was_seen_of_a_job_outlives_it_and_the_daemon() {
        let (dir, mut state) = (tempfile::tempdir().unwrap(), state());
        let watch = Watch::new("i".to_owned(), dir.path());
        watch.sample(&state, 30);
        let over = Job { state: JobState::Completed, ..(*state.jobs[&JobId(7)]).clone() };
        state.jobs.insert(JobId(7), Arc::new(over.clone()));
        state.index.active.remove(&JobId(7));
        let before = watch.report(&state, &over);
        assert_eq!(before.diagnosis.as_ref().map(|d| d.verdict.as_str()), Some("too_short"));
        watch.sample(&state, 30);
        assert!(watch.samples(&over).is_empty());
        let next = Watch::new("i".to_owned(), dir.path());
        assert_eq!(next.report(&state, &over).diagnosis, before.diagnosis);
        // Another attempt, or another job with its number, was never seen.
        let again = Job { attempt: over.attempt + 1, ..over.clone() };
        assert_eq!(next.report(&state, &again).diagnosis, None);
        let other = Job { submitted: muster_model::Timestamp::from_secs(9), ..over };
        assert_eq!(next.report(&state, &other).diagnosis, None);
    }
}
