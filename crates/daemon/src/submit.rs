//! From what a client sent to what the writer takes.
//!
//! The parser turns script, command line and environment into specs; here the facts that only the
//! daemon knows come on top: who asks, from where, the site's defaults.

use crate::http::error::Refusal;
use crate::place::{Places, place_of_option, wire_problem};
use hyper::StatusCode;
use jiff::tz::TimeZone;
use muster_api::{ApiError, ClientFlags, Problem, SubmitRequest, Tool};
use muster_control::command::{CommandError, Principal, Submission};
use muster_model::{EngineName, JobKind, JobSpec, Owner, Payload, Policy, Timestamp};
use muster_slurm_syntax::export::Export;
use muster_slurm_syntax::options::{Command, Opt};
use muster_slurm_syntax::problem::Place as Spot;
use muster_slurm_syntax::submission::{
    ComponentRequest, Context, Sources, Submission as Parsed, submission, wrapped,
};
use std::collections::BTreeMap;
use std::path::Path;

/// The most variables, and bytes of them, that an environment may have.
const ENVIRONMENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A submission that was read, with what goes back to the client.
pub(crate) struct Read {
    pub(crate) submission: Submission,
    pub(crate) warnings: Vec<Problem>,
    pub(crate) client: ClientFlags,
    /// Where options were given, by component.
    pub(crate) places: Vec<BTreeMap<Opt, Spot>>,
}

/// What reading depends on beside the request.
pub(crate) struct Site<'a> {
    pub(crate) now: Timestamp,
    pub(crate) zone: &'a TimeZone,
    pub(crate) policy: &'a Policy,
    pub(crate) sends_mail: bool,
    /// The engine of each partition, and whether it is the default one.
    pub(crate) partitions: &'a [(String, EngineName, bool)],
}

/// Reads a submission.
///
/// # Errors
/// Everything that is wrong with it, each with its place.
pub(crate) fn read(
    request: &SubmitRequest,
    principal: &Principal,
    site: &Site,
) -> Result<Read, Refusal> {
    check_whole(request)?;
    let zone = request.environment.get("TZ").and_then(|name| TimeZone::get(name).ok());
    let context = Context {
        zone: zone.unwrap_or_else(|| site.zone.clone()),
        array_size_max: site.policy.max_array_size,
        ..Context::at(site.now)
    };
    let parsed = submission(sources(request), &context).map_err(|found| {
        let problems = found.iter().map(|d| wire_problem(d, request)).collect();
        refusal(problems)
    })?;
    let payload = payload(request, &parsed);
    let client = ClientFlags {
        parsable: parsed.client.parsable,
        wait: parsed.client.wait,
        quiet: parsed.client.quiet,
        test_only: parsed.client.test_only,
    };
    let mut warnings: Vec<Problem> =
        parsed.warnings.iter().map(|d| wire_problem(d, request)).collect();
    if !site.sends_mail && parsed.components.iter().any(|c| c.spec.mail.is_some()) {
        warnings.push(Problem {
            code: "W_NOT_DONE".to_owned(),
            message: "no mail is sent: there is no mail program here".to_owned(),
            place: place_of_option(&parsed.places, request, Opt::MailType),
            hint: Some("ask the admin to set daemon.mail_program".to_owned()),
        });
    }
    let specs = parsed.components.iter();
    let mut specs: Vec<JobSpec> =
        specs.map(|c| spec_of(c, request, &parsed, principal, site.policy)).collect();
    for (spec, component) in specs.iter_mut().zip(&parsed.components) {
        if let Some(engine) = &component.on {
            on_engine(spec, engine, site.partitions, &parsed.places, request)?;
        }
    }
    check_directories(&specs, &parsed.places, request)?;
    warnings.extend(missing_outputs(&specs, &parsed.places, request));
    let texts: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    for spec in &mut specs {
        spec.warnings.clone_from(&texts);
    }
    let submission = Submission { specs, payload };
    Ok(Read { submission, warnings, client, places: parsed.places })
}

