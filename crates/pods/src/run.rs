//! The loop: hear, plan, bind, tell.

use crate::scheduler::{Bind, Evict, Nominate, Scheduler, Tell, Turn};
use muster_engine_k8s::dra::{ClaimKey, Release, Written};
use muster_engine_k8s::lease::{Candidate, Term};
use muster_engine_k8s::mirror::{Change, Kind};
use muster_engine_k8s::write::Note;
use muster_engine_k8s::{Cluster, K8sError};
use muster_model::Timestamp;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::sleep;

/// Changes that wait to be taken in.
const QUEUE: usize = 4096;

/// After a change at least and at most so long is waited for more, so that what comes together is
/// planned together; between the two as long as the last plan took, so that planning leaves half of
/// the time to others.
const GATHER: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// Waiting pods are looked at so often, for what they are told and for what time alone changes.
const LOOK: Duration = Duration::from_secs(1);

/// A write that may go well a moment later is tried so often.
const TRIES: u32 = 5;

/// A pod that could not be bound is not planned again before this: what refuses it once may do so
/// for long.
const BACK_OFF: Duration = Duration::from_secs(1);

/// At the end, what is on its way is waited for this long.
const FINISH: Duration = Duration::from_secs(5);

/// How pods are scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The name by which pods choose this scheduler (`schedulerName`).
    pub name: String,
    /// The lease to hold; without one it schedules at once.
    pub lease: Option<Candidate>,
    /// So many writes at once.
    pub connections: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { name: "muster".to_owned(), lease: None, connections: 64 }
    }
}

/// What happened, for whoever looks on.
#[derive(Clone, Debug, PartialEq)]
pub enum Happened {
    /// It schedules from here on.
    Leads,
    /// The whole cluster is known: so many nodes and pods with a node or in the queue.
    Knows {
        /// Nodes.
        nodes: usize,
        /// Pods.
        pods: usize,
    },
    /// A turn was planned, in this time.
    Planned(Duration),
    /// It looked round, once a second.
    Looked(Seen),
    /// A pod was bound, so long after it was decided.
    Bound(Bind, Duration),
    /// A pod could not be bound, and why.
    NotBound(Bind, K8sError),
    /// A pod was told to end, so that one of higher priority gets its room.
    Evicted(Evict),
    /// A pod could not be told to end, and why: it stays.
    NotEvicted(Evict, K8sError),
    /// Room is made for so many pods, by so many.
    MakesRoom {
        /// Pods that get it.
        pods: usize,
        /// Pods that make it.
        victims: usize,
    },
    /// A pod was told why it waits.
    Told(Tell),
    /// Starts that break a rule were left out.
    Broken(Vec<String>),
}

/// What there is at one look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Nodes.
    pub nodes: usize,
    /// Pods that wait and have not been told why.
    pub active: usize,
    /// Those that have been.
    pub unschedulable: usize,
    /// Those that have scheduling gates.
    pub gated: usize,
}

/// What was tried at the API server, with its answer.
enum Tried {
    /// A binding, and how long that took from the decision on.
    Bind(Bind, Duration, Result<(), K8sError>),
    /// Telling a pod to end.
    Evict(Evict, Result<(), K8sError>),
    /// What became of the claims of a pod that was to be bound.
    Claims(Vec<(ClaimKey, Written)>),
}

/// Schedules until the term is over, or `stop` says so.
///
/// # Errors
/// [`K8sError`]: the term is over, or the cluster cannot be asked at all. Start again then: nothing
/// is lost.
pub async fn run(
    cluster: Cluster,
    settings: Settings,
    mut stop: tokio::sync::watch::Receiver<bool>,
    look_on: impl Fn(Happened) + Send + Sync + 'static,
) -> Result<(), K8sError> {
    let term = match &settings.lease {
        None => Term::alone(),
        Some(candidate) => tokio::select! {
            term = cluster.lead(candidate) => term?,
            _ = stop.changed() => return Ok(()),
        },
    };
    look_on(Happened::Leads);
    let lead = lead(&cluster, &settings, &term, stop, Arc::new(look_on)).await;
    term.end();
    if let Some(candidate) = &settings.lease {
        // Where that fails it lapses.
        let _ = cluster.resign(candidate).await;
    }
    lead
}

