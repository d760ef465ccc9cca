//! The one writer: it alone changes the state.
//!
//! The writer has no thread and no clock of its own, so tests step it as they like; `driver` runs
//! it in the daemon. Work goes in turns: [`Writer::begin`] a turn, put commands, observations and
//! plans into it, and [`Writer::commit`] stores all of it in one transaction or none of it.

use crate::command::{self, Command, CommandError, NodeOverlay, Principal, Reply, Shapes};
use crate::decide::{self, Outcome};
use crate::failpoint::failpoint;
use crate::inventory::{self, Listing, Missing};
use crate::observe::{self, Aftermath};
use crate::orders::{self, Outgoing, orders_of};
use crate::round::Breach;
use crate::timers::Timers;
use crate::turn::Turn;
use muster_engine::{Inventory, Observation, Order};
use muster_model::{ApplyError, EngineName, Event, JobId, Plan, Seconds, State, Timestamp};
use muster_store::{Loaded, Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// A snapshot is due after so many events, or after as many as there are jobs, whichever is more.
pub const SNAPSHOT_EVENTS: u64 = 20_000;

/// The one writer.
pub struct Writer {
    store: Box<dyn Store>,
    state: State,
    overlays: BTreeMap<String, NodeOverlay>,
    missing: Missing,
    shapes: Mutex<Shapes>,
    missing_grace: Seconds,
    timers: Timers,
    snapshot_at: u64,
    /// Engines had jobs up to this one, whatever the state says: new ones come after it.
    floor: JobId,
    /// The engine that each attempt with an unacknowledged exit is on.
    exits: BTreeMap<(JobId, u32), EngineName>,
}

/// A turn, and what it asks for beside storing.
pub struct Open {
    turn: Turn,
    aftermath: Aftermath,
    exits: BTreeMap<(JobId, u32), EngineName>,
    overlays: Option<BTreeMap<String, NodeOverlay>>,
    timers_due: bool,
    orders: Vec<Outgoing>,
}

/// What a stored turn leaves to be done.
#[derive(Default)]
pub struct Committed {
    /// Its events with their numbers.
    pub events: Vec<(u64, Arc<Event>)>,
    /// Orders to send now.
    pub orders: Vec<Outgoing>,
    /// Planning has reason to look.
    pub worth_planning: bool,
    /// Engines to ask for a new listing.
    pub inventories: BTreeSet<EngineName>,
    /// Attempts that an engine runs and that the state does not know.
    pub strays: u64,
    /// It survived a power cut when this was returned.
    pub durable: bool,
    /// The configuration changed: every engine's nodes have to be described anew.
    pub reconfigured: bool,
}

impl Writer {
    /// Takes over a store with what it had.
    ///
    /// # Errors
    /// What loading met.
    pub fn open(store: Box<dyn Store>, now: Timestamp) -> Result<(Self, Vec<String>), StoreError> {
        let Loaded { state, snapshot, warnings, .. } = store.load()?;
        let timers = Timers::of_state(&state, now);
        let writer = Self {
            store,
            state,
            overlays: BTreeMap::new(),
            shapes: Mutex::default(),
            missing: Missing::default(),
            missing_grace: Seconds(20),
            timers,
            snapshot_at: snapshot,
            floor: JobId(0),
            exits: BTreeMap::new(),
        };
        Ok((writer, warnings))
    }

    /// A running job that no listing shows for so long is lost.
    pub const fn set_missing_grace(&mut self, grace: Seconds) {
        self.missing_grace = grace;
    }

    /// The state as stored.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// The store.
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// The number that goes with every order.
    pub fn fence(&self) -> u64 {
        self.store.fence()
    }

    /// Begins a turn at this instant.
    pub fn begin(&self, now: Timestamp) -> Open {
        Open {
            turn: Turn::new(&self.state, now),
            aftermath: Aftermath::default(),
            exits: BTreeMap::new(),
            overlays: None,
            timers_due: false,
            orders: Vec::new(),
        }
    }

    /// Puts a command into the turn. Where it is refused the turn is as before; where it is not,
    /// the answer holds once the turn is stored.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn command(
        &self,
        open: &mut Open,
        principal: &Principal,
        command: Command,
    ) -> Result<Reply, CommandError> {
        failpoint!("command_received");
        let overlays = match &command {
            Command::Configure(site) => Some(site.nodes.clone()),
            _ => None,
        };
        let mut meaning = {
            // Whatever a panic left is made anew where it does not fit.
            let mut shapes = self.shapes.lock().unwrap_or_else(PoisonError::into_inner);
            command::meaning(&open.turn.state, &mut shapes, open.turn.at, principal, command)?
        };
        meaning.above(self.floor)?;
        // One event is applied whole or not at all by itself.
        let savepoint = (meaning.events.len() > 1).then(|| open.turn.savepoint());
        for kind in meaning.events {
            if let Err(error) = open.turn.apply(kind) {
                if let Some(savepoint) = savepoint {
                    open.turn.go_back(savepoint);
                }
                return Err(CommandError::Fault { why: error.to_string() });
            }
        }
        open.turn.add_blobs(meaning.blobs);
        open.overlays = overlays.or(open.overlays.take());
        Ok(meaning.reply)
    }

    /// Puts what an engine saw into the turn.
    ///
    /// # Errors
    /// A fault of ours: an event does not fit and is left out. What was applied stands.
    pub fn observe(
        &self,
        open: &mut Open,
        engine: &EngineName,
        seen: Observation,
    ) -> Result<(), ApplyError> {
        failpoint!("observation_received");
        if let Observation::Exited { job, attempt, .. } = &seen {
            open.exits.insert((*job, *attempt), engine.clone());
        }
        let aftermath = observe::observe(&mut open.turn, engine, seen)?;
        open.aftermath.add(aftermath);
        Ok(())
    }

    /// Gives no id again that an engine had: the store may be older than what the engine did.
    pub fn raise_floor(&mut self, inventory: &Inventory) {
        let running = inventory.running.iter().map(|r| r.job);
        let all = running.chain(inventory.exited.iter().map(|e| e.0)).chain([inventory.highest]);
        self.floor = all.fold(self.floor, JobId::max);
    }

    /// Puts a full listing of an engine, asked for at `taken`, into the turn.
    ///
    /// # Errors
    /// As [`Writer::observe`].
    pub fn inventory(
        &mut self,
        open: &mut Open,
        engine: &EngineName,
        taken: Timestamp,
        inventory: Inventory,
    ) -> Result<(), ApplyError> {
        self.raise_floor(&inventory);
        for (job, attempt, _) in &inventory.exited {
            open.exits.insert((*job, *attempt), engine.clone());
        }
        let listing = Listing {
            engine,
            taken,
            overlays: open.overlays.as_ref().unwrap_or(&self.overlays),
            grace: self.missing_grace,
        };
        let aftermath = listing.take(&mut open.turn, inventory, &mut self.missing)?;
        open.aftermath.add(aftermath);
        Ok(())
    }

    /// Puts a plan into the turn: what of it still holds. `base` is the state that it was made from.
    ///
    /// # Errors
    /// As [`Writer::observe`].
    pub fn decide(
        &self,
        open: &mut Open,
        base: &State,
        plan: &Plan,
    ) -> Result<Outcome, ApplyError> {
        decide::apply(&mut open.turn, base, plan)
    }

    /// Puts the consequences of a refused plan into the turn: the jobs that its breaches name are
    /// held. Returns whom.
    ///
    /// # Errors
    /// As [`Writer::observe`].
    pub fn refuse(
        &self,
        open: &mut Open,
        plan: &Plan,
        breaches: &[Breach],
    ) -> Result<BTreeSet<JobId>, ApplyError> {
        decide::hold_named(&mut open.turn, plan, breaches)
    }

    /// Puts what falls due by the clock into the turn.
    ///
    /// # Errors
    /// As [`Writer::observe`].
    pub fn tick(&mut self, open: &mut Open) -> Result<(), ApplyError> {
        open.timers_due |= self.timers.run(&mut open.turn)?;
        Ok(())
    }

    /// When [`Writer::tick`] has something to do next.
    pub fn next_tick(&self) -> Option<Timestamp> {
        self.timers.next(&self.state)
    }

    /// Stores a turn.
    ///
    /// # Errors
    /// The store refused: nothing of the turn has happened.
    pub fn commit(&mut self, open: Open) -> Result<Committed, StoreError> {
        let Open { turn, aftermath, exits, overlays, timers_due, orders: more } = open;
        failpoint!("before_commit");
        if !turn.is_empty()
            && let Err(error) = self.store.append(&turn.batch)
        {
            // Timers that fired in this turn must fire again.
            self.timers = Timers::of_state(&self.state, turn.at);
            return Err(error);
        }
        failpoint!("after_commit_before_publish");
        let reconfigured = overlays.is_some();
        if let Some(overlays) = overlays {
            self.overlays = overlays;
        }
        self.state = turn.state;
        self.timers.refresh(&self.state, &turn.touched, turn.at);
        let mut orders = aftermath.orders;
        orders.extend(more);
        for id in &turn.touched {
            if let Some(job) = self.state.jobs.get(id) {
                orders.extend(orders_of(&self.state, job));
                if turn.relimited.contains(id) {
                    orders.extend(orders::limit_of(&self.state, job));
                }
            }
        }
        self.exits.extend(exits);
        orders.extend(acknowledgements(&turn.over, &mut self.exits));
        Ok(Committed {
            events: turn.batch.events,
            orders,
            worth_planning: turn.worth_planning || timers_due,
            inventories: aftermath.inventory.into_iter().collect(),
            strays: aftermath.strays,
            durable: turn.batch.durable,
            reconfigured,
        })
    }

    /// Tells an engine the limit of each of its running jobs: once after a start, since a change
    /// may have been stored and not sent.
    pub fn limits_on(&self, engine: &EngineName) -> Vec<Outgoing> {
        let active = self.state.index.active.iter().filter_map(|id| self.state.jobs.get(id));
        active
            .filter(|job| job.started.is_some())
            .filter_map(|job| orders::limit_of(&self.state, job))
            .filter(|order| order.engine == *engine)
            .collect()
    }

    /// An engine cannot be reached: its nodes are down until it is listed again.
    ///
    /// # Errors
    /// As [`Writer::observe`].
    pub fn lose_engine(
        &self,
        open: &mut Open,
        engine: &EngineName,
        why: &str,
    ) -> Result<(), ApplyError> {
        inventory::take_down(&mut open.turn, engine, why, |_| true)
    }

    /// The state to snapshot, where one is due. The next is due that much later.
    pub fn snapshot_due(&mut self) -> Option<State> {
        let step = SNAPSHOT_EVENTS.max(self.state.jobs.len() as u64);
        if self.state.seq < self.snapshot_at + step {
            return None;
        }
        self.snapshot_at = self.state.seq;
        Some(self.state.clone())
    }
}

