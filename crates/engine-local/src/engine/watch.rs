//! Two threads: one reads pokes and now and then looks for what was missed, one notices a dead
//! shepherd and replaces it.

use std::fs;
use std::io::{self, Read};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use muster_api::step::wire::with_short_path;
use muster_engine::Observation;
use muster_model::{EndCause, JobId};

use super::{Attempt, Phase, Shared, Weakly, never_ran};
use crate::directory::{POKE_SOCKET, StateDirectory};
use crate::poke::POKE_BYTES_MAX;
use crate::spec::{JobKey, Poke};

/// How often supervisors are looked at while jobs run and no poke comes.
const LOOK_EVERY: Duration = Duration::from_secs(15);

/// How long to wait before another shepherd is started after one could not be.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

pub(super) fn bind_poke_socket(state: &StateDirectory) -> io::Result<UnixDatagram> {
    let path = state.path().join(POKE_SOCKET);
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let raw = |e: io::Error| nix::errno::Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO));
    let socket = with_short_path(&path, |short| UnixDatagram::bind(short).map_err(raw))?;
    socket.set_read_timeout(Some(LOOK_EVERY))?;
    Ok(socket)
}

/// Wakes the thread that reads pokes, so that it sees that the engine is gone.
pub(super) fn wake(state: &StateDirectory) {
    let sent = UnixDatagram::unbound().map(|socket| {
        with_short_path(&state.path().join(POKE_SOCKET), |short| {
            // A thread that misses this ends at its next look.
            socket.send_to(b"", short).map_err(|_| nix::errno::Errno::EIO)
        })
    });
    drop(sent);
}

pub(super) fn start(shared: &Arc<Shared>, socket: UnixDatagram, shepherd: UnixStream) {
    let weak = Arc::downgrade(shared);
    spawn("local-pokes", move || read_pokes(&weak, &socket));
    let weak = Arc::downgrade(shared);
    spawn("local-shepherd", move || watch_shepherd(&weak, shepherd));
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) {
    // Without its threads the engine is blind: better to stop at once than to run so.
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .expect("the system has threads left");
}

fn read_pokes(weak: &Weakly, socket: &UnixDatagram) {
    let mut buffer = vec![0_u8; POKE_BYTES_MAX];
    loop {
        let received = socket.recv(&mut buffer);
        let Some(shared) = weak.upgrade().filter(|s| !s.link.is_closed()) else { return };
        match received {
            Ok(0) => {}
            Ok(n) => match serde_json::from_slice::<Poke>(&buffer[..n]) {
                Ok(poke) => shared.poked(poke),
                Err(error) => tracing::warn!(%error, "a poke was not understood"),
            },
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                shared.check_supervisors();
                shared.find_unheard();
                shared.look_at_gpus();
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::error!(%error, "the poke socket is broken");
                return;
            }
        }
    }
}

/// Waits for the shepherd's end, which closes its connection, and starts another.
fn watch_shepherd(weak: &Weakly, mut stream: UnixStream) {
    loop {
        // It says nothing after its greeting: whatever comes back means that it is gone.
        let _ = stream.read(&mut [0_u8; 16]);
        let Some(shared) = weak.upgrade().filter(|s| !s.link.is_closed()) else { return };
        tracing::warn!("the shepherd is gone; starting another");
        stream = loop {
            match shared.link.reconnect(&shared.config, &shared.state) {
                Ok(stream) => break stream,
                Err(error) => {
                    tracing::error!(%error, "cannot start a shepherd");
                    std::thread::park_timeout(RESTART_PAUSE);
                }
            }
        };
        shared.send_accepted_again();
    }
}

impl Shared {
    fn poked(&self, poke: Poke) {
        match poke {
            Poke::Started { key, start_ms, supervisor } => self.started(key, start_ms, supervisor),
            Poke::Suspended { key, suspended } => {
                if let Some(attempt) = self.attempts().get_mut(key) {
                    attempt.suspended = suspended;
                }
                let (job, attempt) = (JobId(key.job), key.attempt);
                self.tell(Observation::Suspended { job, attempt, suspended });
            }
            Poke::Resized { key, nodes } => {
                let (job, attempt) = (JobId(key.job), key.attempt);
                self.tell(Observation::Resized { job, attempt, nodes });
            }
            Poke::Signalled { key, number } => {
                if let Some(attempt) = self.attempts().get_mut(key) {
                    attempt.signalled = attempt.signalled.max(number);
                }
                self.tell(Observation::Signalled { job: JobId(key.job), number });
            }
            Poke::Step { key, step } => {
                if let Some(attempt) = self.attempts().get_mut(key) {
                    attempt.steps.retain(|s| s.id != step.id);
                    attempt.steps.push(step.clone());
                }
                let (job, attempt) = (JobId(key.job), key.attempt);
                self.tell(Observation::Step { job, attempt, step });
            }
            Poke::Exited { key, record: Some(record) } => self.exited(key, record.report),
            Poke::Exited { key, record: None } => self.look(key),
            Poke::Lost { key } => self.supervisor_lost(key),
        }
    }

    fn started(&self, key: JobKey, start_ms: u64, supervisor: crate::spec::ProcessId) {
        {
            let mut attempts = self.attempts();
            if attempts.is_acknowledged(key) {
                return;
            }
            if matches!(attempts.get(key).map(|a| &a.phase), Some(Phase::Exited(_))) {
                return;
            }
            let mut attempt = Attempt::running(start_ms);
            attempt.supervisor = Some(supervisor);
            attempts.insert(key, attempt);
        }
        self.tell(Observation::Started { job: JobId(key.job), attempt: key.attempt });
    }

    fn look(&self, key: JobKey) {
        if let Err(error) = self.take_in(key) {
            tracing::warn!(job = key.job, %error, "cannot read a job's directory");
        }
    }

    /// A supervisor died of a signal or could not even claim its job.
    fn supervisor_lost(&self, key: JobKey) {
        if self.state.job(key).exists() {
            return self.look(key);
        }
        let known = self.attempts().get(key).is_some();
        if !known {
            return;
        }
        let message = "the job's directory could not be made\nhint: see shepherd.log in the state \
                       directory; is its disk full?";
        let report = never_ran(EndCause::LaunchFailed, message);
        // Where even this cannot be written it is kept in memory: nothing of the job ever ran.
        if self.record_without_running(key, report.clone()).is_err() {
            self.exited(key, report);
        }
    }

    /// Directories of attempts that no poke told of.
    fn find_unheard(&self) {
        let keys = match self.state.list() {
            Ok(keys) => keys,
            Err(error) => return tracing::warn!(%error, "cannot list the job directories"),
        };
        for key in keys {
            let unheard = match self.attempts().get(key).map(|a| &a.phase) {
                None | Some(Phase::Accepted { .. }) => true,
                Some(Phase::Running { .. } | Phase::Exited(_)) => false,
            };
            if unheard {
                self.look(key);
            }
        }
    }

    /// Gives a new shepherd what the old one may not have carried out.
    fn send_accepted_again(&self) {
        self.find_unheard();
        let messages: Vec<_> = self
            .attempts()
            .iter()
            .filter_map(|(_, a)| match &a.phase {
                Phase::Accepted { message } => Some(Arc::clone(message)),
                Phase::Running { .. } | Phase::Exited(_) => None,
            })
            .collect();
        for message in messages {
            if self.link.send(&message).is_err() {
                // Gone again: the watcher comes back here.
                return;
            }
        }
    }
}