async fn lead<L: Fn(Happened) + Send + Sync + 'static>(
    cluster: &Cluster,
    settings: &Settings,
    term: &Term,
    stop: tokio::sync::watch::Receiver<bool>,
    look_on: Arc<L>,
) -> Result<(), K8sError> {
    // The state is filled within the term: what was known before it counts for nothing.
    let (to, changes) = mpsc::channel(QUEUE);
    let awaited = cluster.watch(to).await?;
    let writer = Writer {
        cluster: cluster.clone(),
        term: term.clone(),
        name: settings.name.clone(),
        connections: u32::try_from(settings.connections.max(1)).unwrap_or(u32::MAX),
        slots: Arc::new(Semaphore::new(settings.connections.max(1))),
    };
    let (tried_to, tried) = mpsc::unbounded_channel::<Tried>();
    let scheduler = Scheduler::new(&settings.name);
    let mut lead = Lead { scheduler, writer, tried_to, awaited, look_on, more: false };
    lead.turns(changes, tried, stop).await
}

/// One term's work.
struct Lead<L> {
    scheduler: Scheduler,
    writer: Writer,
    /// Where what was tried is told.
    tried_to: mpsc::UnboundedSender<Tried>,
    /// Kinds that are not known whole yet: nothing is planned before all are.
    awaited: BTreeSet<Kind>,
    look_on: Arc<L>,
    /// The last plan did not come to the end of the queue.
    more: bool,
}

impl<L: Fn(Happened) + Send + Sync + 'static> Lead<L> {
    /// Hears, plans and writes until the term is over or it is stopped; then nothing more is begun,
    /// and what was begun is waited for.
    async fn turns(
        &mut self,
        mut changes: mpsc::Receiver<Change>,
        mut tried: mpsc::UnboundedReceiver<Tried>,
        mut stop: tokio::sync::watch::Receiver<bool>,
    ) -> Result<(), K8sError> {
        let mut look = tokio::time::interval(LOOK);
        let (mut heard, mut gather) = (false, GATHER.0);
        let over = loop {
            tokio::select! {
                _ = stop.changed() => break Ok(()),
                () = std::future::ready(()), if self.more => heard = true,
                change = changes.recv() => {
                    let Some(change) = change else { break Ok(()) };
                    self.take(change);
                    if !self.more {
                        sleep(gather).await;
                    }
                    heard = true;
                }
                Some(one) = tried.recv() => {
                    self.settle(one);
                    heard = true;
                }
                _ = look.tick() => {
                    if let Err(over) = self.writer.term.check() {
                        break Err(over);
                    }
                    self.look();
                }
            }
            while let Ok(change) = changes.try_recv() {
                self.take(change);
            }
            while let Ok(one) = tried.try_recv() {
                self.settle(one);
            }
            if std::mem::take(&mut heard) && self.awaited.is_empty() {
                let begun = Instant::now();
                self.plan();
                gather = begun.elapsed().clamp(GATHER.0, GATHER.1);
            }
        };
        self.writer.finish().await;
        while let Ok(one) = tried.try_recv() {
            self.settle(one);
        }
        over
    }

    fn take(&mut self, change: Change) {
        let listed = if let Change::Listed(kind, _) = &change { Some(*kind) } else { None };
        if let Err(error) = self.scheduler.take(change, now()) {
            tracing::error!(%error, "what the API server told could not be taken in");
        }
        if listed.is_some_and(|kind| self.awaited.remove(&kind)) && self.awaited.is_empty() {
            let state = self.scheduler.mirror().state();
            let (nodes, pods) = (state.nodes.len(), state.jobs.len());
            (self.look_on)(Happened::Knows { nodes, pods });
        }
    }

    fn settle(&mut self, tried: Tried) {
        let (back, happened) = match tried {
            Tried::Bind(bind, took, Ok(())) => (Ok(()), Happened::Bound(bind, took)),
            Tried::Bind(bind, _, Err(error)) => {
                (self.scheduler.not_bound(bind.job, now()), Happened::NotBound(bind, error))
            }
            Tried::Claims(claims) => return self.scheduler.written(claims),
            // One that is gone makes its room as it is.
            Tried::Evict(evict, Ok(()) | Err(K8sError::Gone(_))) => {
                (Ok(()), Happened::Evicted(evict))
            }
            Tried::Evict(evict, Err(error)) => {
                (self.scheduler.stays(evict.job, now()), Happened::NotEvicted(evict, error))
            }
        };
        if let Err(error) = back {
            tracing::error!(%error, "what was not written could not be taken back");
        }
        (self.look_on)(happened);
    }

    /// What time alone changes, and what waiting pods are told.
    fn look(&mut self) {
        if !self.awaited.is_empty() {
            return;
        }
        self.plan();
        let waiting = self.scheduler.mirror().waiting();
        (self.look_on)(Happened::Looked(Seen {
            nodes: self.scheduler.mirror().state().nodes.len(),
            active: waiting.active,
            unschedulable: waiting.told,
            gated: waiting.gated,
        }));
        for release in self.scheduler.mirror().idle_claims() {
            self.writer.release(release);
        }
        for tell in self.scheduler.tell(now()) {
            self.writer.tell(tell, Arc::clone(&self.look_on));
        }
    }

    /// Plans, and begins to bind.
    fn plan(&mut self) {
        let begun = Instant::now();
        let turn = self.scheduler.turn(now()).unwrap_or_else(|error| {
            tracing::error!(%error, "a turn could not be made");
            Turn::default()
        });
        (self.look_on)(Happened::Planned(begun.elapsed()));
        if !turn.broken.is_empty() {
            (self.look_on)(Happened::Broken(turn.broken));
        }
        let pods = turn.nominate.iter().filter(|one| one.node.is_some()).count();
        if pods > 0 {
            let victims = turn.evict.len();
            (self.look_on)(Happened::MakesRoom { pods, victims });
        }
        for evict in turn.evict {
            self.writer.evict(evict, self.tried_to.clone());
        }
        for nominate in turn.nominate {
            self.writer.nominate(nominate);
        }
        for bind in turn.bind {
            self.writer.bind(bind, self.tried_to.clone());
        }
        self.more = turn.more;
    }
}

