//! Which mail an event calls for, in Slurm's words (sbatch manual, `--mail-type`).

use muster_model::{
    Event, EventKind, GateTarget, Job, JobId, JobState, Seconds, State, TimeLimit, Timestamp,
};
use muster_slurm_syntax::duration::print_long;
use std::collections::{BTreeMap, BTreeSet};

/// One mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Letter {
    /// An address or a user's name.
    pub(crate) to: String,
    /// One line.
    pub(crate) subject: String,
    /// The job whose report is its text.
    pub(crate) about: Option<JobId>,
}

/// Shares of the time limit that a job may want to be told of, with their words.
const SHARES: [(u64, &str); 3] =
    [(50, "TIME_LIMIT_50"), (80, "TIME_LIMIT_80"), (90, "TIME_LIMIT_90")];

/// What is to be sent, and what has to be remembered for that.
#[derive(Default)]
pub(crate) struct Letters {
    ready: Vec<Letter>,
    /// When a running job comes to a share of its limit.
    due: BTreeMap<(Timestamp, JobId), (u32, u64)>,
    /// Arrays whose begin was told.
    begun: BTreeSet<JobId>,
}

impl Letters {
    /// Begins with the jobs that run already; nothing of the past is told.
    pub(crate) fn new(state: &State) -> Self {
        let mut letters = Self::default();
        for id in &state.index.active {
            if let Some(job) = state.job(*id) {
                letters.watch_limit(job);
                letters.begun.extend(job.array.map(|task| task.array));
            }
        }
        letters
    }

    /// The next instant at which [`Letters::look_at_clock`] has something to do.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    /// What is to be sent now.
    pub(crate) fn take(&mut self) -> Vec<Letter> {
        std::mem::take(&mut self.ready)
    }

    /// Looks at an event that is in `state`, which may be newer.
    pub(crate) fn see(&mut self, event: &Event, state: &State) {
        match &event.kind {
            EventKind::JobStarted { job, .. } => {
                if let Some(job) = state.job(*job) {
                    self.began(job, event.at);
                    self.watch_limit(job);
                }
            }
            EventKind::JobIdle { job, idle: Some(idle), .. } if idle.taken_after.is_none() => {
                // Slurm has no word for it. Who wants to hear of a failure wants to hear of this.
                if let Some(job) = state.job(*job) {
                    self.tell(job, "FAIL", &format!("Idle, {idle}, {}", times(job)));
                }
            }
            EventKind::JobExited { job, .. }
            | EventKind::JobStop { job, .. }
            | EventKind::JobRejected { job, .. } => {
                let Some(job) = state.job(*job) else { return };
                if job.state.is_over() {
                    self.ended(job, state);
                    self.hopeless(job, state);
                } else if job.is_pending() && matches!(event.kind, EventKind::JobExited { .. }) {
                    self.tell(job, "REQUEUE", &format!("Requeued, {}", times(job)));
                }
            }
            _ => {}
        }
    }

