//! `muster submit`: batch scripts with sbatch's options; several at once, all or none.

use std::io::Read;

use muster_api::{JobRef, SubmitRequest, SubmitResponse, Tool};
use muster_client::{Client, ClientError};
use muster_model::{JobId, JobKind};
use muster_slurm_syntax::options::Command;
use muster_slurm_syntax::script::{SCRIPT_BYTES_MAX, text_of};
use muster_slurm_syntax::submission::{CommandLine, command_line};

use crate::act;
use crate::say::{self, Failure, Outcome, note, print};

/// The most scripts of one call.
const SCRIPTS_MAX: usize = 1024;

/// Runs the command.
pub(crate) fn run(words: &[String]) -> Outcome {
    let (json, words) = take_flag(words, "--json");
    let line = split(Command::Sbatch, &words)?;
    if line.client.help || line.client.usage {
        print(&muster_slurm_syntax::docs::help(Command::Sbatch).replace("sbatch", "muster submit"));
        return Ok(0);
    }
    let (scripts, arguments) = scripts(&line);
    if scripts.is_empty() && line.client.wrap.is_none() {
        return Err(Failure::usage(
            "a script is needed\nhint: muster submit train.sh, or muster submit - for standard input",
        ));
    }
    if scripts.len() > SCRIPTS_MAX {
        return Err(Failure::usage(format!(
            "{} scripts; at most {SCRIPTS_MAX} at once",
            scripts.len()
        )));
    }
    let mut requests = Vec::new();
    let mut texts = Vec::new();
    for name in &scripts {
        let text = read(name)?;
        texts.push((name.clone(), text.clone()));
        let mut request = request(Tool::Sbatch, JobKind::Batch, &line)?;
        request.script_name.clone_from(name);
        request.script = text;
        request.args.clone_from(&arguments);
        requests.push(request);
    }
    if requests.is_empty() {
        requests.push(request(Tool::Sbatch, JobKind::Batch, &line)?);
    }
    let client = Client::connect()?;
    if requests.len() > 1 {
        try_all(&client, &requests, &texts)?;
    }
    let mut answers = Vec::new();
    for request in &requests {
        answers.push(client.submit(request).map_err(|error| told(error, &texts))?);
    }
    report(&answers, &scripts, json)?;
    let waits = line.client.wait || answers.iter().any(|answer| answer.client.wait);
    if waits && !line.client.test_only {
        let jobs: Vec<JobRef> = answers.iter().map(|a| JobRef::Job(JobId(a.job_id))).collect();
        return act::wait_for(&client, &jobs);
    }
    Ok(0)
}

