//! The contract suite: every engine, fakes included, passes it.
//!
//! An engine's tests call [`contract_suite!`](crate::contract_suite) with an expression that makes
//! a fresh [`Subject`]. Attempts run scripts of `/bin/sh`.

use crate::{Engine, EngineError, Inventory, Launch, Observation, Order, Running};
use muster_model::placement::NodeShare;
use muster_model::{
    CpuSet, EndCause, ExitReport, Job, JobId, JobSpec, JobState, Mib, Node, NodeId, Owner, Payload,
    Placement, Request, Seconds, SignalScope, TimeLimit, Timestamp,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long the suite waits for something that has to happen.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often it looks where no observation comes.
const GLANCE: Duration = Duration::from_millis(20);

/// Ends with code 0.
const ENDS_WELL: &str = "#!/bin/sh\nexit 0\n";
/// Ends with code 7.
const ENDS_BADLY: &str = "#!/bin/sh\nexit 7\n";
/// Runs until it is stopped.
const RUNS_ON: &str = "#!/bin/sh\nsleep 100000\n";

/// An engine under test, watched.
pub struct Subject {
    engine: Arc<dyn Engine>,
    seen: Receiver<Observation>,
    owner: Owner,
    dir: PathBuf,
    /// Makes a job that the engine cannot start.
    spoil: fn(&mut JobSpec),
    /// Whatever has to live as long as the engine does.
    keep: Vec<Box<dyn std::any::Any>>,
}

impl Subject {
    /// Watches a fresh engine. `dir` is a directory that jobs can write to; they run as root.
    pub fn new(engine: Arc<dyn Engine>, dir: impl Into<PathBuf>) -> Self {
        let (tell, seen) = channel();
        let tell = std::sync::Mutex::new(tell);
        engine.watch(Arc::new(move |observation| {
            // A test that is over listens no more.
            if let Ok(tell) = tell.lock() {
                drop(tell.send(observation));
            }
        }));
        let owner = Owner { uid: 0, gid: 0, user: "root".to_owned() };
        Self { engine, seen, owner, dir: dir.into(), spoil: nowhere, keep: Vec::new() }
    }

    /// Runs the jobs as somebody else.
    #[must_use]
    pub fn as_owner(mut self, owner: Owner) -> Self {
        self.owner = owner;
        self
    }

    /// What of a job makes it one that cannot be started, where that is not a working directory
    /// that does not exist.
    #[must_use]
    pub fn spoiled_by(mut self, spoil: fn(&mut JobSpec)) -> Self {
        self.spoil = spoil;
        self
    }

    /// Keeps something until the test is over.
    #[must_use]
    pub fn keeping(mut self, what: impl std::any::Any) -> Self {
        self.keep.push(Box::new(what));
        self
    }

    /// The order to launch a job of one CPU, attempt 1, on the engine's first node.
    pub fn launch(&self, job: u32, script: &str) -> Order {
        self.launch_of(job, script, |_| {})
    }

    /// As [`Subject::launch`], the job changed in this way.
    pub fn launch_of(&self, job: u32, script: &str, change: impl FnOnce(&mut JobSpec)) -> Order {
        let nodes = self.listing().nodes;
        let node = nodes.first().expect("the engine has a node").clone();
        let node = Arc::new(Node { id: NodeId(0), ..node });
        let cpu = node.cpus.iter().next().expect("the node has a CPU");
        let share = NodeShare {
            node: NodeId(0),
            tasks: 1,
            cpus: [cpu].into_iter().collect::<CpuSet>(),
            memory: Mib(64),
            ..NodeShare::default()
        };
        let mut spec = JobSpec {
            name: format!("contract-{job}"),
            owner: self.owner.clone(),
            account: "default".to_owned(),
            qos: "normal".to_owned(),
            partitions: vec!["main".to_owned()],
            request: Request::default(),
            cwd: self.dir.to_string_lossy().into_owned(),
            stdio: muster_model::Stdio {
                output: Some("/dev/null".to_owned()),
                ..muster_model::Stdio::default()
            },
            ..JobSpec::default()
        };
        change(&mut spec);
        let placement =
            Placement { partition: "main".to_owned(), nodes: vec![share], ..Placement::default() };
        let payload = Payload {
            script: script.to_owned(),
            environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
            umask: 0o022,
            ..Payload::default()
        };
        Order::Launch(Box::new(Launch {
            job: Arc::new(started_job(JobId(job), spec, placement)),
            nodes: vec![node],
            components: Vec::new(),
            array: None,
            payload: Arc::new(payload),
            kill_wait: Seconds(1),
        }))
    }

    /// The engine.
    pub fn engine(&self) -> &dyn Engine {
        self.engine.as_ref()
    }

    /// Gives an order that the engine has to take.
    pub fn order(&self, order: &Order) {
        self.engine.execute(1, order).expect("the engine takes the order");
    }

    /// A listing, which the engine has to give.
    pub fn listing(&self) -> Inventory {
        self.engine.inventory().expect("the engine can be listed")
    }

    /// Looks at listings until one satisfies `what`; gives what it found.
    fn wait<T>(&self, what: &str, mut look: impl FnMut(&Inventory) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let listing = self.listing();
            if let Some(found) = look(&listing) {
                return found;
            }
            assert!(Instant::now() < deadline, "no {what} within {PATIENCE:?}: {listing:?}");
            // An observation, or a glance later, look again.
            drop(self.seen.recv_timeout(GLANCE));
        }
    }

    /// How this job ended, once it has.
    pub fn wait_for_exit(&self, job: u32) -> ExitReport {
        self.wait("exit", |listing| exit_of(listing, job))
    }

    /// This job, once it runs.
    pub fn wait_for_start(&self, job: u32) -> Running {
        self.wait("start", |listing| running(listing, job).filter(|r| r.started.is_some()).cloned())
    }

    /// Stops this job.
    pub fn stop(&self, job: u32) {
        self.order(&stop(job));
    }
}