/// The texts of a request, as the parser wants them.
fn sources(request: &SubmitRequest) -> Sources<'_> {
    Sources {
        command: command(request.tool),
        script: Some(request.script.as_str()).filter(|s| {
            !s.is_empty() || (request.kind == JobKind::Batch && !wraps(&request.options))
        }),
        words: &request.options,
        environment: &request.environment,
    }
}

fn command(tool: Tool) -> Command {
    match tool {
        Tool::Sbatch => Command::Sbatch,
        Tool::Salloc => Command::Salloc,
        Tool::Srun => Command::Srun,
    }
}

fn wraps(options: &[String]) -> bool {
    options.iter().any(|word| word.starts_with("--wr"))
}

fn check_whole(request: &SubmitRequest) -> Result<(), Refusal> {
    let bytes: usize = request.environment.iter().map(|(k, v)| k.len() + v.len() + 2).sum();
    if bytes > ENVIRONMENT_BYTES_MAX {
        let message =
            format!("the environment has {bytes} bytes; at most {ENVIRONMENT_BYTES_MAX} are taken");
        return Err(Refusal::invalid("E_ENVIRONMENT_LARGE", message)
            .hint("export less: --export=NONE, or only the variables that the job needs"));
    }
    let strings = request.environment.iter().flat_map(|(k, v)| [k, v]).chain(&request.args);
    if strings.chain([&request.cwd]).any(|text| text.contains('\0')) {
        let message = "a variable, an argument or the directory has a NUL character in it";
        return Err(Refusal::invalid("E_TEXT_NUL", message));
    }
    if !request.cwd.starts_with('/') {
        let message = format!("the working directory {:?} is not absolute", request.cwd);
        return Err(Refusal::invalid("E_CWD", message));
    }
    Ok(())
}

fn payload(request: &SubmitRequest, parsed: &Parsed) -> Payload {
    let export = parsed.components.first().and_then(|c| c.export.as_ref());
    let environment = match export {
        Some(export) => export.apply(&request.environment),
        None => request.environment.clone(),
    };
    let script = match &parsed.client.wrap {
        Some(command) => wrapped(command),
        None => request.script.clone(),
    };
    Payload {
        script,
        args: request.args.clone(),
        environment: environment.into_iter().collect(),
        umask: request.umask.unwrap_or(0o022) & 0o777,
        limits: request.limits.iter().map(|l| (l.name.clone(), l.soft, l.hard)).collect(),
        login_environment: matches!(export, Some(Export::None)),
    }
}

fn spec_of(
    component: &ComponentRequest,
    request: &SubmitRequest,
    parsed: &Parsed,
    principal: &Principal,
    policy: &Policy,
) -> JobSpec {
    let mut spec = component.spec.clone();
    spec.owner = Owner { uid: principal.uid, gid: principal.gid, user: principal.user.clone() };
    spec.kind = request.kind;
    spec.requeue = component.requeue.unwrap_or(policy.requeue && request.kind == JobKind::Batch);
    if spec.cwd.is_empty() {
        spec.cwd.clone_from(&request.cwd);
    } else if !spec.cwd.starts_with('/') {
        spec.cwd = Path::new(&request.cwd).join(&spec.cwd).to_string_lossy().into_owned();
    }
    spec.command = match &parsed.client.wrap {
        Some(_) => String::new(),
        None => request.script_name.clone(),
    };
    if spec.name.is_empty() {
        spec.name = default_name(request, parsed);
    }
    spec.submit_dir.clone_from(&request.cwd);
    spec.submit_host.clone_from(&request.submit_host);
    spec
}

/// The word for whichever engine starts the job first.
const ANY: &str = "any";

