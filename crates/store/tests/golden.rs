//! A small log of every released schema loads, and means what it meant.
//!
//! `MUSTER_WRITE_GOLDEN=1` writes the log of the present schema anew, for a new schema only: what
//! was released is never rewritten.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use muster_model::placement::NodeShare;
use muster_model::{
    Account, ArraySpec, Availability, CpuSet, Dependency, DependencyKind, DependencyTarget,
    DependencyTerm, Drain, EndCause, Event, EventKind, ExitReport, ExitStatus, ForeignUse, Hold,
    IndexRanges, JobId, JobSpec, JobState, JobUpdate, Joiner, Licence, Mib, Node, NodeId, Owner,
    Partition, Placement, Policy, Qos, Reason, Seconds, SignalScope, State, StepId, StepRecord,
    StopCause, TimeLimit, Timestamp, Usage,
};
use muster_store::{Batch, Blob, HistoryQuery, HistoryRow, SqliteStore, Store};
use rusqlite::Connection;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn golden(schema: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/v{schema}.sql"))
}

#[test]
fn the_log_of_schema_1_loads() {
    let dir = tempfile::tempdir().unwrap();
    if std::env::var_os("MUSTER_WRITE_GOLDEN").is_some() {
        write_golden(&golden(1));
    }
    let sql = std::fs::read_to_string(golden(1)).unwrap();
    Connection::open(dir.path().join("muster.db")).unwrap().execute_batch(&sql).unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let state = store.load().unwrap().state;
    let states: Vec<(u32, JobState)> = state.jobs.values().map(|j| (j.id.0, j.state)).collect();
    assert_eq!(
        states,
        [
            (2, JobState::Cancelled),
            (3, JobState::Running),
            (4, JobState::Pending),
            (5, JobState::Pending),
            (6, JobState::Pending),
            (7, JobState::Deadline),
        ]
    );
    let job = state.job(JobId(3)).unwrap();
    assert_eq!((job.attempt, job.signals.len(), job.steps.len()), (1, 0, 1));
    assert_eq!(job.spec.comment, "changed");
    assert_eq!(state.job(JobId(4)).unwrap().hold, Some(Hold::Admin));
    assert_eq!(state.index.arrays[&JobId(5)].throttle, Some(1));
    assert_eq!(state.nodes.len(), 1);
    let rows = store.reader().unwrap().history(&HistoryQuery::default()).unwrap().rows;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].job.state, JobState::Completed);
    let blob = Blob::new(b"golden".to_vec());
    assert_eq!(store.reader().unwrap().blob(blob.id()).unwrap().as_deref(), Some(blob.bytes()));
}

fn spec(name: &str) -> JobSpec {
    JobSpec {
        name: name.to_owned(),
        owner: Owner { uid: 1000, gid: 1000, user: "ada".to_owned() },
        account: "default".to_owned(),
        qos: "normal".to_owned(),
        partitions: vec!["main".to_owned()],
        cwd: "/home/ada".to_owned(),
        requeue: true,
        payload: Blob::new(b"golden".to_vec()).id().clone(),
        ..JobSpec::default()
    }
}

fn submitted(first: u32, specs: Vec<JobSpec>) -> EventKind {
    EventKind::JobSubmitted {
        first: JobId(first),
        specs: specs.into_iter().map(Arc::new).collect(),
    }
}

fn placed(job: u32) -> EventKind {
    let share = NodeShare {
        node: NodeId(0),
        tasks: 1,
        cpus: CpuSet::first(1),
        memory: Mib(64),
        ..NodeShare::default()
    };
    let placement =
        Placement { partition: "main".to_owned(), nodes: vec![share], ..Placement::default() };
    EventKind::JobPlaced {
        job: JobId(job),
        attempt: 1,
        placement: Arc::new(placement),
        time_limit: TimeLimit::Of(Seconds(3600)),
    }
}

