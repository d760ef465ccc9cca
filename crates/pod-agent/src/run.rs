//! Running the attempt: from the order to its end.

use crate::error::AgentError;
use crate::wire::{self, Key, Request};
use crate::{mailbox, report, serve, task};
use muster_engine::{Engine, Launch, Observation, Order};
use muster_engine_local::{LocalConfig, LocalEngine};
use muster_model::{ExitReport, JobId, StopCause};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// The file with the order to launch.
const LAUNCH: &str = "launch";

/// Pods that are not there yet are asked again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// Where things lie in the pod.
pub(crate) struct Folders {
    /// The order to launch, and the job's key.
    pub(crate) orders: PathBuf,
    /// Muster's own state.
    pub(crate) state: PathBuf,
    /// The file in which it says how the job ended.
    pub(crate) report: PathBuf,
}

/// What happens to the attempt.
enum Happening {
    Seen(Observation),
    /// The pod is to end.
    Asked,
}

/// Runs the attempt and tells how it ended. Gives the container's exit status.
pub(crate) fn run(folders: &Folders, slurm_names: &[&str]) -> Result<i32, AgentError> {
    // Of an Indexed Job each pod knows its number.
    if std::env::var("JOB_COMPLETION_INDEX").is_ok_and(|index| index != "0") {
        return serve::serve(&folders.orders);
    }
    // The first process of a pod hears no signal that it does not expect.
    let asked = Signals::new([SIGTERM, SIGINT]).map_err(AgentError::file("signals"))?;
    let file = folders.orders.join(LAUNCH);
    let text = fs::read_to_string(&file).map_err(AgentError::file(&file))?;
    let launch: Launch = serde_json::from_str(&text)
        .map_err(|error| AgentError::File { path: file, why: error.to_string() })?;
    let (engine, happenings) = start(folders, slurm_names, asked)?;
    let others: Vec<String> = launch.nodes.iter().skip(1).map(|node| node.name.clone()).collect();
    if !meet(folders, &others, &happenings)? {
        return Ok(128 + SIGTERM);
    }
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
    tell(&folders.report, job, &ended)?;
    for host in &others {
        // One that does not hear it is ended with its pod.
        ask(folders, host, &Request::Leave).ok();
    }
    Ok(report::status(&ended))
}

/// Waits until every other pod of the job can be asked: all of them run or none. False where the pod
/// is to end before that.
fn meet(
    folders: &Folders,
    others: &[String],
    happenings: &Receiver<Happening>,
) -> Result<bool, AgentError> {
    for host in others {
        while let Err(error) = ask(folders, host, &Request::Ping) {
            match happenings.recv_timeout(AGAIN) {
                Ok(Happening::Asked) => return Ok(false),
                Ok(Happening::Seen(_)) => {}
                Err(RecvTimeoutError::Timeout) => {
                    eprintln!("muster pod: waiting for {host}: {error}");
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(AgentError::Order("nothing is told any more".to_owned()));
                }
            }
        }
    }
    Ok(true)
}

fn ask(folders: &Folders, host: &str, request: &Request) -> std::io::Result<()> {
    let key = Key::read(&folders.orders)?;
    wire::ask(&task::address(host), &key, request).map(drop)
}

/// What runs a task on another pod.
fn reach(exe: &Path, folders: &Folders) -> Vec<String> {
    let words = ["pod", "task"].map(str::to_owned);
    let orders = folders.orders.to_string_lossy().into_owned();
    [&[exe.to_string_lossy().into_owned()][..], &words, &[orders]].concat()
}

/// The engine of this machine, and what happens.
fn start(
    folders: &Folders,
    slurm_names: &[&str],
    mut asked: Signals,
) -> Result<(Arc<LocalEngine>, Receiver<Happening>), AgentError> {
    let exe = std::env::current_exe().map_err(AgentError::file("/proc/self/exe"))?;
    let state = folders.state.join("engine");
    let links = state.join("slurm-bin");
    fs::create_dir_all(&links).map_err(AgentError::file(&links))?;
    for name in slurm_names {
        let link = links.join(name);
        // A container that was started again has them.
        if !link.is_symlink() {
            symlink(&exe, &link).map_err(AgentError::file(&link))?;
        }
    }
    let mailbox = mailbox::open(&folders.state)?;
    let engine = Arc::new(LocalEngine::start(LocalConfig {
        state_directory: state,
        shepherd_command: vec![exe.to_string_lossy().into_owned(), "shepherd".to_owned()],
        cluster: std::env::var("MUSTER_CLUSTER").unwrap_or_default(),
        practice: None,
        // The container is bounded from outside.
        without_cgroup: true,
        reach: Some(reach(&exe, folders)),
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
    std::thread::spawn(move || {
        for _ in asked.forever() {
            signals.send(Happening::Asked).ok();
        }
    });
    mailbox::take_orders(mailbox, Arc::clone(&engine));
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
