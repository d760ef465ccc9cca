//! The threads around the writer.
//!
//! One thread owns the writer; beside it are the planner, a few dispatchers, one thread for each
//! engine's listings, and one that writes snapshots. They speak over bounded channels, and the
//! writer never waits for any of them.

use crate::clock::Clock;
use crate::dispatch::{Dispatcher, Payloads, Queue};
use crate::feed::Feed;
use crate::handle::{Handle, Shared};
use crate::looping::Loop;
use crate::message::{Message, Planned};
use crate::metrics::Counters;
use crate::round::{Checking, Planners, Planning, Round};
use crate::settings::{Alarm, Settings};
use crate::writer::Writer;
use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use muster_engine::{Engine, Observation};
use muster_model::{EngineName, State, Timestamp};
use muster_store::{Snapshotter, Store, StoreError};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Messages that may wait for the writer; engines then wait.
const MESSAGES_MAX: usize = 65_536;

/// What the loop is made of.
pub struct Parts {
    /// Where events are kept.
    pub store: Box<dyn Store>,
    /// What plans.
    pub planner: Box<dyn Planning>,
    /// What judges plans.
    pub checker: Arc<dyn Checking>,
    /// What runs jobs.
    pub engines: Vec<Arc<dyn Engine>>,
    /// Where instants come from.
    pub clock: Arc<dyn Clock>,
}

/// The running loop. [`Controller::stop`] ends it.
pub struct Controller {
    handle: Handle,
    messages: Sender<Message>,
    writer: JoinHandle<Result<(), StoreError>>,
    others: Vec<JoinHandle<()>>,
}

/// A round that the planner is asked for.
pub(crate) struct PlanRequest {
    pub(crate) state: State,
    pub(crate) now: Timestamp,
}

/// Starts the loop.
///
/// # Errors
/// What loading the store met.
pub fn spawn(parts: Parts, settings: Settings) -> Result<Controller, StoreError> {
    let Parts { store, planner, checker, engines, clock } = parts;
    let reader = store.reader()?;
    let snapshotter = store.snapshotter()?;
    let final_snapshotter = store.snapshotter()?;
    let (mut writer, warnings) = Writer::open(store, clock.now())?;
    writer.set_missing_grace(settings.missing_grace);
    for engine in &engines {
        // One that cannot tell now tells with its first listing.
        if let Ok(inventory) = engine.inventory() {
            writer.raise_floor(&inventory);
        }
    }
    for why in warnings {
        (settings.alarm)(Alarm::Warning { why });
    }
    let (commands_in, commands) = bounded(settings.commands_max);
    let (messages_in, messages) = bounded(MESSAGES_MAX);
    let shared = Arc::new(Shared {
        commands: commands_in,
        state: ArcSwap::from_pointee(writer.state().clone()),
        round: ArcSwap::from_pointee(Round::default()),
        feed: Arc::new(Feed::starting_after(writer.state().seq)),
        counters: Counters::default(),
        reader,
        stopping: AtomicBool::new(false),
    });
    let queue = Arc::new(Queue::default());
    let planners = Arc::new(Planners { planner: Mutex::new(planner), checker });
    let (plans, plan_requests) = bounded(1);
    let (snapshots, snapshot_requests) = bounded(1);
    let mut others = vec![
        thread("plan", {
            let (messages, planners) = (messages_in.clone(), Arc::clone(&planners));
            move || plan_rounds(&planners, &plan_requests, &messages)
        })?,
        thread("snapshot", {
            let messages = messages_in.clone();
            move || write_snapshots(snapshotter, &snapshot_requests, &messages)
        })?,
    ];
    others.extend(dispatchers(
        &engines,
        &writer,
        &shared,
        &queue,
        &messages_in,
        &settings,
        &clock,
    )?);
    let mut listers = BTreeMap::new();
    for engine in engines {
        let (ask, asked) = bounded(1);
        listers.insert(engine.name(), ask);
        watch(engine.as_ref(), &messages_in);
        let (messages, clock) = (messages_in.clone(), Arc::clone(&clock));
        let period = settings.resync;
        others.push(thread("list", move || {
            list_engine(engine.as_ref(), clock.as_ref(), &asked, period, &messages);
        })?);
    }
    let body = Loop {
        awaited: listers.keys().cloned().collect(),
        writer,
        shared: Arc::clone(&shared),
        clock,
        settings,
        commands,
        messages,
        queue,
        plans,
        planners,
        snapshots,
        listers,
        final_snapshotter,
        progress: crate::looping::Progress::default(),
    };
    let writer = thread("writer", move || body.run())?;
    Ok(Controller { handle: Handle { shared }, messages: messages_in, writer, others })
}