/// A working directory that does not exist.
fn nowhere(spec: &mut JobSpec) {
    "/nonexistent/muster-contract".clone_into(&mut spec.cwd);
}

fn stop(job: u32) -> Order {
    let cause = Some(muster_model::StopCause::Cancelled(0));
    Order::Stop { job: JobId(job), attempt: 1, cause, grace: Seconds(1) }
}

fn running(listing: &Inventory, job: u32) -> Option<&Running> {
    listing.running.iter().find(|r| r.job == JobId(job))
}

fn exit_of(listing: &Inventory, job: u32) -> Option<ExitReport> {
    listing.exited.iter().find(|(id, ..)| *id == JobId(job)).map(|(.., report)| report.clone())
}

fn started_job(id: JobId, spec: JobSpec, placement: Placement) -> Job {
    Job {
        id,
        spec: Arc::new(spec),
        array: None,
        het: None,
        submitted: Timestamp::default(),
        eligible: None,
        state: JobState::Starting,
        hold: None,
        time_limit: TimeLimit::Of(Seconds(3600)),
        gates: Vec::new(),
        attempt: 1,
        placement: Some(Arc::new(placement)),
        charge: Arc::default(),
        placed: None,
        placed_seq: 0,
        estimate: None,
        started: None,
        stop: None,
        signals: Vec::new(),
        signals_asked: 0,
        claim: None,
        eviction: None,
        lends: false,
        resumes: false,
        resize: None,
        turn: None,
        stands_since: None,
        resumed: None,
        paused: Seconds(0),
        paused_ms: 0,
        checkpointed: None,
        idle: None,
        preemptions: 0,
        preempted: None,
        suspend: false,
        ended: None,
        exit: None,
        message: String::new(),
        usage: muster_model::Usage::default(),
        steps: Vec::new(),
    }
}