/// Keeps a job to an engine (`--on`): where no partition is named, the default one where that is
/// the engine's, else all of the engine's. [`ANY`] is all partitions, the default one first: of those
/// that could start a job at the same time the first is taken.
fn on_engine(
    spec: &mut JobSpec,
    engine: &str,
    partitions: &[(String, EngineName, bool)],
    places: &Places,
    request: &SubmitRequest,
) -> Result<(), Refusal> {
    let refuse = |code: &str, message: String, hint: String| {
        let place = place_of_option(places, request, Opt::On);
        let problem = Problem { code: code.to_owned(), message, place, hint: Some(hint) };
        refusal(vec![problem])
    };
    if engine == ANY {
        if spec.partitions.is_empty() {
            let (first, then): (Vec<_>, Vec<_>) = partitions.iter().partition(|(.., it)| *it);
            spec.partitions =
                first.into_iter().chain(then).map(|(name, ..)| name.clone()).collect();
        }
        return Ok(());
    }
    let its: Vec<_> = partitions.iter().filter(|(_, of, _)| of.0 == engine).collect();
    if its.is_empty() {
        let mut there: Vec<&str> = partitions.iter().map(|(_, of, _)| of.0.as_str()).collect();
        there.sort_unstable();
        there.dedup();
        let message = format!("no partition here runs jobs on {engine:?}");
        let hint = format!("name one of: {}, or {ANY} for the first to start it", there.join(", "));
        return Err(refuse("E_ENGINE_UNKNOWN", message, hint));
    }
    let names = || its.iter().map(|(name, ..)| name.clone()).collect::<Vec<_>>();
    let other = spec
        .partitions
        .iter()
        .find_map(|name| partitions.iter().find(|(known, of, _)| known == name && of.0 != engine));
    if let Some((name, of, _)) = other {
        let message = format!("partition {name} runs jobs on {of}, not on {engine}");
        let hint = format!("leave --on out, or name one of: {}", names().join(", "));
        return Err(refuse("E_ENGINE_OTHER", message, hint));
    }
    if spec.partitions.is_empty() {
        let default = its.iter().find(|(_, _, default)| *default);
        spec.partitions = default.map_or_else(names, |(name, ..)| vec![name.clone()]);
    }
    Ok(())
}

/// The script's file name, `wrap`, or the command's (sbatch, srun, salloc manuals).
fn default_name(request: &SubmitRequest, parsed: &Parsed) -> String {
    let base =
        |path: &str| Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    if parsed.client.wrap.is_some() {
        return "wrap".to_owned();
    }
    let from = match request.kind {
        JobKind::Batch => Some(request.script_name.as_str()).filter(|name| *name != "-"),
        _ => request.args.first().map(String::as_str),
    };
    from.filter(|name| !name.is_empty()).and_then(base).unwrap_or_else(|| {
        match request.kind {
            JobKind::Batch => "sbatch",
            JobKind::Allocation => "interactive",
            JobKind::Terminal => "terminal",
        }
        .to_owned()
    })
}

/// A directory that is not there is told now and not at the start, hours later. What cannot be
/// looked at (a home on a server that root may not read) is left to the start.
fn check_directories(
    specs: &[JobSpec],
    places: &Places,
    request: &SubmitRequest,
) -> Result<(), Refusal> {
    for spec in specs {
        let wrong = match std::fs::metadata(&spec.cwd) {
            Ok(data) if data.is_dir() => continue,
            Ok(_) => "is not a directory",
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "does not exist",
            Err(_) => continue,
        };
        let problem = Problem {
            code: "E_CHDIR".to_owned(),
            message: format!("the working directory {} {wrong}", spec.cwd),
            place: place_of_option(places, request, Opt::Chdir),
            hint: Some("make it first, or name another with --chdir".to_owned()),
        };
        return Err(refusal(vec![problem]));
    }
    Ok(())
}

