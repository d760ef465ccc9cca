//! A writer with a small site, stepped by hand.

use super::{job, nodes, root, site, user};
use muster_control::command::{Command, CommandError, JobRef, Principal, Reply, Submission};
use muster_control::{Outgoing, Writer};
use muster_engine::{Inventory, Observation};
use muster_model::placement::NodeShare;
use muster_model::{
    CpuSet, Decision, Dependency, DependencyKind, DependencyTarget, DependencyTerm, EndCause,
    EngineName, ExitReport, ExitStatus, Job, JobId, Joiner, Licence, Placement, Plan, Seconds,
    Start, State, TimeLimit, Timestamp, Usage,
};
use muster_store::MemoryStore;
use std::sync::Arc;

/// A writer with a site of two nodes of four CPUs, stepped by hand.
pub(crate) struct Desk {
    pub(crate) writer: Writer,
    pub(crate) now: Timestamp,
    pub(crate) orders: Vec<Outgoing>,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let now = Timestamp::from_secs(1000);
        let (writer, _) = Writer::open(Box::new(MemoryStore::default()), now).unwrap();
        let mut desk = Self { writer, now, orders: Vec::new() };
        let mut site = site(&nodes(2, 4));
        site.licences = vec![Licence { name: "sim".to_owned(), total: 4, ..Licence::default() }];
        desk.ask(&root(), Command::Configure(Box::new(site))).unwrap();
        let mut open = desk.writer.begin(now);
        let listing = Inventory { nodes: nodes(2, 4), ..Inventory::default() };
        desk.writer.inventory(&mut open, &EngineName::local(), now, listing).unwrap();
        desk.writer.commit(open).unwrap();
        desk
    }

    pub(crate) fn state(&self) -> &State {
        self.writer.state()
    }

    pub(crate) fn job(&self, id: u32) -> &Job {
        self.state().job(JobId(id)).unwrap()
    }

    pub(crate) fn ask(&mut self, who: &Principal, command: Command) -> Result<Reply, CommandError> {
        let mut open = self.writer.begin(self.now);
        let reply = self.writer.command(&mut open, who, command)?;
        self.orders = self.writer.commit(open).unwrap().orders;
        Ok(reply)
    }

    pub(crate) fn submit(
        &mut self,
        who: &Principal,
        submission: Submission,
    ) -> Result<u32, CommandError> {
        match self.ask(who, Command::Submit(Box::new(submission)))? {
            Reply::Submitted { id, .. } => Ok(id.0),
            other => panic!("{other:?}"),
        }
    }

    /// Submits a job of user 1000 that was changed in one way.
    pub(crate) fn try_with(
        &mut self,
        change: impl FnOnce(&mut Submission),
    ) -> Result<u32, CommandError> {
        let mut submission = job(&user(1000), "exit 0");
        change(&mut submission);
        self.submit(&user(1000), submission)
    }

    pub(crate) fn plain(&mut self) -> u32 {
        self.try_with(|_| {}).unwrap()
    }

    /// Starts a job on the first node.
    pub(crate) fn start(&mut self, ids: &[u32]) {
        let base = self.state().clone();
        let starts = ids.iter().enumerate().map(|(cpu, id)| {
            let share = NodeShare {
                node: muster_model::NodeId(0),
                tasks: 1,
                cpus: [cpu as u32].into_iter().collect::<CpuSet>(),
                ..NodeShare::default()
            };
            Start {
                job: JobId(*id),
                attempt: base.job(JobId(*id)).unwrap().attempt + 1,
                placement: Arc::new(Placement {
                    partition: "main".to_owned(),
                    nodes: vec![share],
                    ..Placement::default()
                }),
                time_limit: TimeLimit::Of(Seconds(600)),
                turn: None,
            }
        });
        let decisions = vec![Decision::Start(starts.collect())];
        let plan = Plan { now: self.now, seq: base.seq, decisions, ..Plan::default() };
        let mut open = self.writer.begin(self.now);
        assert_eq!(self.writer.decide(&mut open, &base, &plan).unwrap().applied, 1);
        self.orders = self.writer.commit(open).unwrap().orders;
        for id in ids {
            self.see(Observation::Started { job: JobId(*id), attempt: self.job(*id).attempt });
        }
    }

    pub(crate) fn see(&mut self, seen: Observation) {
        let mut open = self.writer.begin(self.now);
        self.writer.observe(&mut open, &EngineName::local(), seen).unwrap();
        self.orders = self.writer.commit(open).unwrap().orders;
    }

    pub(crate) fn end(&mut self, id: u32, code: u8, cause: EndCause) {
        let report = ExitReport {
            status: ExitStatus { code, signal: 0 },
            cause,
            started: None,
            ended: self.now,
            usage: Usage::default(),
            message: String::new(),
            steps: Vec::new(),
        };
        self.see(Observation::Exited { job: JobId(id), attempt: self.job(id).attempt, report });
    }
}

pub(crate) fn one(id: u32) -> Vec<JobRef> {
    vec![JobRef::Id(JobId(id))]
}

pub(crate) fn after(kind: DependencyKind, id: u32) -> Dependency {
    let target = Some(DependencyTarget::Job(JobId(id)));
    let term = DependencyTerm { kind, target, delay: Seconds(0) };
    Dependency { joiner: Joiner::All, terms: vec![term] }
}