/// Exits that are stored now: their engines may forget them.
fn acknowledgements(
    over: &BTreeSet<(JobId, u32)>,
    exits: &mut BTreeMap<(JobId, u32), EngineName>,
) -> Vec<Outgoing> {
    over.iter()
        .filter_map(|(job, attempt)| {
            let engine = exits.remove(&(*job, *attempt))?;
            let order = Order::Acknowledge { job: *job, attempt: *attempt };
            Some(Outgoing { engine, order, payload: None })
        })
        .collect()
}

impl Open {
    /// The state with everything that was put into the turn so far. It is not stored yet.
    pub const fn state(&self) -> &State {
        &self.turn.state
    }

    /// The turn's instant.
    pub const fn at(&self) -> Timestamp {
        self.turn.at
    }

    /// True where something happened in it that planning may act on.
    pub const fn worth_planning(&self) -> bool {
        self.turn.worth_planning || self.timers_due
    }

    /// What happened so far was planned for within the turn.
    pub(crate) const fn planned(&mut self) {
        self.turn.worth_planning = false;
        self.timers_due = false;
    }

    /// True where there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.turn.is_empty()
    }

    /// Adds orders to send once it is stored.
    pub(crate) fn add_orders(&mut self, orders: Vec<Outgoing>) {
        self.orders.extend(orders);
    }

    /// How many events it holds.
    pub fn len(&self) -> usize {
        self.turn.batch.events.len()
    }
}
