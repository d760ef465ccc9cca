//! What sbatch, salloc and srun send to the daemon: the caller's surroundings and words.

use muster_api::{ApiError, ResourceLimit, SubmitRequest, Tool};
use muster_client::ClientError;
use muster_model::JobKind;
use muster_slurm_syntax::options::Command;
use muster_slurm_syntax::problem::{Code, Diagnostic, Place};
use muster_slurm_syntax::submission::{CommandLine, command_line};
use std::fmt::Write as _;

use crate::fail::{self, Failure, prefixed};
use crate::out;

/// Exit code of Slurm's commands for a wrong option.
const USAGE: i32 = 255;

/// Splits a command line into options, script and arguments.
///
/// # Errors
/// Options that do not exist or lack their values, in glibc's words.
pub(crate) fn split(command: Command, words: &[String]) -> Result<CommandLine, Failure> {
    command_line(command, words).map_err(|found| usage(command.name(), words, &found))
}

fn usage(name: &str, words: &[String], found: &[Diagnostic]) -> Failure {
    let line = |diagnostic: &Diagnostic| {
        let word = match diagnostic.place {
            Place::CommandLine { word } => words.get(word as usize - 1),
            _ => None,
        };
        match (diagnostic.code, word) {
            (Code::OptionUnknown, Some(word)) if word.starts_with("--") => {
                format!("{name}: unrecognized option '{word}'")
            }
            (Code::OptionUnknown, Some(word)) => {
                format!("{name}: invalid option -- '{}'", word.trim_start_matches('-'))
            }
            _ => prefixed(name, "error", &diagnostic.to_string().replace("error[", "[")),
        }
    };
    let lines: Vec<String> = found.iter().map(line).collect();
    let text = format!("{}\nTry \"{name} --help\" for more information", lines.join("\n"));
    Failure { code: USAGE, text }
}

/// A submission from here: directory, environment, umask, limits and host are this process's.
///
/// # Errors
/// The working directory is gone.
pub(crate) fn request(
    tool: Tool,
    kind: JobKind,
    line: &CommandLine,
) -> Result<SubmitRequest, Failure> {
    let name = match tool {
        Tool::Sbatch => "sbatch",
        Tool::Salloc => "salloc",
        Tool::Srun => "srun",
    };
    let cwd = std::env::current_dir()
        .map_err(|error| Failure::error(name, &format!("the working directory: {error}")))?;
    Ok(SubmitRequest {
        tool,
        kind,
        options: line.options.clone(),
        environment: environment().into_iter().collect(),
        cwd: cwd.to_string_lossy().into_owned(),
        umask: umask(),
        limits: limits(),
        submit_host: host(),
        ..SubmitRequest::default()
    })
}

/// The cluster that `-M` names, and the words without it: muster is one cluster and needs no such
/// option, but clients give it.
pub(crate) fn without_cluster(words: &[String]) -> (Option<String>, Vec<String>) {
    let (mut found, mut kept) = (None, Vec::with_capacity(words.len()));
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let attached = ["--clusters=", "--cluster="].iter().find_map(|p| word.strip_prefix(p));
        if let Some(name) = attached.or_else(|| word.strip_prefix("-M").filter(|n| !n.is_empty())) {
            found = Some(name.to_owned());
        } else if ["-M", "--clusters", "--cluster"].contains(&word.as_str()) {
            found = rest.next().cloned();
        } else {
            kept.push(word.clone());
        }
    }
    (found, kept)
}

/// Checks that the cluster named is this one.
///
/// # Errors
/// It is another one.
pub(crate) fn check_cluster(
    name: &str,
    client: &muster_client::Client,
    wanted: Option<String>,
) -> Result<Option<String>, Failure> {
    let Some(wanted) = wanted.filter(|wanted| wanted != "all") else { return Ok(None) };
    let ping = client.ping().map_err(|error| Failure::client(name, &error))?;
    if wanted.split(',').any(|one| one == ping.cluster) {
        return Ok(Some(ping.cluster));
    }
    Err(Failure::error(
        name,
        &format!("No cluster '{wanted}' known by database.\nhint: this one is {}", ping.cluster),
    ))
}

