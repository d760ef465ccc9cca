//! Running the attempt: from the order to its end.

use crate::arguments::Arguments;
use crate::error::AgentError;
use crate::{mailbox, report};
use muster_engine::{Engine, Launch, Observation, Order};
use muster_engine_local::{LocalConfig, LocalEngine};
use muster_model::{ExitReport, JobId, StopCause};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// The file with the order to launch.
const LAUNCH: &str = "launch";

/// What happens to the attempt.
enum Happening {
    Seen(Observation),
    /// The pod is to end.
    Asked,
}

/// Runs the attempt and tells how it ended. Gives the container's exit status.
pub(crate) fn run(arguments: &Arguments, slurm_names: &[&str]) -> Result<i32, AgentError> {
    let file = arguments.orders.join(LAUNCH);
    let text = fs::read_to_string(&file).map_err(AgentError::file(&file))?;
    let launch: Launch = serde_json::from_str(&text)
        .map_err(|error| AgentError::File { path: file, why: error.to_string() })?;
    let (engine, happenings) = start(arguments, slurm_names)?;
    let (job, attempt, grace) = (launch.job.id, launch.job.attempt, launch.kill_wait);
    let refused = |error: muster_engine::EngineError| AgentError::Order(error.to_string());
    engine.execute(1, &Order::Launch(Box::new(launch))).map_err(refused)?;
    let stop = Order::Stop { job, attempt, cause: Some(StopCause::Cancelled(0)), grace };
    let ended = loop {
        match happenings.recv() {
            Ok(Happening::Seen(Observation::Exited { job: ended, report, .. })) if ended == job => {
                break report;
            }
            Ok(Happening::Seen(_)) => {}
            Ok(Happening::Asked) => {
                if let Err(error) = engine.execute(1, &stop) {
                    eprintln!("muster pod: job {job} cannot be ended: {error}");
                }
            }
            Err(_) => return Err(AgentError::Order("nothing is told of the job".to_owned())),
        }
    };
    tell(&arguments.report, job, &ended)?;
    Ok(report::status(&ended))
}

/// The engine of this machine, and what happens.
fn start(
    arguments: &Arguments,
    slurm_names: &[&str],
) -> Result<(Arc<LocalEngine>, Receiver<Happening>), AgentError> {
    let exe = std::env::current_exe().map_err(AgentError::file("/proc/self/exe"))?;
    let state = arguments.state.join("engine");
    let links = state.join("slurm-bin");
    fs::create_dir_all(&links).map_err(AgentError::file(&links))?;
    for name in slurm_names {
        let link = links.join(name);
        // A container that was started again has them.
        if !link.is_symlink() {
            symlink(&exe, &link).map_err(AgentError::file(&link))?;
        }
    }
    let engine = Arc::new(LocalEngine::start(LocalConfig {
        state_directory: state,
        shepherd_command: vec![exe.to_string_lossy().into_owned(), "shepherd".to_owned()],
        cluster: std::env::var("MUSTER_CLUSTER").unwrap_or_default(),
        practice: None,
        // The container is bounded from outside.
        without_cgroup: true,
        client_socket: None,
        gpu_reader: None,
    })?);
    let (tell, happenings) = channel();
    let signals = tell.clone();
    let tell = std::sync::Mutex::new(tell);
    engine.watch(Arc::new(move |seen| {
        if let Ok(tell) = tell.lock() {
            tell.send(Happening::Seen(seen)).ok();
        }
    }));
    let mut asked = Signals::new([SIGTERM, SIGINT]).map_err(AgentError::file("signals"))?;
    std::thread::spawn(move || {
        for _ in asked.forever() {
            signals.send(Happening::Asked).ok();
        }
    });
    mailbox::open(&arguments.state, Arc::clone(&engine))?;
    Ok((engine, happenings))
}

/// Says how it ended to whoever asks the cluster, and to whoever reads the pod's log.
fn tell(file: &Path, job: JobId, ended: &ExitReport) -> Result<(), AgentError> {
    let about =
        if ended.message.is_empty() { String::new() } else { format!(": {}", ended.message) };
    let (cause, status) = (ended.cause, ended.status);
    eprintln!("muster pod: job {job} ended ({cause:?}, {}:{}){about}", status.code, status.signal);
    fs::write(file, report::text(ended)).map_err(AgentError::file(file))
}