/// Writes, so many at once, as long as the term lasts.
#[derive(Clone)]
struct Writer {
    cluster: Cluster,
    term: Term,
    name: String,
    connections: u32,
    slots: Arc<Semaphore>,
}

impl Writer {
    /// Ends the term, and waits until what is on its way has been answered: whoever leads next sees
    /// it then.
    async fn finish(&self) {
        self.term.end();
        let all = self.slots.acquire_many(self.connections);
        if tokio::time::timeout(FINISH, all).await.is_err() {
            tracing::warn!("writes are still without an answer");
        }
    }

    fn bind(&self, bind: Bind, tried: mpsc::UnboundedSender<Tried>) {
        let (writer, decided) = (self.clone(), Instant::now());
        tokio::spawn(async move {
            let Ok(slot) = writer.slots.acquire().await else { return };
            let (outcome, claims) = writer.reserve_and_bind(&bind).await;
            let took = decided.elapsed();
            let note = outcome.is_ok().then(|| note_of(&bind));
            if let Some(note) = note {
                // Nobody listens any more once the term is over.
                let _ = tried.send(Tried::Claims(claims));
                let _ = tried.send(Tried::Bind(bind, took, outcome));
                let noted = writer.cluster.note(&note, &writer.name).await;
                noted.unwrap_or_else(|error| tracing::debug!(%error, "event"));
                return;
            }
            drop(slot);
            sleep(BACK_OFF).await;
            let _ = tried.send(Tried::Claims(claims));
            let _ = tried.send(Tried::Bind(bind, took, outcome));
        });
    }

    fn evict(&self, evict: Evict, tried: mpsc::UnboundedSender<Tried>) {
        let writer = self.clone();
        tokio::spawn(async move {
            let Ok(slot) = writer.slots.acquire().await else { return };
            let outcome = writer.try_evict(&evict).await;
            let told = outcome.is_ok().then(|| Note {
                pod: evict.pod.clone(),
                uid: evict.uid.clone(),
                kind: "Normal",
                reason: "Preempted",
                action: "Preempting",
                message: format!("Preempted by pod {} on node {}", evict.by, evict.node),
            });
            if outcome.is_err() {
                sleep(BACK_OFF).await;
            }
            let _ = tried.send(Tried::Evict(evict, outcome));
            if let Some(note) = told {
                let noted = writer.cluster.note(&note, &writer.name).await;
                noted.unwrap_or_else(|error| tracing::debug!(%error, "event"));
            }
            drop(slot);
        });
    }

