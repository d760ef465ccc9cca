//! The writer's thread: wait for something, take all of it into one turn, store it, tell everybody.

use crate::clock::Clock;
use crate::command::{CommandError, Reply};
use crate::dispatch::Queue;
use crate::driver::PlanRequest;
use crate::failpoint::failpoint;
use crate::handle::{ReplyTo, Request, Shared};
use crate::message::{Message, Planned};
use crate::round::{Made, Planners, Round};
use crate::settings::{Alarm, Settings};
use crate::writer::{Committed, Open, Writer};
use crossbeam_channel::{Receiver, Sender, select};
use muster_engine::{EngineError, Inventory};
use muster_model::{EngineName, State, Timestamp};
use muster_store::{SnapshotReport, Snapshotter, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Rounds that took at most so long are made within the turn, and stored with what led to them.
const INLINE_MAX: Duration = Duration::from_micros(500);
/// So many waiting jobs are few, whatever there were at the last round.
const INLINE_JOBS: usize = 1000;
/// The writer rests so long after the store refused, as far as nobody asks anything.
const STORE_PAUSE: Duration = Duration::from_secs(1);
/// A round that took long is followed by a rest as long, up to this.
const REST_MAX: Duration = Duration::from_secs(1);
/// An engine that could not be listed so often in a row takes its nodes down.
const LISTINGS_FAILED_MAX: u32 = 3;
/// The longest wait where nothing is due.
const WAIT_MAX: Duration = Duration::from_mins(1);

/// The writer's thread.
pub(crate) struct Loop {
    pub(crate) writer: Writer,
    pub(crate) shared: Arc<Shared>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) commands: Receiver<Request>,
    pub(crate) messages: Receiver<Message>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) plans: Sender<PlanRequest>,
    pub(crate) planners: Arc<Planners>,
    pub(crate) snapshots: Sender<State>,
    pub(crate) listers: BTreeMap<EngineName, Sender<()>>,
    pub(crate) final_snapshotter: Box<dyn Snapshotter>,
    /// Engines that were not listed since the start: no planning before they are.
    pub(crate) awaited: BTreeSet<EngineName>,
    pub(crate) progress: Progress,
}

/// Where the loop stands.
#[derive(Default)]
pub(crate) struct Progress {
    stopped: bool,
    planning: bool,
    plan_wanted: bool,
    rest_until: Option<Instant>,
    planned_at: Option<Instant>,
    /// How long the last round took, and how many jobs waited then.
    last_round: Option<(Duration, usize)>,
    snapshotting: bool,
    store_failed: Option<Instant>,
    listings_failed: BTreeMap<EngineName, u32>,
    listed: BTreeSet<EngineName>,
}

/// Answers that wait for the turn to be stored.
type Answers = Vec<(ReplyTo, Result<Reply, CommandError>)>;

impl Loop {
    pub(crate) fn run(mut self) -> Result<(), StoreError> {
        let _ending = Ending(Arc::clone(&self.shared), Arc::clone(&self.queue));
        let mut woken = None;
        while !self.progress.stopped {
            self.turn(woken.take());
            if self.progress.stopped {
                break;
            }
            self.start_round();
            self.start_snapshot();
            woken = self.wait();
        }
        self.finish()
    }

    /// Waits for a message, a command or the next thing that is due by the clock.
    fn wait(&self) -> Option<Woken> {
        let pause = self.pause();
        select! {
            recv(self.messages) -> message => message.ok().map(Woken::Message),
            recv(self.commands) -> request => request.ok().map(Woken::Command),
            default(pause) => None,
        }
    }

    fn pause(&self) -> Duration {
        let now = Instant::now();
        let until = |at: Instant| at.saturating_duration_since(now);
        if let Some(failed) = self.progress.store_failed {
            return until(failed + STORE_PAUSE);
        }
        let mut pause = WAIT_MAX;
        if let Some(at) = self.writer.next_tick() {
            let ms = at.millis().saturating_sub(self.clock.now().millis()).max(0);
            pause = pause.min(Duration::from_millis(ms.unsigned_abs()));
        }
        if !self.progress.planning && self.awaited.is_empty() {
            let wanted = self.progress.plan_wanted;
            if wanted {
                pause = pause.min(self.progress.rest_until.map_or(Duration::ZERO, until));
            } else if is_waiting(self.writer.state())
                && let Some(at) = self.progress.planned_at
            {
                pause = pause.min(until(at + self.settings.replan));
            }
        }
        pause
    }

    /// One turn: everything that has come, up to a bound, in one transaction.
    fn turn(&mut self, woken: Option<Woken>) {
        let mut open = self.writer.begin(self.clock.now());
        let mut answers: Answers = Vec::new();
        let mut committing = Round::default();
        match woken {
            Some(Woken::Message(message)) => self.message(&mut open, message, &mut committing),
            Some(Woken::Command(request)) => self.command(&mut open, request, &mut answers),
            None => {}
        }
        for _ in 0..self.settings.batch_max {
            let Ok(message) = self.messages.try_recv() else { break };
            self.message(&mut open, message, &mut committing);
        }
        for _ in 0..self.settings.batch_max {
            let Ok(request) = self.commands.try_recv() else { break };
            self.command(&mut open, request, &mut answers);
        }
        if let Err(error) = self.writer.tick(&mut open) {
            self.fault(&error.to_string());
        }
        self.plan_inline(&mut open, &mut committing);
        match self.writer.commit(open) {
            Ok(committed) => self.committed(committed, answers),
            Err(error) => self.not_committed(&error, answers),
        }
        if committing.plan.seq > 0 {
            self.shared.round.store(Arc::new(committing));
        }
    }

