//! Dependencies as facts of the state: when a job becomes free to start, and when it never can.
//!
//! The cases are S-17 to S-22 and S-43 of the project's scheduling cases; what submission refuses
//! (S-18, S-19 a and b, S-23) is tested where submissions are judged.

use muster_model::{
    ArraySpec, Dependency, DependencyKind, DependencyTarget, DependencyTerm, EndCause, Event,
    EventKind, ExitReport, ExitStatus, GateStatus, Hold, IndexRanges, JobId, JobSpec, JobState,
    JobUpdate, Joiner, Node, NodeId, NodeShare, Owner, Placement, Seconds, State, StopCause,
    TimeLimit, Timestamp, Usage,
};
use std::sync::Arc;

/// A state with one node and a clock in minutes.
#[derive(Default)]
struct Cluster {
    state: State,
    minute: i64,
}

fn at(minute: i64) -> Timestamp {
    Timestamp::from_secs(minute * 60)
}

/// A term on a job: `(kind, id, delay in minutes)`.
fn term(kind: DependencyKind, job: JobId, delay: u64) -> DependencyTerm {
    let target = Some(DependencyTarget::Job(job));
    DependencyTerm { kind, target, delay: Seconds::minutes(delay) }
}

fn on(kind: DependencyKind, job: JobId) -> Dependency {
    Dependency { joiner: Joiner::All, terms: vec![term(kind, job, 0)] }
}

fn singleton() -> Dependency {
    let term = DependencyTerm { kind: DependencyKind::Singleton, target: None, delay: Seconds(0) };
    Dependency { joiner: Joiner::All, terms: vec![term] }
}

impl Cluster {
    fn new() -> Self {
        let mut cluster = Self::default();
        let node = Node { name: "n1".to_owned(), ..Node::default() };
        cluster.event(EventKind::NodeSet { node: Box::new(node) });
        cluster
    }

    fn event(&mut self, kind: EventKind) {
        self.state.apply(&Event { at: at(self.minute), kind }).expect("the event fits");
    }

    fn submit(&mut self, spec: JobSpec) -> JobId {
        let first = JobId(self.state.last_job.0 + 1);
        self.event(EventKind::JobSubmitted { first, specs: vec![Arc::new(spec)] });
        first
    }

    fn plain(&mut self) -> JobId {
        let name = format!("job{}", self.state.last_job.0 + 1);
        self.submit(JobSpec { name, ..JobSpec::default() })
    }

    fn after(&mut self, dependency: Dependency) -> JobId {
        let dependency = Some(dependency);
        let name = format!("job{}", self.state.last_job.0 + 1);
        self.submit(JobSpec { name, dependency, ..JobSpec::default() })
    }

    fn array(&mut self, tasks: u32, dependency: Option<Dependency>) -> JobId {
        let indices = IndexRanges::from_ranges([(0, tasks - 1)]);
        let array = Some(ArraySpec { indices, throttle: None });
        let name = format!("array{}", self.state.last_job.0 + 1);
        self.submit(JobSpec { name, array, dependency, ..JobSpec::default() })
    }

    fn place(&mut self, job: JobId) {
        let attempt = self.state.jobs[&job].attempt + 1;
        let share = NodeShare { node: NodeId(0), tasks: 1, ..NodeShare::default() };
        let placement = Arc::new(Placement { nodes: vec![share], ..Placement::default() });
        let time_limit = TimeLimit::Unlimited;
        self.event(EventKind::JobPlaced { job, attempt, placement, time_limit });
    }

    fn run(&mut self, job: JobId) {
        self.place(job);
        let attempt = self.state.jobs[&job].attempt;
        self.event(EventKind::JobStarted { job, attempt });
    }

    fn exit(&mut self, job: JobId, code: u8) {
        self.end(job, code, EndCause::Exited);
    }

    fn end(&mut self, job: JobId, code: u8, cause: EndCause) {
        let record = self.state.jobs[&job].clone();
        let report = ExitReport {
            status: ExitStatus { code, signal: 0 },
            cause,
            started: record.started,
            ended: at(self.minute),
            usage: Usage::default(),
            message: String::new(),
            steps: Vec::new(),
        };
        self.event(EventKind::JobExited { job, attempt: record.attempt, report });
    }

    fn run_and_exit(&mut self, job: JobId, code: u8) {
        self.run(job);
        self.exit(job, code);
    }

    fn cancel(&mut self, job: JobId) {
        self.event(EventKind::JobStop { job, cause: StopCause::Cancelled(0), hurry: false });
    }

    /// Free to start by now.
    fn is_free(&self, job: JobId) -> bool {
        self.state.jobs[&job].eligible.is_some_and(|e| e <= at(self.minute))
    }

