//! What the rest of the daemon holds of the writer.

use crate::command::{Command, CommandError, Principal, Reply};
use crate::feed::{Feed, Subscription};
use crate::metrics::Counters;
use crate::round::Round;
use arc_swap::ArcSwap;
use crossbeam_channel::{Sender, TrySendError, bounded};
use muster_model::{JobId, Payload, State};
use muster_store::Reader;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How the answer to a command gets back to the one who asked. Called once, on the writer's
/// thread: it must not wait.
pub type ReplyTo = Box<dyn FnOnce(Result<Reply, CommandError>) + Send>;

/// A command on its way to the writer.
pub(crate) struct Request {
    pub(crate) principal: Principal,
    pub(crate) command: Command,
    pub(crate) given_up: Arc<AtomicBool>,
    pub(crate) reply: ReplyTo,
}

/// A command that was handed in.
#[derive(Debug)]
pub struct Ticket(Arc<AtomicBool>);

/// Reads the state, hands in commands and follows changes. Cheap to clone; from any thread.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) commands: Sender<Request>,
    pub(crate) state: ArcSwap<State>,
    pub(crate) round: ArcSwap<Round>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) counters: Counters,
    pub(crate) reader: Arc<dyn Reader>,
    pub(crate) stopping: AtomicBool,
}

impl Ticket {
    /// Gives the command up. Where its turn has not come yet, it is answered with
    /// [`CommandError::GivenUp`] and nothing is done; later than that it has no effect.
    pub fn give_up(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Handle {
    /// The newest stored state. Never waits for the writer.
    pub fn state(&self) -> Arc<State> {
        self.shared.state.load_full()
    }

    /// The newest planning round: when it was, and what it promised.
    pub fn round(&self) -> Arc<Round> {
        self.shared.round.load_full()
    }

    /// Numbers about the loop.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// History and blobs.
    pub fn reader(&self) -> &Arc<dyn Reader> {
        &self.shared.reader
    }

    /// Hands in a command. `reply` is called once it is stored, or refused.
    ///
    /// # Errors
    /// [`CommandError::Busy`] where the queue is full and [`CommandError::Stopping`] at the end;
    /// `reply` is then not called.
    pub fn submit(
        &self,
        principal: Principal,
        command: Command,
        reply: impl FnOnce(Result<Reply, CommandError>) + Send + 'static,
    ) -> Result<Ticket, CommandError> {
        if self.shared.stopping.load(Ordering::Acquire) {
            return Err(CommandError::Stopping);
        }
        let given_up = Arc::new(AtomicBool::new(false));
        let request =
            Request { principal, command, given_up: Arc::clone(&given_up), reply: Box::new(reply) };
        match self.shared.commands.try_send(request) {
            Ok(()) => Ok(Ticket(given_up)),
            Err(TrySendError::Full(_)) => {
                Err(CommandError::Busy { waiting: self.shared.commands.len() })
            }
            Err(TrySendError::Disconnected(_)) => Err(CommandError::Stopping),
        }
    }

    /// As [`Handle::submit`], and waits for the answer.
    ///
    /// # Errors
    /// See there, and whatever the command is refused with.
    pub fn call(&self, principal: Principal, command: Command) -> Result<Reply, CommandError> {
        let (answer, wait) = bounded(1);
        // Nobody listens any more where the caller's thread is gone: that is no fault.
        self.submit(principal, command, move |reply| drop(answer.send(reply)))?;
        wait.recv().unwrap_or(Err(CommandError::Stopping))
    }

    /// Follows changes from now on.
    pub fn subscribe(&self) -> Subscription {
        self.shared.feed.subscribe(None)
    }

    /// Follows changes after event `seq` (a client that comes back); the first read says where
    /// that is too long ago.
    pub fn subscribe_after(&self, seq: u64) -> Subscription {
        self.shared.feed.subscribe(Some(seq))
    }

    /// True once the loop has ended, as asked or by a fault. Those who follow changes are woken.
    pub fn is_over(&self) -> bool {
        self.shared.feed.is_closed()
    }

    /// Calls `wake` with the newest event's number after each commit, on the writer's thread: it
    /// must not wait. For async readers, which then call [`Subscription::try_next`].
    pub fn on_change(&self, wake: impl Fn(u64) + Send + Sync + 'static) {
        self.shared.feed.on_change(Arc::new(wake));
    }

    /// What a job runs, for its owner and for admins.
    ///
    /// # Errors
    /// An unknown job, somebody else's, or a blob that cannot be read.
    pub fn payload(&self, principal: &Principal, job: JobId) -> Result<Payload, CommandError> {
        let state = self.state();
        let job =
            state.job(job).ok_or_else(|| CommandError::UnknownJob { job: job.to_string() })?;
        if !principal.owns(job) {
            return Err(CommandError::NotYours { job: job.id, owner: job.spec.owner.user.clone() });
        }
        crate::payload::read(self.shared.reader.as_ref(), &job.spec.payload)
            .map_err(|why| CommandError::Fault { why })
    }
}