fn report(cause: EndCause) -> ExitReport {
    ExitReport {
        status: ExitStatus::SUCCESS,
        cause,
        started: Some(Timestamp::from_secs(900)),
        ended: Timestamp::from_secs(1000),
        usage: Usage {
            memory_peak_kib: 5,
            cpu_user_ms: 6,
            cpu_system_ms: 7,
            gpu_memory_peak_mib: 0,
        },
        message: "done".to_owned(),
        steps: Vec::new(),
    }
}

/// Every kind of event at least once.
fn events() -> Vec<EventKind> {
    let node = |id: u32, name: &str| Node {
        id: NodeId(id),
        name: name.to_owned(),
        cpus: CpuSet::first(8),
        memory: Mib(1024),
        threads_per_core: 1,
        ..Node::default()
    };
    let foreign =
        ForeignUse { owner: "bob".into(), what: "7 python".into(), ..ForeignUse::default() };
    let drain = Drain { reason: "fan".into(), by: "root".into(), since: Timestamp::from_secs(9) };
    let down = Availability::Down { reason: "dead".into(), since: Timestamp::from_secs(9) };
    let partition = Partition {
        name: "main".into(),
        nodes: ["n1".to_owned()].into(),
        default: true,
        ..Partition::default()
    };
    let step = StepRecord {
        id: StepId::Number(0),
        name: "hostname".into(),
        tasks: 1,
        nodes: 1,
        started: Timestamp::from_secs(901),
        ended: None,
        paused_ms: 0,
        status: ExitStatus::SUCCESS,
        usage: Usage::default(),
    };
    let target = Some(DependencyTarget::Job(JobId(3)));
    let term = DependencyTerm { kind: DependencyKind::AfterOk, target, delay: Seconds(0) };
    let after = Dependency { joiner: Joiner::All, terms: vec![term] };
    let array = ArraySpec { indices: IndexRanges::from_ranges([(0, 1)]), throttle: None };
    let (one, two, three) = (JobId(1), JobId(2), JobId(3));
    vec![
        EventKind::NodeSet { node: Box::new(node(0, "n1")) },
        EventKind::NodeSet { node: Box::new(node(1, "n2")) },
        EventKind::NodeAvailability { node: NodeId(1), availability: down },
        EventKind::NodeDrain { node: NodeId(0), drain: Some(drain) },
        EventKind::NodeDrain { node: NodeId(0), drain: None },
        EventKind::NodeForeign { node: NodeId(0), foreign: vec![foreign] },
        EventKind::NodeRemoved { node: NodeId(1) },
        EventKind::PartitionSet { partition: Box::new(partition.clone()) },
        EventKind::PartitionSet {
            partition: Box::new(Partition { name: "old".into(), default: false, ..partition }),
        },
        EventKind::PartitionRemoved { name: "old".into() },
        EventKind::AccountSet { account: Account { name: "default".into(), ..Account::default() } },
        EventKind::QosSet { qos: Qos { name: "normal".into(), priority: 1, ..Qos::default() } },
        EventKind::LicenceSet {
            licence: Licence { name: "sim".into(), total: 4, ..Licence::default() },
        },
        EventKind::AccountRemoved { name: "gone".into() },
        EventKind::QosRemoved { name: "gone".into() },
        EventKind::LicenceRemoved { name: "gone".into() },
        EventKind::PolicySet { policy: Box::new(Policy { max_restarts: 3, ..Policy::default() }) },
        submitted(1, vec![spec("first")]),
        submitted(2, vec![spec("second")]),
        submitted(3, vec![spec("third")]),
        submitted(4, vec![JobSpec { dependency: Some(after), hold: true, ..spec("fourth") }]),
        submitted(5, vec![JobSpec { array: Some(array), ..spec("array") }]),
        submitted(7, vec![spec("rejected")]),
        EventKind::Round,
        placed(1),
        EventKind::JobStarted { job: one, attempt: 1 },
        EventKind::JobExited { job: one, attempt: 1, report: report(EndCause::Exited) },
        EventKind::JobStop { job: two, cause: StopCause::Cancelled(1000), hurry: false },
        placed(3),
        EventKind::JobStarted { job: three, attempt: 1 },
        EventKind::JobSuspend { job: three, suspend: true },
        EventKind::JobSuspended { job: three, attempt: 1, suspended: true },
        EventKind::JobSuspend { job: three, suspend: false },
        EventKind::JobSuspended { job: three, attempt: 1, suspended: false },
        EventKind::JobSignal { job: three, signal: 10, scope: SignalScope::All },
        EventKind::JobSignalled { job: three, number: 1 },
        EventKind::StepObserved { job: three, attempt: 1, step },
        EventKind::JobUpdated {
            job: three,
            update: Box::new(JobUpdate { comment: Some("changed".into()), ..JobUpdate::default() }),
        },
        EventKind::JobUpdated {
            job: JobId(5),
            update: Box::new(JobUpdate { array_throttle: Some(Some(1)), ..JobUpdate::default() }),
        },
        EventKind::JobHeld { job: JobId(4), hold: Hold::Admin },
        EventKind::JobHeld { job: JobId(5), hold: Hold::User },
        EventKind::JobReleased { job: JobId(5) },
        EventKind::JobRejected {
            job: JobId(7),
            reason: Reason::Deadline { at: Timestamp::from_secs(5) },
        },
        EventKind::JobsForgotten { jobs: vec![one] },
    ]
}

