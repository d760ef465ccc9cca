//! The contract suite: every store passes it.
//!
//! A store's tests call [`store_contract!`](crate::store_contract) with an expression that makes a
//! fresh [`Subject`].

use crate::{Batch, Blob, HistoryQuery, HistoryRow, Store, StoreError};
use muster_model::placement::NodeShare;
use muster_model::{
    CpuSet, EndCause, Event, EventKind, ExitReport, ExitStatus, JobId, JobSpec, JobState, Mib,
    Node, NodeId, Owner, Partition, Placement, Seconds, State, TimeLimit, Timestamp, Usage,
};
use std::sync::Arc;

/// A store that can be closed and opened again.
pub trait Subject {
    /// Opens it for writing; the one opened before is dropped by then.
    ///
    /// # Errors
    /// What opening met.
    fn open(&self) -> Result<Box<dyn Store>, StoreError>;
}

/// Writes events with their state beside it.
pub struct Author {
    /// The store.
    pub store: Box<dyn Store>,
    /// The state that the store must have.
    pub state: State,
    clock: i64,
}

impl Author {
    /// Opens a subject.
    pub fn open(subject: &dyn Subject) -> Self {
        let store = subject.open().expect("the store opens");
        let state = store.load().expect("the store loads").state;
        let clock = state.now.secs();
        Self { store, state, clock }
    }

    /// Stores these events as one batch.
    pub fn write(&mut self, kinds: Vec<EventKind>) {
        let batch = self.batch(kinds);
        self.store.append(&batch).expect("the batch is stored");
    }

    /// Applies events and makes a batch of them, a second apart.
    pub fn batch(&mut self, kinds: Vec<EventKind>) -> Batch {
        let mut batch = Batch { durable: true, ..Batch::default() };
        for kind in kinds {
            self.clock += 1;
            let event = Event { at: Timestamp::from_secs(self.clock), kind };
            self.state.apply(&event).expect("the event fits");
            batch.events.push((self.state.seq, Arc::new(event)));
        }
        batch
    }

    /// A site of one node and one partition.
    pub fn site(&mut self) {
        let node = Node {
            name: "n1".to_owned(),
            cpus: CpuSet::first(8),
            memory: Mib(1024),
            ..Node::default()
        };
        let partition = Partition {
            name: "main".to_owned(),
            nodes: [node.name.clone()].into(),
            default: true,
            ..Partition::default()
        };
        self.write(vec![
            EventKind::NodeSet { node: Box::new(node) },
            EventKind::PartitionSet { partition: Box::new(partition) },
        ]);
    }

    /// Stores a submission by this user, with its blob; gives the job's id.
    pub fn submit(&mut self, user: &str, script: &str) -> JobId {
        let blob = Blob::new(script.as_bytes().to_vec());
        let spec = JobSpec {
            name: format!("job-of-{user}"),
            owner: Owner { uid: 1000, gid: 1000, user: user.to_owned() },
            account: "default".to_owned(),
            partitions: vec!["main".to_owned()],
            payload: blob.id().clone(),
            ..JobSpec::default()
        };
        let first = JobId(self.state.last_job.0 + 1);
        let mut batch =
            self.batch(vec![EventKind::JobSubmitted { first, specs: vec![Arc::new(spec)] }]);
        batch.blobs.push(blob);
        self.store.append(&batch).expect("the submission is stored");
        first
    }

    /// Stores a job's whole life from its start on, with its history.
    pub fn run(&mut self, job: JobId, code: u8) {
        let share = NodeShare {
            node: NodeId(0),
            tasks: 1,
            cpus: CpuSet::first(1),
            memory: Mib(1),
            ..NodeShare::default()
        };
        let placement =
            Placement { partition: "main".to_owned(), nodes: vec![share], ..Placement::default() };
        let report = ExitReport {
            status: ExitStatus { code, signal: 0 },
            cause: EndCause::Exited,
            started: None,
            ended: Timestamp::from_secs(self.clock + 3),
            usage: Usage::default(),
            message: String::new(),
            steps: Vec::new(),
        };
        let placed = EventKind::JobPlaced {
            job,
            attempt: 1,
            placement: Arc::new(placement),
            time_limit: TimeLimit::Of(Seconds(60)),
        };
        let mut batch = self.batch(vec![
            placed,
            EventKind::JobStarted { job, attempt: 1 },
            EventKind::JobExited { job, attempt: 1, report },
        ]);
        let ended = self.state.job(job).expect("the job is there");
        let (seq, job) = (self.state.seq, Arc::clone(ended));
        batch.history.push(HistoryRow { seq, job, requeued: false });
        self.store.append(&batch).expect("the run is stored");
    }

    fn snapshot(&self) -> crate::SnapshotReport {
        let mut snapshotter = self.store.snapshotter().expect("a snapshotter opens");
        snapshotter.snapshot(&self.state).expect("a snapshot is written")
    }

