//! Orders to a supervisor over its job's socket.

use std::os::fd::AsFd;

use muster_api::step::{Connection, Event, Order as StepOrder, Request, SOCKET_NAME, WireError};
use muster_engine::EngineError;
use muster_model::{EndCause, StopCause};
use nix::poll::{PollFd, PollFlags, poll};

use super::{Phase, Shared, never_ran, unreachable};
use crate::spec::JobKey;

/// How long a supervisor may take to answer, milliseconds.
const ANSWER_MS: u16 = 5_000;

impl Shared {
    /// Gives an order to a running attempt; one that is over needs none.
    pub(super) fn order(&self, key: JobKey, order: &StepOrder) -> Result<(), EngineError> {
        match self.attempts().get(key).map(|a| &a.phase) {
            Some(Phase::Running { .. }) => {}
            Some(Phase::Accepted { .. }) => {
                return Err(unreachable("the job is not started yet"));
            }
            Some(Phase::Exited(_)) | None => return Ok(()),
        }
        self.ask(key, order).map(drop)
    }

    /// Ends an attempt, whether or not it was launched.
    pub(super) fn stop(
        &self,
        key: JobKey,
        cause: Option<StopCause>,
        grace_s: u64,
    ) -> Result<(), EngineError> {
        let is_running = {
            let attempts = self.attempts();
            if attempts.is_acknowledged(key) {
                return Ok(());
            }
            match attempts.get(key).map(|a| &a.phase) {
                Some(Phase::Exited(_)) => return Ok(()),
                Some(Phase::Running { .. }) => true,
                Some(Phase::Accepted { .. }) | None => false,
            }
        };
        if !is_running {
            // Whoever makes the job's directory first decides whether it ever runs.
            let report = never_ran(EndCause::Stopped, "");
            if self.record_without_running(key, report)? {
                return Ok(());
            }
        }
        self.ask(key, &StepOrder::Terminate { cause, grace_s }).map(drop)
    }

    /// Asks a supervisor and waits for its answer; `None` when it is about to end.
    pub(super) fn ask(&self, key: JobKey, order: &StepOrder) -> Result<Option<Event>, EngineError> {
        match self.try_ask(key, order) {
            Ok(Event::Refused { message, .. }) => Err(unreachable(message)),
            Ok(event) => Ok(Some(event)),
            // It closes its socket just before it writes the record: the exit is on its way, or
            // the supervisor is dead and the next look at its process finds that.
            Err(WireError::Closed) => Ok(None),
            Err(WireError::Io(error))
                if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ECONNREFUSED)) =>
            {
                Ok(None)
            }
            Err(error) => Err(unreachable(error)),
        }
    }

    fn try_ask(&self, key: JobKey, order: &StepOrder) -> Result<Event, WireError> {
        let mut connection = Connection::open(&self.state.job(key).join(SOCKET_NAME))?;
        connection.send(&Request::Order(order.clone()), &[])?;
        loop {
            if let Some(frame) = connection.try_recv()? {
                return frame.message.parse();
            }
            let mut fds = [PollFd::new(connection.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, ANSWER_MS) {
                Ok(0) => return Err(WireError::Stuck),
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}