    /// Tells of shares of time limits that have come.
    pub(crate) fn look_at_clock(&mut self, now: Timestamp, state: &State) {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((_, id), (attempt, share)) = entry.remove_entry();
            let Some(job) = state.job(id).filter(|job| job.attempt == attempt) else { continue };
            if job.state.holds_resources() {
                let word = SHARES.iter().find(|s| s.0 == share).map_or("", |s| s.1);
                self.tell(job, word, &format!("Reached {share}% of time limit, {}", times(job)));
                self.watch_limit_after(job, share);
            }
        }
    }

    fn began(&mut self, job: &Job, at: Timestamp) {
        if let Some(task) = job.array.filter(|_| !wants(job, "ARRAY_TASKS"))
            && !self.begun.insert(task.array)
        {
            return;
        }
        let queued = TimeLimit::Of(at.since(job.submitted));
        self.tell(job, "BEGIN", &format!("Began, Queued time {}", print_long(queued)));
    }

    fn ended(&mut self, job: &Job, state: &State) {
        let mut bad = !matches!(job.state, JobState::Completed | JobState::Cancelled);
        if let Some(task) = job.array.filter(|_| !wants(job, "ARRAY_TASKS")) {
            // One mail for the array, with the end of its last task.
            let Some(record) = state.index.arrays.get(&task.array) else { return };
            if record.unfinished > 0 {
                return;
            }
            bad = record.failed > 0;
            self.begun.remove(&task.array);
        }
        if job.state == JobState::Timeout {
            self.tell(job, "TIME_LIMIT", &format!("Reached time limit, {}", times(job)));
        }
        let exit = job.exit.unwrap_or_default();
        let end = format!("{}, {}, ExitCode {}", times(job), state_word(job.state), exit.code);
        if bad && wants(job, "FAIL") {
            self.tell(job, "FAIL", &format!("Failed, {end}"));
        } else {
            self.tell(job, "END", &format!("Ended, {end}"));
        }
    }

    /// Jobs whose dependency on this one can never be met any more.
    fn hopeless(&mut self, job: &Job, state: &State) {
        let targets =
            [Some(GateTarget::Job(job.id)), job.array.map(|t| GateTarget::Array(t.array))];
        for target in targets.into_iter().flatten() {
            for id in state.index.dependents.get(&target).into_iter().flatten() {
                if let Some(waiting) = state.job(*id).filter(|j| j.dependency_is_hopeless()) {
                    self.tell(waiting, "INVALID_DEPEND", "Invalid dependency");
                }
            }
        }
    }

    fn watch_limit(&mut self, job: &Job) {
        self.watch_limit_after(job, 0);
    }

    fn watch_limit_after(&mut self, job: &Job, after: u64) {
        let (Some(started), Some(Seconds(limit))) = (job.started, job.time_limit.seconds()) else {
            return;
        };
        if let Some((share, _)) = SHARES.iter().find(|(s, word)| *s > after && wants(job, word)) {
            let at = started.plus(Seconds(limit.saturating_mul(*share) / 100));
            self.due.insert((at, job.id), (job.attempt, *share));
        }
    }

    fn tell(&mut self, job: &Job, word: &str, what: &str) {
        let Some(mail) = job.spec.mail.as_ref().filter(|_| wants(job, word)) else { return };
        let to = if mail.to.is_empty() { job.spec.owner.user.clone() } else { mail.to.clone() };
        let id = match job.array {
            Some(task) if wants(job, "ARRAY_TASKS") => {
                format!("Array Task Job_id={}_{} ({})", task.array, task.index, job.id)
            }
            Some(task) => format!("Array Summary Job_id={}_* ({})", task.array, task.array),
            None => format!("Job_id={}", job.id),
        };
        let subject = format!("Slurm {id} Name={} {what}", job.spec.name);
        let ended = job.state.is_over() && job.started.is_some();
        let whole = job.array.is_none() || wants(job, "ARRAY_TASKS");
        self.ready.push(Letter { to, subject, about: (ended && whole).then_some(job.id) });
    }
}

fn wants(job: &Job, word: &str) -> bool {
    job.spec.mail.as_ref().is_some_and(|mail| mail.events.iter().any(|event| event == word))
}

fn times(job: &Job) -> String {
    let ran = job.started.and(job.ended).map_or(Seconds(0), |end| job.run_time(end));
    format!("Run time {}", print_long(TimeLimit::Of(ran)))
}