    async fn try_evict(&self, evict: &Evict) -> Result<(), K8sError> {
        let mut wait = Duration::from_millis(50);
        for _ in 1..TRIES {
            self.term.check()?;
            match self.cluster.evict(&evict.pod, &evict.uid, &self.name).await {
                Err(error) if error.is_passing() => {}
                answer => return answer,
            }
            sleep(wait).await;
            wait *= 2;
        }
        self.term.check()?;
        self.cluster.evict(&evict.pod, &evict.uid, &self.name).await
    }

    fn nominate(&self, nominate: Nominate) {
        let writer = self.clone();
        tokio::spawn(async move {
            let Ok(_slot) = writer.slots.acquire().await else { return };
            if writer.term.check().is_err() {
                return;
            }
            let Nominate { pod, uid, node } = nominate;
            let said = writer.cluster.nominate(&pod, &uid, node.as_deref()).await;
            said.unwrap_or_else(|error| tracing::debug!(%error, %pod, "nominated node"));
        });
    }

    /// Writes the claims of a pod, then binds it; says what became of each claim.
    async fn reserve_and_bind(
        &self,
        bind: &Bind,
    ) -> (Result<(), K8sError>, Vec<(ClaimKey, Written)>) {
        let mut claims = Vec::with_capacity(bind.claims.len());
        for (at, one) in bind.claims.iter().enumerate() {
            let written = match self.term.check() {
                Ok(()) => self.cluster.reserve(one, &bind.pod, &bind.uid).await,
                Err(error) => Err((error, Written::No)),
            };
            match written {
                Ok(version) => claims.push((one.claim.clone(), Written::Yes(version))),
                Err((error, written)) => {
                    claims.push((one.claim.clone(), written));
                    let rest = bind.claims[at + 1..].iter();
                    claims.extend(rest.map(|one| (one.claim.clone(), Written::No)));
                    return (Err(error), claims);
                }
            }
        }
        (self.try_bind(bind).await, claims)
    }

    async fn try_bind(&self, bind: &Bind) -> Result<(), K8sError> {
        let mut wait = Duration::from_millis(50);
        let mut tries = 0;
        loop {
            self.term.check()?;
            let error = match self.cluster.bind(&bind.pod, &bind.uid, &bind.node).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            tries += 1;
            // It may have been carried out though nothing was heard of it, or by the try before.
            let there = self.cluster.node_of(&bind.pod, &bind.uid).await;
            match there {
                Ok(Some(node)) if node == bind.node => return Ok(()),
                Ok(Some(_)) | Err(K8sError::Gone(_)) => return Err(error),
                Ok(None) | Err(_) if error.is_passing() && tries < TRIES => {}
                Ok(None) | Err(_) => return Err(error),
            }
            sleep(wait).await;
            wait *= 2;
        }
    }

    fn release(&self, release: Release) {
        let writer = self.clone();
        tokio::spawn(async move {
            let Ok(_slot) = writer.slots.acquire().await else { return };
            if writer.term.check().is_err() {
                return;
            }
            let said = writer.cluster.release(&release).await;
            said.unwrap_or_else(|error| tracing::debug!(%error, claim = %release.claim, "release"));
        });
    }

    fn tell(&self, tell: Tell, look_on: Arc<impl Fn(Happened) + Send + Sync + 'static>) {
        let writer = self.clone();
        tokio::spawn(async move {
            let Ok(slot) = writer.slots.acquire().await else { return };
            if writer.term.check().is_err() {
                return;
            }
            let told = writer.cluster.tell(&tell.pod, &tell.uid, &tell.message).await;
            if let Err(error) = told {
                tracing::debug!(%error, pod = %tell.pod, "condition");
                return;
            }
            let note = Note {
                pod: tell.pod.clone(),
                uid: tell.uid.clone(),
                kind: "Warning",
                reason: "FailedScheduling",
                action: "Scheduling",
                message: tell.message.clone(),
            };
            let noted = writer.cluster.note(&note, &writer.name).await;
            noted.unwrap_or_else(|error| tracing::debug!(%error, "event"));
            look_on(Happened::Told(tell));
            drop(slot);
        });
    }
}

fn note_of(bind: &Bind) -> Note {
    Note {
        pod: bind.pod.clone(),
        uid: bind.uid.clone(),
        kind: "Normal",
        reason: "Scheduled",
        action: "Binding",
        message: format!("Successfully assigned {} to {}", bind.pod, bind.node),
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