    fn is_hopeless(&self, job: JobId) -> bool {
        self.state.jobs[&job].dependency_is_hopeless()
    }
}

#[test]
fn one_failed_term_decides_under_all_and_one_met_term_under_any() {
    // S-17.
    let mut c = Cluster::new();
    let (good, bad, runs) = (c.plain(), c.plain(), c.plain());
    c.run_and_exit(good, 0);
    c.run_and_exit(bad, 1);
    c.run(runs);
    let terms = vec![
        term(DependencyKind::AfterOk, good, 0),
        term(DependencyKind::AfterOk, bad, 0),
        term(DependencyKind::AfterAny, runs, 0),
    ];
    let all = c.after(Dependency { joiner: Joiner::All, terms: terms.clone() });
    let any = c.after(Dependency { joiner: Joiner::Any, terms });
    assert!(c.is_hopeless(all) && !c.is_free(all));
    assert!(c.is_free(any) && !c.is_hopeless(any));
}

#[test]
fn under_any_all_terms_must_fail_before_it_is_hopeless() {
    let mut c = Cluster::new();
    let (a, b) = (c.plain(), c.plain());
    let terms = vec![term(DependencyKind::AfterOk, a, 0), term(DependencyKind::AfterOk, b, 0)];
    let any = c.after(Dependency { joiner: Joiner::Any, terms });
    c.run_and_exit(a, 1);
    assert!(!c.is_hopeless(any) && !c.is_free(any));
    c.run_and_exit(b, 1);
    assert!(c.is_hopeless(any));
}

#[test]
fn each_kind_asks_its_own_question() {
    let kinds = [
        // kind, met by success, by failure, by cancellation before the start
        (DependencyKind::After, true, true, true),
        (DependencyKind::AfterAny, true, true, true),
        (DependencyKind::AfterOk, true, false, false),
        (DependencyKind::AfterNotOk, false, true, true),
        (DependencyKind::AfterCorr, true, false, false),
    ];
    for (kind, by_success, by_failure, by_cancel) in kinds {
        for (how, met) in [("ok", by_success), ("fail", by_failure), ("cancel", by_cancel)] {
            let mut c = Cluster::new();
            let target = c.plain();
            let job = c.after(on(kind, target));
            assert!(!c.is_free(job) && !c.is_hopeless(job), "{kind} before {how}");
            match how {
                "ok" => c.run_and_exit(target, 0),
                "fail" => c.run_and_exit(target, 3),
                _ => c.cancel(target),
            }
            assert_eq!(c.is_free(job), met, "{kind} after {how}");
            assert_eq!(c.is_hopeless(job), !met, "{kind} after {how}");
        }
    }
}

#[test]
fn a_start_is_what_runs_and_a_delay_counts_from_there() {
    let mut c = Cluster::new();
    let target = c.plain();
    let terms = vec![term(DependencyKind::After, target, 5)];
    let job = c.after(Dependency { joiner: Joiner::All, terms });
    c.place(target);
    assert_eq!(c.state.jobs[&job].eligible, None, "placed is not begun");
    c.minute = 10;
    let attempt = c.state.jobs[&target].attempt;
    c.event(EventKind::JobStarted { job: target, attempt });
    assert_eq!(c.state.jobs[&job].eligible, Some(at(15)));
    assert!(!c.is_free(job));
    c.minute = 15;
    assert!(c.is_free(job));
}

#[test]
fn what_is_unknown_or_forgotten_can_only_have_ended() {
    // S-19.
    for forgotten in [false, true] {
        let mut c = Cluster::new();
        let mut target = JobId(999_999);
        if forgotten {
            target = c.plain();
            c.run_and_exit(target, 0);
            c.event(EventKind::JobsForgotten { jobs: vec![target] });
        }
        let ok = c.after(on(DependencyKind::AfterOk, target));
        let not_ok = c.after(on(DependencyKind::AfterNotOk, target));
        let any = c.after(on(DependencyKind::AfterAny, target));
        assert!(c.is_hopeless(ok) && c.is_hopeless(not_ok));
        assert!(c.is_free(any));
    }
}

#[test]
fn a_settled_gate_outlives_its_target() {
    let mut c = Cluster::new();
    let (target, other) = (c.plain(), c.plain());
    let terms =
        vec![term(DependencyKind::AfterOk, target, 0), term(DependencyKind::AfterOk, other, 0)];
    let job = c.after(Dependency { joiner: Joiner::All, terms });
    c.run_and_exit(target, 0);
    c.event(EventKind::JobsForgotten { jobs: vec![target] });
    assert!(!c.is_free(job));
    c.run_and_exit(other, 0);
    assert!(c.is_free(job));
}