    /// Closes the store and opens it again: it must have the same state.
    #[must_use]
    pub fn reopen(self, subject: &dyn Subject) -> Self {
        let Self { store, state, .. } = self;
        drop(store);
        let again = Self::open(subject);
        assert_eq!(again.state, state);
        again
    }
}

/// A fresh store has the empty state, and nothing in it.
pub fn a_fresh_store_is_empty(subject: &dyn Subject) {
    let store = subject.open().expect("the store opens");
    let loaded = store.load().expect("the store loads");
    assert_eq!((loaded.state, loaded.snapshot, loaded.events), (State::default(), 0, 0));
    let reader = store.reader().expect("a reader opens");
    assert!(reader.history(&HistoryQuery::default()).expect("history is read").rows.is_empty());
    assert_eq!(reader.blob(Blob::new(Vec::new()).id()).expect("blobs are read"), None);
}

/// What was stored is found again.
pub fn what_was_stored_is_found_again(subject: &dyn Subject) {
    let mut author = Author::open(subject);
    author.site();
    let job = author.submit("ada", "echo 1");
    let mut author = author.reopen(subject);
    author.run(job, 0);
    let author = author.reopen(subject);
    assert_eq!(author.state.job(job).map(|j| j.state), Some(JobState::Completed));
    assert_eq!(author.store.load().expect("the store loads").events, author.state.seq);
}

/// Each opening has a higher fence.
pub fn the_fence_grows(subject: &dyn Subject) {
    let mut last = 0;
    for _ in 0..3 {
        let store = subject.open().expect("the store opens");
        assert!(store.fence() > last);
        last = store.fence();
    }
}

/// A batch that leaves a gap is refused whole.
pub fn a_gap_is_refused(subject: &dyn Subject) {
    let mut author = Author::open(subject);
    author.site();
    let before = author.state.clone();
    let mut batch = author.batch(vec![EventKind::Round, EventKind::Round]);
    batch.events.remove(0);
    let refused = author.store.append(&batch);
    assert!(matches!(refused, Err(StoreError::Gap { got: 4, expected: 3 })), "{refused:?}");
    assert_eq!(author.store.load().expect("the store loads").state, before);
}

/// Batches that need not survive the machine survive the process.
pub fn batches_that_are_not_durable_survive_the_process(subject: &dyn Subject) {
    let mut author = Author::open(subject);
    for durable in [true, false, false, true, false] {
        let mut batch = author.batch(vec![EventKind::Round]);
        batch.durable = durable;
        author.store.append(&batch).expect("the batch is stored");
    }
    let _same = author.reopen(subject);
}

/// Two snapshots are kept, and the events after the older one.
pub fn old_events_are_folded(subject: &dyn Subject) {
    let mut author = Author::open(subject);
    author.site();
    assert_eq!(author.snapshot().events_dropped, 0, "the first snapshot has none to fall back to");
    author.write(vec![EventKind::Round; 3]);
    assert_eq!(author.snapshot().events_dropped, 2);
    author.write(vec![EventKind::Round; 4]);
    assert_eq!(author.snapshot().events_dropped, 3);
    author.write(vec![EventKind::Round]);
    let mut author = author.reopen(subject);
    let loaded = author.store.load().expect("the store loads");
    assert_eq!((loaded.snapshot, loaded.events), (9, 1));
    let kept = author.store.events_after(0, 100).expect("events are read");
    assert_eq!(kept.iter().map(|e| e.0).collect::<Vec<_>>(), [6, 7, 8, 9, 10]);
    assert_eq!(author.store.events_after(7, 2).expect("events are read").len(), 2);
    assert_eq!(author.snapshot().events_dropped, 4);
    author.write(vec![EventKind::Round]);
    let _same = author.reopen(subject);
}

/// A snapshot of the same state twice is one.
pub fn the_same_snapshot_twice_is_one(subject: &dyn Subject) {
    let mut author = Author::open(subject);
    author.site();
    author.snapshot();
    author.snapshot();
    let _same = author.reopen(subject);
}

/// Blobs are there as long as a job may need them.
pub fn blobs_stay_while_they_are_needed(subject: &dyn Subject) {
    let mut author = Author::open(subject);
    author.site();
    let done = author.submit("ada", "done");
    author.submit("ada", "waits");
    author.run(done, 0);
    let reader = author.store.reader().expect("a reader opens");
    let has = |text: &str| {
        let blob = Blob::new(text.as_bytes().to_vec());
        let found = reader.blob(blob.id()).expect("blobs are read");
        found.is_some_and(|bytes| bytes == blob.bytes())
    };
    assert!(has("done") && has("waits"));
    assert_eq!(author.snapshot().blobs_dropped, 1);
    assert!(!has("done") && has("waits"));
    let again = author.submit("ada", "done");
    assert!(has("done"), "it came back with the next submission");
    author.run(again, 0);
    let state = author.state.clone();
    author.submit("bob", "done");
    let mut snapshotter = author.store.snapshotter().expect("a snapshotter opens");
    snapshotter.snapshot(&state).expect("a snapshot is written");
    assert!(has("done"), "a submission after the snapshot needs it");
}

