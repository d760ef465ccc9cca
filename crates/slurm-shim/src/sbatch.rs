//! `sbatch`: submits a script (sbatch manual).

use std::io::Read;

use muster_api::{JobEnd, JobRef, SubmitResponse, Tool};
use muster_client::Client;
use muster_model::{JobId, JobKind, JobState};
use muster_slurm_syntax::options::Command;
use muster_slurm_syntax::script::{SCRIPT_BYTES_MAX, text_of};
use muster_slurm_syntax::submission::CommandLine;

use crate::fail::{Failure, Outcome};
use crate::{clock, out, submit};

/// Runs the command.
pub(crate) fn run(args: &[String]) -> Outcome {
    let line = submit::split(Command::Sbatch, args)?;
    if line.client.version {
        return crate::version();
    }
    if line.client.help || line.client.usage {
        out::print(&muster_slurm_syntax::docs::help(Command::Sbatch));
        return Ok(0);
    }
    let mut request = submit::request(Tool::Sbatch, JobKind::Batch, &line)?;
    if line.client.wrap.is_some() {
        if line.script.is_some() {
            return Err(Failure::error(
                "sbatch",
                "Script arguments are not permitted with the --wrap option",
            ));
        }
    } else {
        (request.script_name, request.script) = script(&line)?;
        request.args.clone_from(&line.arguments);
    }
    request.test_only = line.client.test_only;
    let (cluster, options) = submit::without_cluster(&request.options);
    request.options = options;
    let client = Client::connect().map_err(|error| Failure::client("sbatch", &error))?;
    let cluster = submit::check_cluster("sbatch", &client, cluster)?;
    let doing =
        if request.test_only { "allocation failure" } else { "Batch job submission failed" };
    let answer = client.submit(&request).map_err(|e| submit::refused("sbatch", doing, &e))?;
    submit::warn("sbatch", &answer.warnings);
    if let Some(trial) = &answer.trial {
        return say_trial(answer.job_id, trial);
    }
    if let Some(text) = receipt(&answer, cluster.as_deref(), line.client.parsable) {
        out::print(&text);
    }
    if line.client.wait || answer.client.wait {
        return wait(&client, answer.job_id);
    }
    Ok(0)
}

/// The script's name and text: a file, or standard input.
fn script(line: &CommandLine) -> Result<(String, String), Failure> {
    let mut bytes = Vec::new();
    // One byte more than the bound, to see that it is passed.
    let limit = SCRIPT_BYTES_MAX as u64 + 1;
    let name = match line.script.as_deref() {
        None | Some("-") => {
            let read = std::io::stdin().lock().take(limit).read_to_end(&mut bytes);
            read.map_err(|error| Failure::error("sbatch", &format!("standard input: {error}")))?;
            "-".to_owned()
        }
        Some(path) => {
            let unable = |_| Failure::error("sbatch", &format!("Unable to open file {path}"));
            let file = std::fs::File::open(path).map_err(unable)?;
            file.take(limit).read_to_end(&mut bytes).map_err(unable)?;
            path.to_owned()
        }
    };
    match text_of(&bytes) {
        Ok(text) => Ok((name, text.to_owned())),
        Err(problem) => Err(Failure::error("sbatch", &problem.told())),
    }
}

/// What is printed on standard output, or nothing where nothing shall be.
fn receipt(answer: &SubmitResponse, cluster: Option<&str>, parsable: bool) -> Option<String> {
    let id = answer.job_id;
    if parsable || answer.client.parsable {
        return Some(match cluster {
            Some(cluster) => format!("{id};{cluster}\n"),
            None => format!("{id}\n"),
        });
    }
    if answer.client.quiet {
        return None;
    }
    Some(match cluster {
        Some(cluster) => format!("Submitted batch job {id} on cluster {cluster}\n"),
        None => format!("Submitted batch job {id}\n"),
    })
}

fn say_trial(id: u32, trial: &muster_api::Trial) -> Outcome {
    let Some(start) = trial.start_ms else {
        return Err(Failure::error("sbatch", "allocation failure: the start cannot be foreseen"));
    };
    out::say(&format!(
        "sbatch: Job {id} to start at {} using {} processors on nodes {} in partition {}",
        clock::instant(start),
        trial.cpus,
        trial.node_list,
        trial.partition
    ));
    Ok(0)
}

fn wait(client: &Client, id: u32) -> Outcome {
    let answer = client
        .wait_over(&JobRef::Job(JobId(id)))
        .map_err(|error| Failure::client("sbatch", &error))?;
    Ok(exit_code(&answer.jobs))
}

/// The highest exit code of all tasks; 1 for a signal and for a job that never ran.
fn exit_code(jobs: &[JobEnd]) -> i32 {
    let code = |job: &JobEnd| match job.exit {
        Some(exit) if exit.signal == 0 && (exit.code != 0 || job.state == JobState::Completed) => {
            i32::from(exit.code)
        }
        _ => 1,
    };
    jobs.iter().map(code).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::ExitStatus;

    fn end(state: JobState, code: u8, signal: u8) -> JobEnd {
        let exit = Some(ExitStatus { code, signal });
        JobEnd { id: 1, job: "1".into(), state, exit, message: String::new() }
    }

    #[test]
    fn wait_gives_the_highest_code_and_one_for_a_signal() {
        let completed = end(JobState::Completed, 0, 0);
        assert_eq!(exit_code(&[end(JobState::Failed, 3, 0)]), 3);
        assert_eq!(exit_code(&[end(JobState::Failed, 0, 9)]), 1);
        let tasks = [completed.clone(), end(JobState::Failed, 4, 0), end(JobState::Failed, 2, 0)];
        assert_eq!(exit_code(&tasks), 4);
        assert_eq!(exit_code(&[completed]), 0);
        assert_eq!(exit_code(&[JobEnd { exit: None, ..end(JobState::Cancelled, 0, 0) }]), 1);
    }

    #[test]
    fn the_answer_is_what_clients_read() {
        let answer = SubmitResponse { job_id: 4711, ..SubmitResponse::default() };
        let says = |cluster, parsable| receipt(&answer, cluster, parsable).unwrap_or_default();
        assert_eq!(says(None, false), "Submitted batch job 4711\n");
        assert_eq!(says(None, true), "4711\n");
        assert_eq!(says(Some("east"), true), "4711;east\n");
        let mut quiet = answer.clone();
        quiet.client.quiet = true;
        assert_eq!(receipt(&quiet, None, false), None);
    }
}