fn write_golden(to: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(dir.path()).unwrap();
    let mut state = State::default();
    for (second, kind) in (100..).zip(events()) {
        let event = Event { at: Timestamp::from_secs(second), kind };
        state.apply(&event).unwrap();
        let ended = matches!(event.kind, EventKind::JobExited { .. });
        let history = ended.then(|| HistoryRow {
            seq: state.seq,
            job: Arc::clone(&state.jobs[&JobId(1)]),
            requeued: false,
        });
        let first = state.seq == 1;
        let batch = Batch {
            events: vec![(state.seq, Arc::new(event))],
            blobs: first.then(|| Blob::new(b"golden".to_vec())).into_iter().collect(),
            history: history.into_iter().collect(),
            durable: true,
        };
        store.append(&batch).unwrap();
        if state.seq == 20 {
            store.snapshotter().unwrap().snapshot(&state).unwrap();
        }
    }
    drop(store);
    std::fs::write(to, dump(&dir.path().join("muster.db"))).unwrap();
}

/// The database as statements: text that can be reviewed.
fn dump(path: &Path) -> String {
    let db = Connection::open(path).unwrap();
    let number =
        |pragma: &str| -> i64 { db.pragma_query_value(None, pragma, |r| r.get(0)).unwrap() };
    let mut text = format!(
        "PRAGMA application_id = {};\nPRAGMA user_version = {};\n",
        number("application_id"),
        number("user_version")
    );
    let mut tables = db
        .prepare(
            "SELECT name, type, sql FROM sqlite_schema WHERE sql IS NOT NULL
                  AND name NOT LIKE 'sqlite_%' ORDER BY type DESC, name",
        )
        .unwrap();
    let all: Vec<(String, String, String)> = tables
        .query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    for (name, kind, sql) in all {
        writeln!(text, "{sql};").unwrap();
        if kind == "table" {
            rows(&db, &name, &mut text);
        }
    }
    text
}

fn rows(db: &Connection, table: &str, text: &mut String) {
    let columns: Vec<String> = db
        .prepare(&format!("SELECT name FROM pragma_table_info('{table}')"))
        .unwrap()
        .query_map([], |r| r.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let quoted: Vec<String> = columns.iter().map(|c| format!("quote({c})")).collect();
    let sql =
        format!("SELECT {} FROM {table} ORDER BY {}", quoted.join(" || ', ' || "), columns[0]);
    let mut query = db.prepare(&sql).unwrap();
    let values = query.query_map([], |r| r.get::<_, String>(0)).unwrap();
    for row in values {
        writeln!(text, "INSERT INTO {table} ({}) VALUES ({});", columns.join(", "), row.unwrap())
            .unwrap();
    }
}