/// History is found by each of its filters, page by page.
pub fn history_is_filtered_and_paged(subject: &dyn Subject) {
    let mut author = Author::open(subject);
    author.site();
    for i in 0..10u32 {
        let user = if i % 2 == 0 { "ada" } else { "bob" };
        let job = author.submit(user, "x");
        author.run(job, u8::from(i >= 6));
    }
    author.snapshot();
    let author = author.reopen(subject);
    let reader = author.store.reader().expect("a reader opens");
    let ids = |query: HistoryQuery| -> Vec<u32> {
        let page = reader.history(&query).expect("history is read");
        assert_eq!(page.next, None);
        page.rows.iter().map(|row| row.job.id.0).collect()
    };
    let all = HistoryQuery::default;
    assert_eq!(ids(all()), (1..=10).collect::<Vec<_>>());
    assert_eq!(ids(HistoryQuery { users: vec!["bob".into()], ..all() }), [2, 4, 6, 8, 10]);
    assert_eq!(ids(HistoryQuery { jobs: vec![JobId(3), JobId(7)], ..all() }), [3, 7]);
    assert_eq!(ids(HistoryQuery { states: vec![JobState::Failed], ..all() }), [7, 8, 9, 10]);
    assert_eq!(ids(HistoryQuery { names: vec!["job-of-ada".into()], ..all() }), [1, 3, 5, 7, 9]);
    assert_eq!(ids(HistoryQuery { partitions: vec!["none".into()], ..all() }), [0u32; 0]);
    let newest = HistoryQuery { users: vec!["ada".into()], newest: true, limit: 2, ..all() };
    assert_eq!(ids(newest), [7, 9]);
    let fifth = author.state.job(JobId(5)).and_then(|job| job.ended);
    assert_eq!(ids(HistoryQuery { ended_from: fifth, ..all() }), [5, 6, 7, 8, 9, 10]);
    let submitted = author.state.job(JobId(5)).map(|job| job.submitted);
    assert_eq!(ids(HistoryQuery { submitted_before: submitted, ..all() }), [1, 2, 3, 4]);
    pages(&*reader, &HistoryQuery { users: vec!["ada".into()], limit: 2, ..all() });
}

fn pages(reader: &dyn crate::Reader, query: &HistoryQuery) {
    let mut query = query.clone();
    let mut found = Vec::new();
    loop {
        let page = reader.history(&query).expect("history is read");
        assert!(page.rows.len() <= 2);
        found.extend(page.rows.iter().map(|row| row.job.id.0));
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    assert_eq!(found, [1, 3, 5, 7, 9]);
}

/// A snapshot may be written from another thread while the log grows.
pub fn a_snapshot_does_not_disturb_the_log(subject: &dyn Subject) {
    let mut author = Author::open(subject);
    author.site();
    for i in 0..200 {
        author.submit("ada", &format!("script {i}"));
    }
    let mut snapshotter = author.store.snapshotter().expect("a snapshotter opens");
    let state = author.state.clone();
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || snapshotter.snapshot(&state));
        for i in 0..200 {
            author.submit("bob", &format!("other {i}"));
        }
        let report = writing.join().expect("the thread ends").expect("a snapshot is written");
        assert_eq!(report.seq, 202);
    });
    let author = author.reopen(subject);
    assert_eq!(author.store.load().expect("the store loads").snapshot, 202);
}

/// Makes a test of every rule. The expression makes a fresh [`Subject`] for each.
#[macro_export]
macro_rules! store_contract {
    ($subject:expr) => {
        $crate::store_contract!(@tests $subject;
            a_fresh_store_is_empty,
            what_was_stored_is_found_again,
            the_fence_grows,
            a_gap_is_refused,
            batches_that_are_not_durable_survive_the_process,
            old_events_are_folded,
            the_same_snapshot_twice_is_one,
            blobs_stay_while_they_are_needed,
            history_is_filtered_and_paged,
            a_snapshot_does_not_disturb_the_log,
        );
    };
    (@tests $subject:expr; $($rule:ident,)*) => {
        $(
            #[test]
            fn $rule() {
                $crate::contract::$rule(&$subject);
            }
        )*
    };
}

#[cfg(test)]
mod on_memory {
    use super::*;
    use crate::memory::MemoryDisk;

    impl Subject for MemoryDisk {
        fn open(&self) -> Result<Box<dyn Store>, StoreError> {
            Ok(Box::new(MemoryDisk::open(self)))
        }
    }

    crate::store_contract!(MemoryDisk::default());
}

#[cfg(all(test, feature = "sqlite"))]
mod on_sqlite {
    use super::*;
    use crate::SqliteStore;
    use tempfile::TempDir;

    impl Subject for TempDir {
        fn open(&self) -> Result<Box<dyn Store>, StoreError> {
            Ok(Box::new(SqliteStore::open(self.path())?))
        }
    }

    crate::store_contract!(TempDir::new().expect("a directory can be made"));
}