#[test]
fn a_whole_array_is_met_after_its_last_task_and_fails_with_its_first() {
    // S-20.
    let mut c = Cluster::new();
    let array = c.array(3, None);
    let task = |n: u32| JobId(array.0 + n);
    let ok = c.after(on(DependencyKind::AfterOk, array));
    let any = c.after(on(DependencyKind::AfterAny, array));
    let not_ok = c.after(on(DependencyKind::AfterNotOk, array));
    let target = Some(DependencyTarget::Tasks(array, IndexRanges::from_ranges([(1, 1)])));
    let kind = DependencyKind::AfterOk;
    let terms = vec![DependencyTerm { kind, target, delay: Seconds(0) }];
    let one = c.after(Dependency { joiner: Joiner::All, terms });
    c.run_and_exit(task(0), 0);
    assert!(![ok, any, not_ok, one].iter().any(|j| c.is_free(*j) || c.is_hopeless(*j)));
    c.run_and_exit(task(1), 1);
    assert!(c.is_hopeless(ok) && c.is_hopeless(one));
    assert!(!c.is_free(any) && !c.is_free(not_ok));
    c.run_and_exit(task(2), 0);
    assert!(c.is_free(any) && c.is_free(not_ok));

    let array = c.array(3, None);
    let ok = c.after(on(DependencyKind::AfterOk, array));
    for n in 0..3 {
        assert!(!c.is_free(ok));
        c.run_and_exit(JobId(array.0 + n), 0);
    }
    assert!(c.is_free(ok));
}

#[test]
fn a_task_waits_for_its_partner_and_without_one_for_all() {
    // S-21: parent 0 running, 1 completed, 2 failed; child 3 has no partner.
    let mut c = Cluster::new();
    let parent = c.array(3, None);
    c.run(parent);
    c.run_and_exit(JobId(parent.0 + 1), 0);
    c.run_and_exit(JobId(parent.0 + 2), 1);
    let child = c.array(4, Some(on(DependencyKind::AfterCorr, parent)));
    let task = |n: u32| JobId(child.0 + n);
    assert!(c.is_free(task(1)));
    assert!(!c.is_free(task(0)) && !c.is_hopeless(task(0)));
    assert!(c.is_hopeless(task(2)) && c.is_hopeless(task(3)));
    c.exit(parent, 0);
    assert!(c.is_free(task(0)));
}

#[test]
fn a_singleton_goes_by_user_and_name_and_order() {
    // S-22.
    let mut c = Cluster::new();
    let mut submit = |user: u32, name: &str| {
        c.submit(JobSpec {
            name: name.to_owned(),
            owner: Owner { uid: user, ..Owner::default() },
            dependency: Some(singleton()),
            ..JobSpec::default()
        })
    };
    let (first, second, third) = (submit(1, "nightly"), submit(1, "nightly"), submit(1, "nightly"));
    let (other_user, other_name) = (submit(2, "nightly"), submit(1, "weekly"));
    assert!(c.is_free(first) && c.is_free(other_user) && c.is_free(other_name));
    assert!(!c.is_free(second) && !c.is_free(third));
    c.run(first);
    let attempt = 1;
    c.event(EventKind::JobSuspended { job: first, attempt, suspended: true });
    assert_eq!(c.state.jobs[&first].state, JobState::Suspended);
    assert!(!c.is_free(second), "a suspended job still blocks");
    c.event(EventKind::JobSuspended { job: first, attempt, suspended: false });
    c.exit(first, 7);
    assert!(c.is_free(second) && !c.is_free(third), "ended in any way");
    // One in the middle that is cancelled lets the next go.
    c.cancel(second);
    assert!(c.is_free(third));
}

#[test]
fn a_job_that_is_put_back_has_not_ended() {
    let mut c = Cluster::new();
    let name = "again".to_owned();
    let target = c.submit(JobSpec { name, requeue: true, ..JobSpec::default() });
    let job = c.after(on(DependencyKind::AfterAny, target));
    c.run(target);
    c.end(target, 0, EndCause::NodeLost);
    assert_eq!(c.state.jobs[&target].state, JobState::Pending);
    assert!(!c.is_free(job) && c.is_free(target));
    c.run_and_exit(target, 0);
    assert!(c.is_free(job));
}