/// Directories of output files that are not there: the job can make none before it starts. One
/// whose name is known only then is not looked at.
fn missing_outputs(specs: &[JobSpec], places: &Places, request: &SubmitRequest) -> Vec<Problem> {
    let mut found: Vec<Problem> = Vec::new();
    for spec in specs {
        let files = [
            ("--output", Opt::Output, &spec.stdio.output),
            ("--error", Opt::Error, &spec.stdio.error),
        ];
        for (name, option, file) in files {
            let path = file.as_ref().map(|file| Path::new(&spec.cwd).join(file));
            let Some(dir) = path.as_deref().and_then(Path::parent) else { continue };
            let dir_text = dir.to_string_lossy();
            if dir_text.contains('%') || !is_missing(dir) {
                continue;
            }
            let problem = Problem {
                code: "W_OUTPUT".to_owned(),
                message: format!(
                    "the directory {dir_text} of {name} does not exist: without it the job fails"
                ),
                place: place_of_option(places, request, option),
                hint: Some(format!("make it before the job starts: mkdir -p {dir_text}")),
            };
            if !found.iter().any(|other| other.hint == problem.hint) {
                found.push(problem);
            }
        }
    }
    found
}

fn is_missing(dir: &Path) -> bool {
    std::fs::metadata(dir).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn refusal(problems: Vec<Problem>) -> Refusal {
    Refusal {
        status: StatusCode::UNPROCESSABLE_ENTITY,
        error: Box::new(ApiError::of_problems(problems)),
    }
}

/// What the writer refused, with the place of the option that it is about.
pub(crate) fn refused(error: CommandError, places: &Places, request: &SubmitRequest) -> Refusal {
    let option = match &error {
        CommandError::UnknownName { kind, .. } => match *kind {
            "partition" => Some(Opt::Partition),
            "account" => Some(Opt::Account),
            "QOS" | "qos" | "quality of service" => Some(Opt::Qos),
            "licence" | "license" => Some(Opt::Licenses),
            "feature" => Some(Opt::Constraint),
            "reservation" => Some(Opt::Reservation),
            "node" => Some(Opt::Nodelist),
            _ => None,
        },
        CommandError::AccountRefused { .. } => Some(Opt::Account),
        CommandError::PartitionRefused { .. } | CommandError::PartitionClosed { .. } => {
            Some(Opt::Partition)
        }
        CommandError::UnknownDependency { .. } | CommandError::DependencyCircle { .. } => {
            Some(Opt::Dependency)
        }
        CommandError::NeverFits { .. } => size_option(places),
        _ => None,
    };
    let mut refusal = Refusal::from(error);
    refusal.error.place = option.and_then(|option| place_of_option(places, request, option));
    refusal
}

/// The option that most likely asks for too much: the first of these that was given.
fn size_option(places: &Places) -> Option<Opt> {
    [
        Opt::Mig,
        Opt::GpuShare,
        Opt::GpuPieces,
        Opt::GpuIsolation,
        Opt::GpuMemory,
        Opt::GpusPerNode,
        Opt::Gres,
        Opt::Gpus,
        Opt::GpusPerTask,
        Opt::Nodelist,
        Opt::Mem,
        Opt::MemPerCpu,
        Opt::CpusPerTask,
        Opt::NtasksPerNode,
        Opt::Nodes,
        Opt::Ntasks,
        Opt::Constraint,
        Opt::Affinity,
        Opt::Topology,
    ]
    .into_iter()
    .find(|option| places.iter().any(|component| component.contains_key(option)))
}

/// Where the memory was given that this option would give otherwise.
pub(crate) fn place_of_memory(
    places: &Places,
    request: &SubmitRequest,
    option: &str,
) -> Option<muster_api::Place> {
    let of_gpus = option.starts_with("--gpu-memory");
    let all: &[Opt] =
        if of_gpus { &[Opt::GpuMemory] } else { &[Opt::Mem, Opt::MemPerCpu, Opt::MemPerGpu] };
    all.iter().find_map(|option| place_of_option(places, request, *option))
}