    fn command(&self, open: &mut Open, request: Request, answers: &mut Answers) {
        let Request { principal, command, given_up, reply } = request;
        let answer = if given_up.load(Ordering::Acquire) {
            Err(CommandError::GivenUp)
        } else {
            self.writer.command(open, &principal, command)
        };
        answers.push((reply, answer));
    }

    fn message(&mut self, open: &mut Open, message: Message, round: &mut Round) {
        let result = match message {
            Message::Observed(engine, seen) => self.writer.observe(open, &engine, seen),
            Message::Listed { engine, taken, result } => {
                self.listed(open, &engine, taken, result);
                Ok(())
            }
            Message::Planned(planned) => {
                let Planned { base, made } = *planned;
                self.progress.planning = false;
                self.planned(open, base, made, round);
                Ok(())
            }
            Message::Snapshotted(result) => {
                self.snapshotted(result);
                Ok(())
            }
            Message::Stop => {
                self.progress.stopped = true;
                Ok(())
            }
        };
        if let Err(error) = result {
            self.fault(&error.to_string());
        }
    }

    fn listed(
        &mut self,
        open: &mut Open,
        engine: &EngineName,
        taken: Timestamp,
        result: Result<Inventory, EngineError>,
    ) {
        match result {
            Ok(inventory) => {
                self.progress.listings_failed.remove(engine);
                if let Err(error) = self.writer.inventory(open, engine, taken, inventory) {
                    self.fault(&error.to_string());
                }
                if self.progress.listed.insert(engine.clone()) {
                    open.add_orders(self.writer.limits_on(engine));
                }
            }
            Err(error) => {
                let failed = self.progress.listings_failed.entry(engine.clone()).or_insert(0);
                *failed += 1;
                if *failed == LISTINGS_FAILED_MAX {
                    let why = error.to_string();
                    if let Err(error) = self.writer.lose_engine(open, engine, &why) {
                        self.fault(&error.to_string());
                    }
                    (self.settings.alarm)(Alarm::EngineUnreachable { why });
                }
            }
        }
        if self.awaited.remove(engine) {
            self.progress.plan_wanted = true;
        }
    }

    /// Puts a round's decisions into the turn.
    fn planned(&mut self, open: &mut Open, base: State, made: Made, round: &mut Round) {
        let Made { plan, breaches, took } = made;
        self.progress.last_round = Some((took, base.index.pending.len()));
        self.progress.rest_until = Some(Instant::now() + took.min(REST_MAX));
        let counters = &self.shared.counters;
        counters.rounds.one();
        let result = if breaches.is_empty() {
            self.writer.decide(open, &base, &plan).map(|outcome| {
                counters.decisions.add(u64::from(outcome.applied));
                counters.decisions_stale.add(u64::from(outcome.stale));
                // A budget that ended goes on where it stopped; stale decisions are made anew.
                self.progress.plan_wanted |= !plan.complete || outcome.stale > 0;
            })
        } else {
            counters.plans_refused.one();
            self.writer.refuse(open, &plan, &breaches).map(|held| {
                self.progress.plan_wanted |= !held.is_empty();
            })
        };
        if let Err(error) = result {
            self.fault(&error.to_string());
        }
        if !breaches.is_empty() {
            let (state, plan) = (Box::new(base.clone()), Box::new(plan.clone()));
            (self.settings.alarm)(Alarm::PlanRefused { breaches, state, plan });
        }
        *round = Round { base, plan };
    }

    /// Plans within the turn where that takes next to no time: what ended and what starts in its
    /// place are then stored by one sync.
    fn plan_inline(&mut self, open: &mut Open, round: &mut Round) {
        let progress = &self.progress;
        let wanted = progress.plan_wanted || open.worth_planning();
        let waiting = open.state().index.pending.len();
        // The last round says how long this one will take, unless much has come since.
        let quick = progress.last_round.is_some_and(|(took, waited)| {
            took <= INLINE_MAX && waiting <= waited.saturating_mul(2).max(INLINE_JOBS)
        });
        let free = !progress.planning && progress.store_failed.is_none() && self.awaited.is_empty();
        if !wanted || !quick || !free || waiting == 0 {
            return;
        }
        let base = open.state().clone();
        let Some(made) = self.planners.try_round(&base, open.at()) else { return };
        self.progress.plan_wanted = false;
        self.progress.planned_at = Some(Instant::now());
        open.planned();
        self.planned(open, base, made, round);
    }

