//! `muster run`: a command as a job, with its output here and its exit code.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use muster_api::{Action, ActionRequest, JobRef, Tool, WaitQuery};
use muster_client::Client;
use muster_model::{JobId, JobKind};
use muster_slurm_syntax::options::{Command, Opt};
use muster_slurm_syntax::submission::CommandLine;

use crate::logs::{self, Tail};
use crate::say::{self, Failure, Outcome, note};
use crate::{act, attach, submit};

/// What runs the command: its words come as the script's arguments.
const SCRIPT: &str = "#!/bin/sh\nexec \"$@\"\n";

/// Exit code after an interrupt, as a shell has it.
pub(crate) const INTERRUPTED: i32 = 130;

/// Runs the command.
pub(crate) fn run(words: &[String]) -> Outcome {
    let line = submit::split(Command::Srun, words)?;
    if line.client.help || line.client.usage {
        say::print(&muster_slurm_syntax::docs::help(Command::Srun).replace("srun", "muster run"));
        return Ok(0);
    }
    let command: Vec<String> = line.script.iter().chain(&line.arguments).cloned().collect();
    if command.is_empty() {
        return Err(Failure::usage("a command is needed\nhint: muster run -c4 python train.py"));
    }
    let client = Client::connect()?;
    if has(&line, Opt::Pty) {
        with_terminal(&client, &line, command)
    } else {
        plain(client, &line, command)
    }
}

fn has(line: &CommandLine, wanted: Opt) -> bool {
    line.client.step.iter().any(|(opt, _)| *opt == wanted)
}

/// A job whose output goes into files of our own, which are shown as they grow.
fn plain(client: Client, line: &CommandLine, command: Vec<String>) -> Outcome {
    let mut request = submit::request(Tool::Srun, JobKind::Batch, line)?;
    SCRIPT.clone_into(&mut request.script);
    request.script_name.clone_from(&command[0]);
    request.args = command;
    let named = |long: &str, short: &str| {
        line.options.iter().any(|word| word.starts_with(long) || word.starts_with(short))
    };
    let folder = Folder::make()?;
    if !named("--output", "-o") {
        request.options.push(format!("--output={}", folder.path.join("out").display()));
        if !named("--error", "-e") {
            request.options.push(format!("--error={}", folder.path.join("err").display()));
        }
    }
    if !named("--job-name", "-J") {
        let base = request.script_name.rsplit('/').next().unwrap_or_default().to_owned();
        request.options.push(format!("--job-name={base}"));
    }
    let interrupted = interrupts()?;
    let answer = client.submit(&request).map_err(|error| submit::told(error, &[]))?;
    for warning in &answer.warnings {
        note(&format!("warning: {warning}"));
    }
    let job = JobRef::Job(JobId(answer.job_id));
    if !await_start(&client, &job, &interrupted)? {
        return Ok(INTERRUPTED);
    }
    let view = client.job(&job)?.jobs.into_iter().next();
    let (out, err) = view.map(|view| (view.stdout_path, view.stderr_path)).unwrap_or_default();
    let (mut out_tail, mut err_tail) =
        (Tail::new(out.clone().into()), Tail::new(err.clone().into()));
    let socket = client.socket().to_owned();
    let end = logs::watch(client, job.clone());
    let mut beside = || {
        if !interrupted.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        cancel(&Client::connect_to(&socket)?, &job)
    };
    // The job goes on, as one whose output goes into a file does.
    let gone = || Ok(());
    let (mut stdout, mut stderr) = (std::io::stdout(), std::io::stderr());
    let answer = if out == err {
        logs::follow(&mut [(&mut out_tail, &mut stdout)], &end, &mut beside, &gone)?
    } else {
        logs::follow(
            &mut [(&mut out_tail, &mut stdout), (&mut err_tail, &mut stderr)],
            &end,
            &mut beside,
            &gone,
        )?
    };
    drop(folder);
    for end in answer.jobs.iter().filter(|end| !end.message.is_empty()) {
        note(&format!("job {}: {}", end.job, end.message));
    }
    Ok(act::exit_code(&answer.jobs))
}

/// A job with a terminal of its own, and this terminal connected to it.
fn with_terminal(client: &Client, line: &CommandLine, command: Vec<String>) -> Outcome {
    let mut request = submit::request(Tool::Srun, JobKind::Terminal, line)?;
    request.script_name.clone_from(&command[0]);
    request.args = command;
    let interrupted = interrupts()?;
    let answer = client.submit(&request).map_err(|error| submit::told(error, &[]))?;
    let job = JobRef::Job(JobId(answer.job_id));
    if !await_start(client, &job, &interrupted)? {
        return Ok(INTERRUPTED);
    }
    attach::connect(client, &job)
}

/// Gives the job up.
fn cancel(client: &Client, job: &JobRef) -> Result<(), Failure> {
    note(&format!("cancelling job {job}"));
    let jobs = vec![job.clone()];
    client.act(&ActionRequest { action: Action::Cancel, jobs, ..ActionRequest::default() })?;
    Ok(())
}

/// Waits until the job runs or is over; says that it waits, and why. False where an interrupt came
/// first, which gives the job up.
pub(crate) fn await_start(
    client: &Client,
    job: &JobRef,
    interrupted: &AtomicBool,
) -> Result<bool, Failure> {
    let mut said = false;
    loop {
        let answer = client.wait(job, &WaitQuery { timeout_s: Some(1), started: Some(true) })?;
        if answer.over {
            return Ok(true);
        }
        if interrupted.swap(false, Ordering::Relaxed) {
            cancel(client, job)?;
            return Ok(false);
        }
        if !said {
            let why = client.why(job).ok().and_then(|page| page.jobs.into_iter().next());
            let reason =
                why.and_then(|why| why.reasons.into_iter().next()).map(|reason| reason.text);
            let reason = reason.map(|text| format!(": {text}")).unwrap_or_default();
            note(&format!("job {job} waits{reason}"));
            said = true;
        }
    }
}

/// A flag that an interrupt sets.
pub(crate) fn interrupts() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .map_err(|error| Failure::new(format!("signals: {error}")))?;
    }
    Ok(flag)
}

/// A private folder that is gone with this value.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
}

impl Folder {
    pub(crate) fn make() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("muster-run-{}", std::process::id()));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        Ok(Self { path })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
