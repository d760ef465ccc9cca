//! Orders on their way to engines: off the writer's thread, many at once, one at a time a job.

use crate::failpoint::failpoint;
use crate::handle::Shared;
use crate::message::Message;
use crate::orders::{OrderKey, OrderKind, Outgoing};
use crate::settings::Alarm;
use crossbeam_channel::Sender;
use muster_engine::{Engine, EngineError, Observation};
use muster_model::{
    BlobId, EndCause, EngineName, ExitReport, ExitStatus, JobId, Payload, Timestamp, Usage,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The first pause before an order is tried again; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause before an order is tried again.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Dispatchers that are woken at once.
const WORDS_MAX: usize = 16;
/// Bytes of payloads kept for the next launches.
const PAYLOADS_MAX: usize = 32 << 20;

/// Orders that wait. A newer one with the same key takes an older one's place, so there are never
/// more than a few for each job that has resources.
#[derive(Default)]
pub(crate) struct Queue {
    inner: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    orders: BTreeMap<OrderKey, Entry>,
    ready: VecDeque<OrderKey>,
    later: BTreeSet<(Instant, OrderKey)>,
    busy: BTreeSet<JobId>,
    closed: bool,
}

struct Entry {
    order: Outgoing,
    tries: u32,
}

impl Queue {
    pub(crate) fn push(&self, orders: Vec<Outgoing>) {
        if orders.is_empty() {
            return;
        }
        let count = orders.len();
        let mut waiting = self.lock();
        for order in orders {
            let key = order.key();
            let old = waiting.orders.insert(key, Entry { order, tries: 0 });
            // One that waits for its next try keeps its turn.
            if old.is_none() {
                waiting.ready.push_back(key);
            }
        }
        drop(waiting);
        // One word for each order; more than there are dispatchers is no harm.
        for _ in 0..count.min(WORDS_MAX) {
            self.changed.notify_one();
        }
    }

    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// The next order whose job is not busy with another; `None` at the end.
    fn take(&self) -> Option<(Outgoing, u32)> {
        let mut waiting = self.lock();
        loop {
            if waiting.closed {
                return None;
            }
            let pause = waiting.ripen(Instant::now());
            if let Some(found) = waiting.pop() {
                return Some(found);
            }
            waiting = match pause {
                Some(pause) => {
                    self.changed
                        .wait_timeout(waiting, pause)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn done(&self, job: JobId) {
        let mut waiting = self.lock();
        waiting.busy.remove(&job);
        let more = !waiting.ready.is_empty();
        drop(waiting);
        if more {
            self.changed.notify_one();
        }
    }

    fn again(&self, order: Outgoing, tries: u32) {
        let key = order.key();
        let pause = (PAUSE_MIN * 2u32.saturating_pow(tries.min(16))).min(PAUSE_MAX);
        let mut waiting = self.lock();
        waiting.busy.remove(&key.job);
        // A newer one that came meanwhile stands in its place already.
        if let std::collections::btree_map::Entry::Vacant(entry) = waiting.orders.entry(key) {
            entry.insert(Entry { order, tries: tries + 1 });
            waiting.later.insert((Instant::now() + pause, key));
        }
        drop(waiting);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Makes ready what has waited long enough; says how long until the next.
    fn ripen(&mut self, now: Instant) -> Option<Duration> {
        while let Some((at, key)) = self.later.first().copied() {
            if at > now {
                return Some(at - now);
            }
            self.later.remove(&(at, key));
            self.ready.push_back(key);
        }
        None
    }

    fn pop(&mut self) -> Option<(Outgoing, u32)> {
        let at = self.ready.iter().position(|key| !self.busy.contains(&key.job))?;
        let key = self.ready.remove(at)?;
        let entry = self.orders.remove(&key)?;
        self.busy.insert(key.job);
        Some((entry.order, entry.tries))
    }
}

/// Sends orders until the queue is closed.
pub(crate) struct Dispatcher {
    pub(crate) queue: Arc<Queue>,
    pub(crate) engines: Arc<BTreeMap<EngineName, Arc<dyn Engine>>>,
    pub(crate) fence: u64,
    pub(crate) shared: Arc<Shared>,
    pub(crate) payloads: Arc<Payloads>,
    pub(crate) messages: Sender<Message>,
    pub(crate) alarm: Arc<dyn Fn(Alarm) + Send + Sync>,
    pub(crate) now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Dispatcher {
    pub(crate) fn run(&self) {
        while let Some((order, tries)) = self.queue.take() {
            let job = order.key().job;
            if !order.is_wanted(&self.shared.state.load()) {
                self.queue.done(job);
                continue;
            }
            match self.send(&order) {
                Ok(()) => self.queue.done(job),
                Err(EngineError::Unreachable { .. }) => {
                    self.shared.counters.orders_retried.one();
                    self.queue.again(order, tries);
                }
                Err(error) => {
                    self.refused(&order, &error);
                    self.queue.done(job);
                }
            }
        }
    }

    fn send(&self, order: &Outgoing) -> Result<(), EngineError> {
        let refused = |why| EngineError::Refused { engine: order.engine.clone(), why };
        let engine = self
            .engines
            .get(&order.engine)
            .ok_or_else(|| refused("there is no such engine here".to_owned()))?;
        let payload = match &order.payload {
            Some(id) => self.payloads.get(self.shared.reader.as_ref(), id).map_err(refused)?,
            None => Arc::default(),
        };
        failpoint!("before_order");
        engine.execute(self.fence, &order.with_payload(&payload))?;
        failpoint!("after_order");
        self.shared.counters.orders.one();
        Ok(())
    }

    /// A launch that is refused ends as an attempt that could not be launched; other refusals are
    /// an alarm, and the next listing shows what is true.
    fn refused(&self, order: &Outgoing, error: &EngineError) {
        self.shared.counters.orders_refused.one();
        let key = order.key();
        match error {
            EngineError::Refused { why, .. } if key.kind == OrderKind::Launch => {
                let report = launch_failed(why.clone(), (self.now)());
                let (job, attempt) = (key.job, key.attempt);
                let seen = Observation::Exited { job, attempt, report };
                // Fails only where the writer has stopped: the launch is tried again by the next.
                drop(self.messages.send(Message::Observed(order.engine.clone(), seen)));
            }
            EngineError::Fenced { .. } => (self.alarm)(Alarm::Fenced { why: error.to_string() }),
            _ => (self.alarm)(Alarm::OrderRefused { key, why: error.to_string() }),
        }
    }
}

fn launch_failed(why: String, now: Timestamp) -> ExitReport {
    ExitReport {
        status: ExitStatus { code: 1, signal: 0 },
        cause: EndCause::LaunchFailed,
        started: None,
        ended: now,
        usage: Usage::default(),
        message: why,
        steps: Vec::new(),
    }
}

/// The payloads of the newest launches: the tasks of an array share one.
#[derive(Default)]
pub(crate) struct Payloads(Mutex<VecDeque<(BlobId, Arc<Payload>, usize)>>);

impl Payloads {
    fn get(&self, reader: &dyn muster_store::Reader, id: &BlobId) -> Result<Arc<Payload>, String> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, payload, _)) = kept.iter().find(|(known, ..)| known == id) {
            return Ok(Arc::clone(payload));
        }
        let payload = Arc::new(crate::payload::read(reader, id)?);
        let environment: usize = payload.environment.iter().map(|(n, v)| n.len() + v.len()).sum();
        kept.push_back((id.clone(), Arc::clone(&payload), payload.script.len() + environment));
        while kept.len() > 1 && kept.iter().map(|k| k.2).sum::<usize>() > PAYLOADS_MAX {
            kept.pop_front();
        }
        while kept.len() > 256 {
            kept.pop_front();
        }
        Ok(payload)
    }
}