    fn snapshotted(&mut self, result: Result<SnapshotReport, StoreError>) {
        self.progress.snapshotting = false;
        match result {
            Ok(report) => {
                self.shared.counters.snapshots.one();
                tracing::debug!(seq = report.seq, bytes = report.bytes, "snapshot written");
            }
            Err(error) => {
                self.shared.counters.snapshots_failed.one();
                (self.settings.alarm)(Alarm::SnapshotFailed { why: error.to_string() });
            }
        }
    }

    /// The turn is stored: everybody may see it, then the answers go out, then the orders.
    fn committed(&mut self, committed: Committed, answers: Answers) {
        let shared = Arc::clone(&self.shared);
        let counters = &shared.counters;
        if !committed.events.is_empty() {
            counters.commits.one();
            counters.events.add(committed.events.len() as u64);
            if committed.durable {
                counters.commits_durable.one();
            }
            self.shared.state.store(Arc::new(self.writer.state().clone()));
            self.shared.feed.push(committed.events);
            if self.progress.store_failed.take().is_some() {
                (self.settings.alarm)(Alarm::StoreMended);
            }
        } else if let Some(failed) = &mut self.progress.store_failed {
            // Nothing was stored, so nothing is known.
            *failed = Instant::now();
        }
        failpoint!("after_publish_before_reply");
        counters.strays.add(committed.strays);
        counters.commands.add(answers.len() as u64);
        counters.commands_refused.add(answers.iter().filter(|a| a.1.is_err()).count() as u64);
        for (reply, answer) in answers {
            reply(answer);
        }
        self.queue.push(committed.orders);
        for engine in committed.inventories {
            self.list(&engine);
        }
        if committed.reconfigured {
            self.listers.keys().for_each(|engine| self.list(engine));
        }
        self.progress.plan_wanted |= committed.worth_planning;
    }

    fn list(&self, engine: &EngineName) {
        if let Some(lister) = self.listers.get(engine) {
            // Full where one is asked for already: that one will do.
            let _already_asked = lister.try_send(()).is_err();
        }
    }

    /// The store refused: nothing of the turn has happened, and all who asked are told.
    fn not_committed(&mut self, error: &StoreError, answers: Answers) {
        self.shared.counters.commits_failed.one();
        if self.progress.store_failed.is_none() {
            (self.settings.alarm)(Alarm::StoreFailed { why: error.to_string() });
        }
        self.progress.store_failed = Some(Instant::now());
        // What was observed is observed again by a listing, what was planned is planned again.
        self.progress.plan_wanted = true;
        self.progress.rest_until = Some(Instant::now() + STORE_PAUSE);
        for (reply, answer) in answers {
            reply(
                answer.and(Err(CommandError::Store { code: error.code(), why: error.to_string() })),
            );
        }
        self.listers.keys().for_each(|engine| self.list(engine));
    }

    /// Asks for a round where one is wanted and the planner is free.
    fn start_round(&mut self) {
        let progress = &mut self.progress;
        if progress.planning || !self.awaited.is_empty() {
            return;
        }
        let now = Instant::now();
        let waiting = is_waiting(self.writer.state());
        let long_ago = progress.planned_at.is_none_or(|at| now >= at + self.settings.replan);
        let wanted = progress.plan_wanted || (waiting && long_ago);
        if !wanted {
            return;
        }
        if progress.rest_until.is_some_and(|at| now < at) {
            return;
        }
        if !waiting {
            progress.plan_wanted = false;
            return;
        }
        let request = PlanRequest { state: self.writer.state().clone(), now: self.clock.now() };
        if self.plans.try_send(request).is_ok() {
            progress.planning = true;
            progress.plan_wanted = false;
            progress.planned_at = Some(now);
        }
    }

    fn start_snapshot(&mut self) {
        if self.progress.snapshotting {
            return;
        }
        if let Some(state) = self.writer.snapshot_due() {
            self.progress.snapshotting = self.snapshots.try_send(state).is_ok();
        }
    }

    fn fault(&self, why: &str) {
        (self.settings.alarm)(Alarm::Fault { why: why.to_owned() });
    }

    /// The end: nobody is left without an answer, and the next start finds a snapshot.
    fn finish(mut self) -> Result<(), StoreError> {
        while let Ok(request) = self.commands.try_recv() {
            (request.reply)(Err(CommandError::Stopping));
        }
        self.queue.close();
        self.shared.feed.close();
        // Two snapshots are never written at once.
        while self.progress.snapshotting {
            match self.messages.recv() {
                Ok(Message::Snapshotted(result)) => self.snapshotted(result),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.final_snapshotter.snapshot(self.writer.state()).map(drop)
    }
}

/// True where a round may have something to do: a job waits, stands still for another, takes turns
/// or may grow.
fn is_waiting(state: &muster_model::State) -> bool {
    let index = &state.index;
    let sets = [&index.pending, &index.evicted, &index.turns, &index.elastic];
    sets.into_iter().any(|jobs| !jobs.is_empty())
}

/// However the writer ends, also by a fault: nobody goes on waiting for it.
struct Ending(Arc<Shared>, Arc<Queue>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.stopping.store(true, Ordering::Release);
        self.1.close();
        self.0.feed.close();
    }
}

/// What ended a wait.
enum Woken {
    Message(Message),
    Command(Request),
}