#[test]
fn time_free_to_start_counts_from_when_it_became_so() {
    // S-43: at t=150 each has been free for 50 minutes, and stays so.
    let mut c = Cluster::new();
    let target = c.plain();
    c.run(target);
    let waits = c.after(on(DependencyKind::AfterAny, target));
    let held = c.submit(JobSpec { name: "held".to_owned(), hold: true, ..JobSpec::default() });
    let begin = Some(at(100));
    let begins = c.submit(JobSpec { name: "begins".to_owned(), begin, ..JobSpec::default() });
    assert_eq!(c.state.jobs[&begins].eligible, begin);
    c.minute = 100;
    c.exit(target, 0);
    c.event(EventKind::JobReleased { job: held });
    c.minute = 150;
    c.event(EventKind::Round);
    for job in [waits, held, begins] {
        assert_eq!(c.state.jobs[&job].eligible, Some(at(100)), "job {job}");
    }
    c.event(EventKind::JobHeld { job: waits, hold: Hold::User });
    assert_eq!(c.state.jobs[&waits].eligible, None);
    c.minute = 160;
    c.event(EventKind::JobReleased { job: waits });
    assert_eq!(c.state.jobs[&waits].eligible, Some(at(160)));
}

#[test]
fn an_earlier_begin_time_counts() {
    let mut c = Cluster::new();
    let spec = JobSpec { name: "j".to_owned(), begin: Some(at(100)), ..JobSpec::default() };
    let job = c.submit(spec.clone());
    c.minute = 10;
    let sooner = Some(Arc::new(JobSpec { begin: Some(at(50)), ..spec.clone() }));
    let update = JobUpdate { spec: sooner, ..JobUpdate::default() };
    c.event(EventKind::JobUpdated { job, update: Box::new(update) });
    assert_eq!(c.state.jobs[&job].eligible, Some(at(50)));
    let at_once = Some(Arc::new(JobSpec { begin: None, ..spec }));
    let update = JobUpdate { spec: at_once, ..JobUpdate::default() };
    c.event(EventKind::JobUpdated { job, update: Box::new(update) });
    assert_eq!(c.state.jobs[&job].eligible, Some(at(10)));
}

#[test]
fn a_changed_dependency_takes_the_place_of_the_old_one() {
    let mut c = Cluster::new();
    let (a, b) = (c.plain(), c.plain());
    let job = c.after(on(DependencyKind::AfterOk, a));
    let mut spec = c.state.jobs[&job].spec.as_ref().clone();
    spec.dependency = Some(on(DependencyKind::AfterOk, b));
    let update = JobUpdate { spec: Some(Arc::new(spec.clone())), ..JobUpdate::default() };
    c.event(EventKind::JobUpdated { job, update: Box::new(update) });
    c.run_and_exit(a, 1);
    assert!(!c.is_hopeless(job), "the old target no longer matters");
    c.run_and_exit(b, 0);
    assert!(c.is_free(job));
    spec.dependency = None;
    let update = JobUpdate { spec: Some(Arc::new(spec)), ..JobUpdate::default() };
    c.event(EventKind::JobUpdated { job, update: Box::new(update) });
    assert!(c.state.jobs[&job].gates.is_empty() && c.is_free(job));
}

#[test]
fn gates_are_settled_once() {
    let mut c = Cluster::new();
    let target = c.plain();
    let job = c.after(on(DependencyKind::AfterAny, target));
    c.minute = 5;
    c.run_and_exit(target, 0);
    assert_eq!(c.state.jobs[&job].gates[0].status, GateStatus::Met(at(5)));
    c.minute = 9;
    c.event(EventKind::JobsForgotten { jobs: vec![target] });
    assert_eq!(c.state.jobs[&job].gates[0].status, GateStatus::Met(at(5)));
}

#[test]
fn a_job_that_loses_its_node_too_often_is_held_for_somebody_to_look_at() {
    let mut c = Cluster::new();
    let spec = JobSpec { name: "worn".to_owned(), requeue: true, ..JobSpec::default() };
    let job = c.submit(spec);
    for _ in 0..=c.state.policy.max_restarts {
        assert!(c.is_free(job), "it may not start again");
        c.run(job);
        c.end(job, 0, EndCause::NodeLost);
    }
    let record = &c.state.jobs[&job];
    assert_eq!(record.state, JobState::Pending);
    assert!(matches!(record.hold, Some(Hold::System(_))), "{:?}", record.hold);
    c.event(EventKind::JobReleased { job });
    assert!(c.is_free(job));
}

/// S-43: what is changed while it waits, other than when it may start, makes it no younger.
#[test]
fn a_change_of_a_waiting_job_keeps_its_age() {
    let mut cluster = Cluster::new();
    let job = cluster.plain();
    cluster.minute = 40;
    let spec = JobSpec { site_factor: 500, ..cluster.state.jobs[&job].spec.as_ref().clone() };
    let update = JobUpdate { spec: Some(Arc::new(spec)), ..JobUpdate::default() };
    cluster.event(EventKind::JobUpdated { job, update: Box::new(update) });
    assert_eq!(cluster.state.jobs[&job].eligible, Some(at(0)));
}