/// This process's environment as text; what is none is told.
pub(crate) fn environment() -> Vec<(String, String)> {
    let (texts, left_out) = muster_client::environment();
    for name in left_out {
        out::say(&muster_client::left_out(&name));
    }
    texts.into_iter().collect()
}

/// This machine's name.
pub(crate) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// The file mode mask; asked of the kernel without changing it (proc(5), `Umask`).
fn umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let text = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(text.trim(), 8).ok()
}

/// The limits that jobs take over (proc(5), `limits`).
fn limits() -> Vec<ResourceLimit> {
    const NAMES: &[(&str, &str)] = &[
        ("Max cpu time", "CPU"),
        ("Max file size", "FSIZE"),
        ("Max data size", "DATA"),
        ("Max stack size", "STACK"),
        ("Max core file size", "CORE"),
        ("Max resident set", "RSS"),
        ("Max processes", "NPROC"),
        ("Max open files", "NOFILE"),
        ("Max locked memory", "MEMLOCK"),
        ("Max address space", "AS"),
    ];
    let text = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let number = |word: &str| if word == "unlimited" { Some(u64::MAX) } else { word.parse().ok() };
    let limit = |line: &str| {
        let (head, name) = NAMES.iter().find(|(head, _)| line.starts_with(head))?;
        let mut words = line[head.len()..].split_whitespace();
        let (soft, hard) = (number(words.next()?)?, number(words.next()?)?);
        Some(ResourceLimit { name: (*name).to_owned(), soft, hard })
    };
    text.lines().filter_map(limit).collect()
}

/// A refused submission, with Slurm's own sentence where clients look for it.
pub(crate) fn refused(name: &str, doing: &str, error: &ClientError) -> Failure {
    let Some(refusal) = error.refusal() else { return Failure::client(name, error) };
    let mut text = refusal.to_string();
    let code = if is_about_an_option(refusal) {
        USAGE
    } else {
        let sentence = fail::slurm_sentence(refusal);
        let _ = write!(text, "\n{doing}: {}", sentence.unwrap_or("the request is refused"));
        1
    };
    Failure::error(name, &text).with_code(code)
}

/// True where Slurm's own parser would have refused, before anything was sent.
fn is_about_an_option(error: &ApiError) -> bool {
    const FORM: &[&str] = &[
        "E_TIME_BAD",
        "E_MEMORY_BAD",
        "E_COUNT_BAD",
        "E_NODES_BAD",
        "E_WHEN_BAD",
        "E_SIGNAL_BAD",
        "E_VALUE_BAD",
        "E_OPTION_UNKNOWN",
        "E_OPTION_AMBIGUOUS",
        "E_OPTION_ARGUMENT",
        "E_OPTION_REFUSED",
        "E_LINE_QUOTE",
        "E_LINE_WORD",
        "E_GRES_BAD",
    ];
    FORM.contains(&error.code.as_str())
}

/// Warnings of an accepted submission, to standard error.
pub(crate) fn warn(name: &str, warnings: &[muster_api::Problem]) {
    for warning in warnings {
        out::say(&prefixed(name, "warning", &warning.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn unknown_options_are_named_as_glibc_does() {
        let failure = split(Command::Sbatch, &words("--bogus ok.sh")).expect_err("refused");
        assert_eq!(failure.code, 255);
        assert_eq!(
            failure.text,
            "sbatch: unrecognized option '--bogus'\nTry \"sbatch --help\" for more information"
        );
    }

    #[test]
    fn the_cluster_is_taken_out() {
        let (cluster, rest) = without_cluster(&words("--parsable -M east -n1"));
        assert_eq!((cluster.as_deref(), rest), (Some("east"), words("--parsable -n1")));
        assert_eq!(without_cluster(&words("--clusters=all -n1")).0.as_deref(), Some("all"));
    }

    #[test]
    fn a_submission_has_this_process_around_it() {
        let line = split(Command::Sbatch, &words("-n2 run.sh a")).expect("read");
        let request =
            request(Tool::Sbatch, JobKind::Batch, &line).unwrap_or_else(|f| panic!("{}", f.text));
        assert_eq!(request.options, ["-n2"]);
        assert!(request.umask.is_some() && request.environment.contains_key("PATH"));
        assert!(request.limits.iter().any(|limit| limit.name == "NOFILE" && limit.soft > 0));
    }
}