/// Rule 1.
pub fn launching_twice_runs_once(subject: &Subject) {
    let marker = subject.dir.join(format!("contract-once-{}", std::process::id()));
    let script = format!("#!/bin/sh\necho x >> {}\nexit 0\n", marker.display());
    let launch = subject.launch(1, &script);
    subject.order(&launch);
    subject.order(&launch);
    subject.wait_for_exit(1);
    subject.order(&launch);
    let listing = subject.listing();
    assert!(running(&listing, 1).is_none(), "it runs again after its exit");
    assert_eq!(listing.exited.iter().filter(|e| e.0 == JobId(1)).count(), 1);
    if let Ok(text) = std::fs::read_to_string(&marker) {
        drop(std::fs::remove_file(&marker));
        assert_eq!(text, "x\n", "the script ran more than once");
    }
}

/// Rule 2.
pub fn stopped_before_launch_never_runs(subject: &Subject) {
    subject.stop(1);
    let report = subject.wait_for_exit(1);
    assert_eq!((report.cause, report.started), (EndCause::Stopped, None));
    subject.order(&subject.launch(1, RUNS_ON));
    assert!(running(&subject.listing(), 1).is_none(), "it was launched after its stop");
}

/// Rule 3.
pub fn accepted_attempts_are_listed(subject: &Subject) {
    subject.order(&subject.launch(1, RUNS_ON));
    subject.order(&subject.launch(2, ENDS_WELL));
    let listed = |job: u32| {
        let listing = subject.listing();
        running(&listing, job).is_some() || exit_of(&listing, job).is_some()
    };
    assert!(listed(1) && listed(2));
    subject.wait_for_exit(2);
    subject.stop(1);
    subject.wait_for_exit(1);
}

/// Rule 4.
pub fn an_exit_stays_until_acknowledged(subject: &Subject) {
    subject.order(&subject.launch(1, ENDS_BADLY));
    let report = subject.wait_for_exit(1);
    assert_eq!((report.cause, report.status.code), (EndCause::Exited, 7));
    assert!(report.started.is_some_and(|started| started <= report.ended));
    assert!(exit_of(&subject.listing(), 1).is_some(), "it is gone before it was acknowledged");
    let acknowledge = Order::Acknowledge { job: JobId(1), attempt: 1 };
    subject.order(&acknowledge);
    subject.wait("end of the record", |listing| exit_of(listing, 1).is_none().then_some(()));
    subject.order(&acknowledge);
}

/// Rule 5.
pub fn an_older_fence_is_refused(subject: &Subject) {
    let order = stop(1);
    subject.engine.execute(7, &order).expect("the first fence is taken");
    let refused = subject.engine.execute(6, &order);
    assert_eq!(refused, Err(EngineError::Fenced { fence: 6, seen: 7 }));
    subject.engine.execute(7, &order).expect("the same fence is taken");
}

/// Rule 6.
pub fn a_signal_number_is_delivered_once(subject: &Subject) {
    subject.order(&subject.launch(1, RUNS_ON));
    subject.wait_for_start(1);
    // SIGURG does nothing to those who do not expect it.
    let signal =
        Order::Signal { job: JobId(1), attempt: 1, number: 1, signal: 23, scope: SignalScope::All };
    subject.order(&signal);
    subject
        .wait("delivery", |listing| running(listing, 1).filter(|r| r.signalled >= 1).map(|_| ()));
    subject.order(&signal);
    assert_eq!(running(&subject.listing(), 1).map(|r| r.signalled), Some(1));
    subject.stop(1);
    subject.wait_for_exit(1);
}

/// Rule 7.
pub fn a_launch_that_cannot_be_is_an_exit(subject: &Subject) {
    subject.order(&subject.launch_of(1, ENDS_WELL, subject.spoil));
    let report = subject.wait_for_exit(1);
    assert_eq!(report.cause, EndCause::LaunchFailed);
    assert!(!report.message.is_empty(), "it does not say why");
}