fn state_word(state: JobState) -> &'static str {
    muster_slurm_syntax::state::SlurmState::from(state).name()
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::{
        EndCause, ExitReport, ExitStatus, IdleGpus, IndexRanges, JobSpec, MailSpec, Node, NodeId,
        NodeShare, Partition, Placement, StopCause, Usage,
    };
    use std::sync::Arc;

    struct Site {
        state: State,
        letters: Letters,
    }

    impl Site {
        fn new() -> Self {
            let mut site = Self { state: State::default(), letters: Letters::default() };
            let node = Node { name: "n1".to_owned(), ..Node::default() };
            site.event(0, EventKind::NodeSet { node: Box::new(node) });
            let partition = Partition { name: "main".to_owned(), ..Partition::default() };
            site.event(0, EventKind::PartitionSet { partition: Box::new(partition) });
            site
        }

        fn event(&mut self, at_s: i64, kind: EventKind) {
            let event = Event { at: Timestamp::from_secs(at_s), kind };
            self.state.apply(&event).unwrap();
            self.letters.see(&event, &self.state);
        }

        fn submit(&mut self, first: u32, events: &[&str], array: Option<u32>) {
            let spec = JobSpec {
                name: "train".to_owned(),
                time_limit: Some(TimeLimit::Of(Seconds(100))),
                mail: Some(MailSpec {
                    to: "mara@example.org".to_owned(),
                    events: events.iter().map(ToString::to_string).collect(),
                }),
                array: array.map(|n| muster_model::ArraySpec {
                    indices: IndexRanges::from_ranges([(0, n - 1)]),
                    throttle: None,
                }),
                ..JobSpec::default()
            };
            let first = JobId(first);
            self.event(0, EventKind::JobSubmitted { first, specs: vec![Arc::new(spec)] });
        }

        fn run(&mut self, id: u32, at_s: i64) {
            let job = JobId(id);
            let share = NodeShare { node: NodeId(0), tasks: 1, ..NodeShare::default() };
            let placement = Arc::new(Placement { nodes: vec![share], ..Placement::default() });
            let time_limit = TimeLimit::Of(Seconds(100));
            self.event(at_s, EventKind::JobPlaced { job, attempt: 1, placement, time_limit });
            self.event(at_s, EventKind::JobStarted { job, attempt: 1 });
        }

        fn exit(&mut self, id: u32, at_s: i64, code: u8, cause: EndCause) {
            let report = ExitReport {
                status: ExitStatus { code, signal: 0 },
                cause,
                started: None,
                ended: Timestamp::from_secs(at_s),
                usage: Usage::default(),
                message: String::new(),
                steps: Vec::new(),
            };
            self.event(at_s, EventKind::JobExited { job: JobId(id), attempt: 1, report });
        }

        fn subjects(&mut self) -> Vec<String> {
            self.letters.take().into_iter().map(|letter| letter.subject).collect()
        }
    }

    #[test]
    fn begin_and_end_are_told_in_slurms_words() {
        let mut site = Site::new();
        site.submit(1, &["BEGIN", "END", "FAIL"], None);
        site.run(1, 65);
        assert_eq!(site.subjects(), ["Slurm Job_id=1 Name=train Began, Queued time 00:01:05"]);
        site.exit(1, 75, 0, EndCause::Exited);
        assert_eq!(
            site.subjects(),
            ["Slurm Job_id=1 Name=train Ended, Run time 00:00:10, COMPLETED, ExitCode 0"]
        );
    }

    #[test]
    fn a_failure_is_told_once_and_a_cancellation_is_an_end() {
        let mut site = Site::new();
        site.submit(1, &["END", "FAIL"], None);
        site.run(1, 0);
        site.exit(1, 5, 3, EndCause::Exited);
        assert_eq!(
            site.subjects(),
            ["Slurm Job_id=1 Name=train Failed, Run time 00:00:05, FAILED, ExitCode 3"]
        );
        site.submit(2, &["END"], None);
        site.event(
            1,
            EventKind::JobStop { job: JobId(2), cause: StopCause::Cancelled(1000), hurry: false },
        );
        assert_eq!(
            site.subjects(),
            ["Slurm Job_id=2 Name=train Ended, Run time 00:00:00, CANCELLED, ExitCode 0"]
        );
    }

    #[test]
    fn an_array_is_one_mail_unless_its_tasks_are_asked_for() {
        let mut site = Site::new();
        site.submit(1, &["BEGIN", "END"], Some(2));
        site.run(1, 0);
        site.run(2, 0);
        assert_eq!(site.subjects().len(), 1);
        site.exit(1, 5, 0, EndCause::Exited);
        assert_eq!(site.subjects().len(), 0);
        site.exit(2, 6, 0, EndCause::Exited);
        assert_eq!(site.subjects().len(), 1);
        site.submit(3, &["END", "ARRAY_TASKS"], Some(2));
        for task in [3, 4] {
            site.run(task, 10);
            site.exit(task, 11, 0, EndCause::Exited);
        }
        let told = site.subjects();
        assert!(
            told[0].starts_with("Slurm Array Task Job_id=3_0 (3) Name=train Ended"),
            "{told:?}"
        );
        assert_eq!(told.len(), 2);
    }

    #[test]
    fn shares_of_the_limit_are_told_when_they_come_and_the_limit_itself() {
        let mut site = Site::new();
        site.submit(1, &["TIME_LIMIT", "TIME_LIMIT_50", "TIME_LIMIT_90"], None);
        site.run(1, 0);
        assert_eq!(site.letters.next_due(), Some(Timestamp::from_secs(50)));
        site.letters.look_at_clock(Timestamp::from_secs(49), &site.state);
        assert!(site.subjects().is_empty());
        site.letters.look_at_clock(Timestamp::from_secs(50), &site.state);
        assert!(site.subjects()[0].contains("Reached 50% of time limit"));
        assert_eq!(site.letters.next_due(), Some(Timestamp::from_secs(90)));
        site.exit(1, 100, 0, EndCause::TimeLimit);
        assert!(site.subjects()[0].contains("Reached time limit, Run time 00:01:40"));
        site.letters.look_at_clock(Timestamp::from_secs(200), &site.state);
        assert!(site.subjects().is_empty());
    }

    #[test]
    fn gpus_that_do_nothing_are_told_of() {
        let mut site = Site::new();
        site.submit(1, &["FAIL"], None);
        site.run(1, 0);
        let (job, attempt, since) = (JobId(1), 1, Timestamp::from_secs(5));
        let idle = IdleGpus { gpus: 2, since, until: None, taken_after: None };
        site.event(9, EventKind::JobIdle { job, attempt, idle: Some(idle) });
        let told = site.subjects();
        assert!(told[0].contains("Name=train Idle, its 2 GPUs do nothing, Run time"), "{told:?}");
        site.event(10, EventKind::JobIdle { job, attempt, idle: None });
        assert!(site.subjects().is_empty());
    }

    #[test]
    fn nothing_is_told_that_was_not_asked_for() {
        let mut site = Site::new();
        site.submit(1, &["FAIL"], None);
        site.run(1, 0);
        site.exit(1, 5, 0, EndCause::Exited);
        assert!(site.subjects().is_empty());
    }
}
