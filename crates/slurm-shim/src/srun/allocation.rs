//! An allocation of our own: asked for, waited for, held by a connection, given back.

use muster_api::step::{Connection, Event, Request};
use muster_api::{Action, ActionRequest, JobRef, SubmitRequest, WaitQuery};
use muster_client::{Client, ClientError};
use muster_model::JobId;

use super::step;
use crate::fail::Failure;
use crate::signals::Signals;
use crate::{clock, out, submit};

/// How long one question for the start may take, in seconds: an interrupt is heard after it.
const WAIT_S: u32 = 1;

/// A job without a script that this process holds.
pub(crate) struct Allocation {
    /// Its number.
    pub(crate) id: u32,
    /// Where its supervisor listens.
    pub(crate) socket: String,
    /// The connection that its life hangs on.
    pub(crate) connection: Option<Connection>,
    name: &'static str,
}

impl Allocation {
    /// Asks for it and waits until it has its nodes. `Ok(Err(code))` where there is nothing to
    /// hold: only a trial was asked for, or an interrupt ended the wait.
    pub(crate) fn obtain(
        name: &'static str,
        client: &Client,
        request: &SubmitRequest,
        quiet: bool,
    ) -> Result<Result<Self, i32>, Failure> {
        let refused = |error| submit::refused(name, "Unable to allocate resources", &error);
        // From here on an interrupt gives the job back.
        let mut signals = Signals::take(&[
            signal_hook::consts::SIGINT,
            signal_hook::consts::SIGTERM,
            signal_hook::consts::SIGHUP,
        ])
        .map_err(|error| Failure::error(name, &format!("signals: {error}")))?;
        let (cluster, options) = submit::without_cluster(&request.options);
        submit::check_cluster(name, client, cluster)?;
        let answer =
            client.submit(&SubmitRequest { options, ..request.clone() }).map_err(refused)?;
        submit::warn(name, &answer.warnings);
        if let Some(trial) = &answer.trial {
            let start = trial.start_ms.map_or("an unknown time".to_owned(), clock::instant);
            out::say(&format!(
                "{name}: Job {} to start at {start} using {} processors on nodes {} in partition {}",
                answer.job_id, trial.cpus, trial.node_list, trial.partition
            ));
            return Ok(Err(0));
        }
        let job = JobRef::Job(JobId(answer.job_id));
        let started = Self::await_start(name, client, &job, &mut signals, quiet)?;
        if !started {
            return Ok(Err(1));
        }
        let access = client.steps(&job).map_err(|error| Failure::client(name, &error))?;
        Ok(Ok(Self { id: answer.job_id, socket: access.socket, connection: None, name }))
    }

    fn await_start(
        name: &str,
        client: &Client,
        job: &JobRef,
        signals: &mut Signals,
        quiet: bool,
    ) -> Result<bool, Failure> {
        let failed = |error: ClientError| Failure::client(name, &error);
        let mut queued = false;
        loop {
            let query = WaitQuery { timeout_s: Some(WAIT_S), started: Some(true) };
            let answer = client.wait(job, &query).map_err(failed)?;
            if answer.over {
                if let Some(end) = answer.jobs.iter().find(|end| end.state.is_over()) {
                    let why =
                        if end.message.is_empty() { "it was cancelled" } else { &end.message };
                    return Err(Failure::error(
                        name,
                        &format!("Job allocation {job} has been revoked: {why}"),
                    ));
                }
                if queued && !quiet {
                    out::say(&format!("{name}: job {job} has been allocated resources"));
                }
                return Ok(true);
            }
            if !queued && !quiet {
                if name == "salloc" {
                    out::say(&format!("salloc: Pending job allocation {job}"));
                }
                out::say(&format!("{name}: job {job} queued and waiting for resources"));
            }
            queued = true;
            if !signals.came().is_empty() {
                let cancel = ActionRequest {
                    action: Action::Cancel,
                    jobs: vec![job.clone()],
                    ..ActionRequest::default()
                };
                client.act(&cancel).map_err(failed)?;
                out::say(&format!("{name}: Job allocation {job} has been revoked."));
                return Ok(false);
            }
        }
    }

    /// Ties the job's life to this process.
    pub(crate) fn hold(&mut self) -> Result<muster_api::step::Allocation, Failure> {
        let failed = |message: String| Failure::error(self.name, &message);
        let mut connection = step::connect(&self.socket).map_err(failed)?;
        connection.send(&Request::Hold, &[]).map_err(|error| failed(error.to_string()))?;
        let frame = connection.recv().map_err(|error| failed(error.to_string()))?;
        let held =
            match frame.message.parse::<Event>().map_err(|error| failed(error.to_string()))? {
                Event::Held(allocation) => *allocation,
                Event::Refused { message, .. } => return Err(failed(message)),
                other => return Err(failed(format!("the job cannot be held ({other:?})"))),
            };
        self.connection = Some(connection);
        Ok(held)
    }

    /// Gives the job back.
    pub(crate) fn release(&mut self) {
        self.connection = None;
    }
}