/// Tries every script before the first is submitted, and says all that is wrong.
fn try_all(
    client: &Client,
    requests: &[SubmitRequest],
    texts: &[(String, String)],
) -> Result<(), Failure> {
    let mut wrong = 0;
    for request in requests {
        let trial = SubmitRequest { test_only: true, ..request.clone() };
        match client.submit(&trial) {
            Ok(_) => {}
            Err(ClientError::Refused { error, .. }) => {
                wrong += 1;
                anstream::eprint!("{}", say::refusal(&error, texts));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if wrong == 0 {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{wrong} of {} scripts are refused; none was submitted",
        requests.len()
    )))
}

fn report(answers: &[SubmitResponse], scripts: &[String], json: bool) -> Result<(), Failure> {
    for answer in answers {
        for warning in &answer.warnings {
            note(&format!("warning: {warning}"));
        }
    }
    if json {
        say::json(&answers)?;
        return Ok(());
    }
    for (at, answer) in answers.iter().enumerate() {
        let script = scripts.get(at).map_or("the command", String::as_str);
        if let Some(trial) = &answer.trial {
            let when =
                trial.start_ms.map_or("at a time that cannot be foreseen".to_owned(), |start| {
                    format!("at {} on {}", say::instant(start), trial.node_list)
                });
            print(&format!("{script} would start {when}\n"));
        } else if answer.client.parsable {
            print(&format!("{}\n", answer.job_id));
        } else if !answer.client.quiet {
            let what =
                if answer.tasks > 1 { format!(" ({} tasks)", answer.tasks) } else { String::new() };
            print(&format!("job {}{what}: {script}\n", answer.job_id));
        }
    }
    Ok(())
}

/// The words without a flag of this command's own, and whether it was there.
pub(crate) fn take_flag(words: &[String], flag: &str) -> (bool, Vec<String>) {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let found = words[..end].iter().any(|word| word == flag);
    let kept = words.iter().enumerate().filter(|(at, word)| *at >= end || *word != flag);
    (found, kept.map(|(_, word)| word.clone()).collect())
}

/// Splits options from the rest.
pub(crate) fn split(command: Command, words: &[String]) -> Result<CommandLine, Failure> {
    command_line(command, words).map_err(|found| {
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        Failure::usage(
            lines.join("\n").trim_start_matches("error").trim_start_matches(": ").to_owned(),
        )
    })
}

/// The scripts, and the arguments behind `--`.
fn scripts(line: &CommandLine) -> (Vec<String>, Vec<String>) {
    let all: Vec<String> = line.script.iter().chain(&line.arguments).cloned().collect();
    match all.iter().position(|word| word == "--") {
        Some(at) => (all[..at].to_vec(), all[at + 1..].to_vec()),
        None => (all, Vec::new()),
    }
}

/// The text of a script, or of standard input for `-`.
pub(crate) fn read(name: &str) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("{name}: {error} [E_SCRIPT_READ]"));
    let mut bytes = Vec::new();
    // One byte more than the bound, to see that it is passed.
    let limit = SCRIPT_BYTES_MAX as u64 + 1;
    if name == "-" {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(failed)?;
    } else {
        std::fs::File::open(name)
            .and_then(|file| file.take(limit).read_to_end(&mut bytes))
            .map_err(failed)?;
    }
    text_of(&bytes)
        .map(str::to_owned)
        .map_err(|problem| Failure::new(format!("{name}: {}", problem.told())))
}

/// A submission from here.
pub(crate) fn request(
    tool: Tool,
    kind: JobKind,
    line: &CommandLine,
) -> Result<SubmitRequest, Failure> {
    let (environment, left_out) = muster_client::environment();
    for name in left_out {
        note(&muster_client::left_out(&name));
    }
    let cwd = std::env::current_dir()
        .map_err(|error| Failure::new(format!("the working directory: {error}")))?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    Ok(SubmitRequest {
        tool,
        kind,
        options: line.options.clone(),
        environment,
        cwd: cwd.to_string_lossy().into_owned(),
        umask: umask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()),
        submit_host: host.trim().to_owned(),
        test_only: line.client.test_only,
        ..SubmitRequest::default()
    })
}

/// A refusal with the lines of the scripts it is about.
pub(crate) fn told(error: ClientError, texts: &[(String, String)]) -> Failure {
    match error.refusal() {
        Some(refusal) => {
            anstream::eprint!("{}", say::refusal(refusal, texts));
            Failure { code: 1, text: String::new() }
        }
        None => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn options_scripts_and_arguments_part() {
        let (json, rest) = take_flag(&words("--json -n4 a.sh b.sh -- --json x"), "--json");
        assert!(json);
        let line = split(Command::Sbatch, &rest).expect("read");
        assert_eq!(line.options, ["-n4"]);
        assert_eq!(scripts(&line), (words("a.sh b.sh"), words("--json x")));
    }

    #[test]
    fn wrong_options_are_a_wrong_command_line() {
        let refused = split(Command::Sbatch, &words("--bogus a.sh")).expect_err("refused");
        assert_eq!(refused.code, 2);
        assert!(refused.text.contains("E_OPTION_UNKNOWN"), "{}", refused.text);
    }
}
