//! `srun`: runs tasks as a step of a job, or as a job of their own (srun manual).

pub(crate) mod allocation;
mod multi_prog;
mod options;
mod report;
mod step;
mod streams;
mod terminal;

use muster_api::step::SOCKET_VARIABLE;
use muster_api::{JobRef, Tool};
use muster_client::Client;
use muster_slurm_syntax::options::Command;

use crate::fail::{Failure, Outcome};
use crate::{ident, out, submit};
use allocation::Allocation;
use options::Options;
use step::Step;
use streams::Job;

/// Runs the command.
pub(crate) fn run(args: &[String]) -> Outcome {
    let variable = |name: &str| std::env::var(name).ok();
    let options =
        options::read(args, &variable).map_err(|message| Failure::usage("srun", &message, 255))?;
    if options.parsed.has("version") {
        return crate::version();
    }
    if options.parsed.has("help") || options.parsed.has("usage") {
        out::print(&muster_slurm_syntax::docs::help(Command::Srun));
        return Ok(0);
    }
    if options.parsed.words.is_empty() && !options.parsed.has("test-only") {
        return Err(Failure::says("srun: fatal: No command given to execute."));
    }
    if options.parsed.words.iter().any(|word| word == ":") {
        return Err(Failure::error(
            "srun",
            "components separated by \":\" are not offered by srun\nhint: start one srun for each component with --het-group",
        ));
    }
    let around = options
        .jobid
        .clone()
        .or_else(|| variable("SLURM_JOB_ID"))
        .or_else(|| variable("SLURM_JOBID"));
    match around {
        Some(id) => inside(&options, &id),
        None => outside(&options, args),
    }
}

/// A step of a job that runs already.
fn inside(options: &Options, id: &str) -> Outcome {
    let variable = |name: &str| std::env::var(name).ok();
    let own = variable("SLURM_JOB_ID").is_some_and(|own| own == id);
    let socket = match variable(SOCKET_VARIABLE).filter(|_| own) {
        Some(socket) => socket,
        None => socket_of(id)?,
    };
    let mut connection =
        step::connect(&socket).map_err(|message| Failure::error("srun", &message))?;
    let mut job = job_from_environment();
    job.id = id.split(['_', '+']).next().and_then(|text| text.parse().ok()).unwrap_or(job.id);
    launch(options, job, &mut connection, submit::environment())
}

/// Asks the daemon where a job's supervisor listens.
fn socket_of(id: &str) -> Result<String, Failure> {
    let job: JobRef =
        id.parse().map_err(|_| Failure::error("srun", &format!("Invalid job id {id}")))?;
    let client = Client::connect().map_err(|error| Failure::client("srun", &error))?;
    let access = client.steps(&job).map_err(|error| {
        if crate::fail::is_unknown(&error) {
            Failure::error("srun", &format!("Unable to confirm allocation for job {id}: Invalid job id specified\nCheck SLURM_JOB_ID environment variable. Expired or invalid job {id}"))
        } else {
            Failure::client("srun", &error)
        }
    })?;
    Ok(access.socket)
}

/// An allocation, a step in it, and its end.
fn outside(options: &Options, args: &[String]) -> Outcome {
    let line = submit::split(Command::Srun, args)?;
    let mut request = submit::request(Tool::Srun, muster_model::JobKind::Allocation, &line)?;
    request.args.clone_from(&options.parsed.words);
    request.script_name = options.parsed.words.first().cloned().unwrap_or_default();
    request.test_only = options.parsed.has("test-only");
    let client = Client::connect().map_err(|error| Failure::client("srun", &error))?;
    let mut allocation = match Allocation::obtain("srun", &client, &request, options.quiet)? {
        Ok(allocation) => allocation,
        Err(code) => return Ok(code),
    };
    let held = allocation.hold()?;
    let job = Job {
        id: allocation.id,
        user: ident::own_name(),
        name: name_of(options),
        ..Job::default()
    };
    let mut connection =
        step::connect(&allocation.socket).map_err(|message| Failure::error("srun", &message))?;
    let mut environment = submit::environment();
    environment.retain(|(name, _)| !name.starts_with("SLURM_"));
    environment.extend(held.environment.clone());
    let code = launch(options, job, &mut connection, environment);
    allocation.release();
    code
}

fn name_of(options: &Options) -> String {
    let command = options.parsed.words.first().map_or("", String::as_str);
    options
        .parsed
        .last("job-name")
        .unwrap_or(command.rsplit('/').next().unwrap_or(command))
        .to_owned()
}

fn launch(
    options: &Options,
    job: Job,
    connection: &mut muster_api::step::Connection,
    environment: Vec<(String, String)>,
) -> Outcome {
    let cwd = std::env::current_dir()
        .map_err(|error| Failure::error("srun", &format!("the working directory: {error}")))?;
    let known = environment.clone();
    let variable = move |name: &str| {
        known.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    };
    let spec =
        options::step_spec(options, &variable, environment, cwd.to_string_lossy().into_owned())
            .map_err(|message| Failure::says(message).with_code(255))?;
    Step { options, spec, job }.run(connection).map_err(|message| Failure::error("srun", &message))
}

/// What the job's variables say of it.
fn job_from_environment() -> Job {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    Job {
        id: number("SLURM_JOB_ID").unwrap_or(0),
        array: number("SLURM_ARRAY_JOB_ID").zip(number("SLURM_ARRAY_TASK_ID")),
        name: std::env::var("SLURM_JOB_NAME").unwrap_or_default(),
        user: ident::own_name(),
        restarts: number("SLURM_RESTART_COUNT").unwrap_or(0),
    }
}