impl Controller {
    /// What the rest of the daemon works with.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Ends the loop: what was accepted is stored, a snapshot is written, jobs run on.
    ///
    /// # Errors
    /// The last snapshot could not be written; the log has everything nevertheless.
    pub fn stop(self) -> Result<(), StoreError> {
        self.handle.shared.stopping.store(true, Ordering::Release);
        // Fails only where the writer is gone already.
        drop(self.messages.send(Message::Stop));
        let result = self.writer.join();
        for other in self.others {
            drop(other.join());
        }
        result.unwrap_or_else(|_| {
            Err(StoreError::Io {
                doing: "waiting for the end of thread",
                path: "writer".into(),
                source: std::io::Error::other("it ended in a panic: please report this"),
            })
        })
    }
}

fn thread<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, StoreError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(|source| StoreError::Io {
        doing: "starting a thread beside",
        path: name.into(),
        source,
    })
}

fn dispatchers(
    engines: &[Arc<dyn Engine>],
    writer: &Writer,
    shared: &Arc<Shared>,
    queue: &Arc<Queue>,
    messages: &Sender<Message>,
    settings: &Settings,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<JoinHandle<()>>, StoreError> {
    let engines: Arc<BTreeMap<EngineName, Arc<dyn Engine>>> =
        Arc::new(engines.iter().map(|e| (e.name(), Arc::clone(e))).collect());
    let payloads = Arc::new(Payloads::default());
    (0..settings.dispatchers.max(1))
        .map(|_| {
            let clock = Arc::clone(clock);
            let dispatcher = Dispatcher {
                queue: Arc::clone(queue),
                engines: Arc::clone(&engines),
                fence: writer.fence(),
                shared: Arc::clone(shared),
                payloads: Arc::clone(&payloads),
                messages: messages.clone(),
                alarm: Arc::clone(&settings.alarm),
                now: Arc::new(move || clock.now()),
            };
            thread("dispatch", move || dispatcher.run())
        })
        .collect()
}

fn watch(engine: &dyn Engine, messages: &Sender<Message>) {
    let (name, messages) = (engine.name(), messages.clone());
    engine.watch(Arc::new(move |seen: Observation| {
        // Fails only where the writer has stopped: the next one takes a listing.
        drop(messages.send(Message::Observed(name.clone(), seen)));
    }));
}

/// Lists an engine when asked, and once a period.
fn list_engine(
    engine: &dyn Engine,
    clock: &dyn Clock,
    asked: &Receiver<()>,
    period: std::time::Duration,
    messages: &Sender<Message>,
) {
    loop {
        let taken = clock.now();
        let result = engine.inventory();
        if messages.send(Message::Listed { engine: engine.name(), taken, result }).is_err() {
            return;
        }
        if asked.recv_timeout(period) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

/// Makes plans when asked, one at a time.
fn plan_rounds(planners: &Planners, requests: &Receiver<PlanRequest>, messages: &Sender<Message>) {
    for PlanRequest { state, now } in requests {
        let made = planners.round(&state, now);
        let planned = Planned { base: state, made };
        if messages.send(Message::Planned(Box::new(planned))).is_err() {
            return;
        }
    }
}

fn write_snapshots(
    mut snapshotter: Box<dyn Snapshotter>,
    requests: &Receiver<State>,
    messages: &Sender<Message>,
) {
    for state in requests {
        crate::failpoint::failpoint!("before_snapshot");
        let result = snapshotter.snapshot(&state);
        drop(state);
        crate::failpoint::failpoint!("after_snapshot");
        if messages.send(Message::Snapshotted(result)).is_err() {
            return;
        }
    }
}