/// Stopping ends a running attempt, and stopping again does no harm.
pub fn a_stop_ends_what_runs(subject: &Subject) {
    subject.order(&subject.launch(1, RUNS_ON));
    subject.wait_for_start(1);
    subject.stop(1);
    subject.stop(1);
    let report = subject.wait_for_exit(1);
    assert_eq!(report.cause, EndCause::Stopped);
    subject.stop(1);
    assert_eq!(exit_of(&subject.listing(), 1), Some(report));
}

/// The watcher is told of starts and exits; what ends at once may be told of by its exit alone,
/// which says when it started.
pub fn the_watcher_is_told(subject: &Subject) {
    subject.order(&subject.launch(1, ENDS_WELL));
    let deadline = Instant::now() + PATIENCE;
    let mut started = false;
    while Instant::now() < deadline {
        match subject.seen.recv_timeout(GLANCE) {
            Ok(Observation::Started { job: JobId(1), attempt: 1 }) => started = true,
            Ok(Observation::Exited { job: JobId(1), attempt: 1, report }) => {
                assert_eq!(report.cause, EndCause::Exited);
                assert!(started || report.started.is_some(), "nothing tells of the start");
                return;
            }
            _ => {}
        }
    }
    panic!("the watcher was not told of the exit within {PATIENCE:?}");
}

/// An engine that suspends makes an attempt stand still and go on.
pub fn suspended_attempts_stand_still(subject: &Subject) {
    if !subject.engine.capabilities().suspends {
        eprintln!("skipped: the {} engine does not suspend", subject.engine.name());
        return;
    }
    subject.order(&subject.launch(1, RUNS_ON));
    subject.wait_for_start(1);
    for suspend in [true, true, false, false] {
        subject.order(&Order::Suspend { job: JobId(1), attempt: 1, suspend });
        subject.wait("change", |listing| {
            running(listing, 1).filter(|r| r.suspended == suspend).map(|_| ())
        });
    }
    subject.stop(1);
    subject.wait_for_exit(1);
}

/// A running attempt's limit can be cut down.
pub fn a_limit_ends_an_attempt(subject: &Subject) {
    subject.order(&subject.launch(1, RUNS_ON));
    subject.wait_for_start(1);
    subject.order(&Order::Limit { job: JobId(1), attempt: 1, limit: TimeLimit::Of(Seconds(1)) });
    let limited =
        |listing: &Inventory| exit_of(listing, 1).is_some() || running(listing, 1).is_some();
    assert!(limited(&subject.listing()));
    subject.stop(1);
    let cause = subject.wait_for_exit(1).cause;
    assert!(matches!(cause, EndCause::Stopped | EndCause::TimeLimit), "{cause:?}");
}

/// What `contract_suite!` takes: a subject, or none where this machine has nothing to test on.
pub trait MaybeSubject {
    /// The subject, where there is one.
    fn subject(self) -> Option<Subject>;
}

impl MaybeSubject for Subject {
    fn subject(self) -> Option<Subject> {
        Some(self)
    }
}

impl MaybeSubject for Option<Subject> {
    fn subject(self) -> Option<Subject> {
        self
    }
}

/// Makes a test of every rule. The expression makes a fresh [`Subject`] for each, or an
/// `Option` of one: `None`, with a line that says why, where there is nothing to test on.
#[macro_export]
macro_rules! contract_suite {
    ($subject:expr) => {
        $crate::contract_suite!(@tests $subject;
            launching_twice_runs_once,
            stopped_before_launch_never_runs,
            accepted_attempts_are_listed,
            an_exit_stays_until_acknowledged,
            an_older_fence_is_refused,
            a_signal_number_is_delivered_once,
            a_launch_that_cannot_be_is_an_exit,
            a_stop_ends_what_runs,
            the_watcher_is_told,
            suspended_attempts_stand_still,
            a_limit_ends_an_attempt,
        );
    };
    (@tests $subject:expr; $($rule:ident,)*) => {
        mod contract_rules {
            use super::*;
            $(
                #[test]
                fn $rule() {
                    if let Some(subject) = $crate::contract::MaybeSubject::subject($subject) {
                        $crate::contract::$rule(&subject);
                    }
                }
            )*
        }
    };
}
