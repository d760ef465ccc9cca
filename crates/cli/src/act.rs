//! Doing something to jobs, and waiting for their end.

use muster_api::{Action, ActionRequest, JobEnd, JobRef};
use muster_client::Client;
use muster_model::JobState;

use crate::args::Jobs;
use crate::say::{self, Failure, Outcome, note, print};

/// Cancels, holds, releases or requeues.
pub(crate) fn run(action: Action, args: &Jobs) -> Outcome {
    let jobs = jobs(&args.jobs)?;
    act(&ActionRequest { action, jobs, ..ActionRequest::default() }, args.json)
}

/// Reports a complete checkpoint: of the job named, or of the one that this runs in.
pub(crate) fn checkpoint(job: Option<&str>, json: bool) -> Outcome {
    let variable = |name: &str| std::env::var(name).ok();
    let (jobs, attempt) = match job {
        Some(word) => (vec![self::job(word)?], None),
        None => own(&variable)?,
    };
    let action = Action::Checkpoint;
    act(&ActionRequest { action, jobs, attempt, ..ActionRequest::default() }, json)
}

/// The job around this process, and its attempt.
fn own(variable: &dyn Fn(&str) -> Option<String>) -> Result<(Vec<JobRef>, Option<u32>), Failure> {
    let id = variable("SLURM_JOB_ID").ok_or_else(|| {
        Failure::usage("this is not inside a job: name one [E_JOB_NAME]".to_owned())
    })?;
    // The first task of an array has the array's number.
    let task = variable("SLURM_ARRAY_JOB_ID").zip(variable("SLURM_ARRAY_TASK_ID"));
    let name = task.map_or(id, |(array, task)| format!("{array}_{task}"));
    let restarts = variable("SLURM_RESTART_COUNT").and_then(|text| text.parse::<u32>().ok());
    Ok((vec![job(&name)?], Some(restarts.unwrap_or(0).saturating_add(1))))
}

fn act(request: &ActionRequest, json: bool) -> Outcome {
    let action = request.action;
    let client = Client::connect()?;
    let answer = client.act(request)?;
    let wrong = answer.results.iter().filter(|result| result.error.is_some()).count();
    if json {
        say::json(&answer)?;
    } else {
        for result in &answer.results {
            match &result.error {
                Some(error) => say::complain(&format!("job {}: {error}", result.job)),
                None => note(&format!("job {} {}", result.job, done(action))),
            }
        }
    }
    Ok(i32::from(wrong > 0))
}

fn done(action: Action) -> &'static str {
    match action {
        Action::Cancel => "is cancelled",
        Action::Hold | Action::Uhold => "is held",
        Action::Release => "is released",
        Action::Requeue | Action::RequeueHold => "is put back in the queue",
        Action::Suspend => "stands still",
        Action::Resume => "goes on",
        Action::Signal => "has the signal",
        Action::Checkpoint => "is checkpointed",
    }
}

/// Reads names of jobs, in a word each or listed in one: `1,2`, `900_[1-3,7],901`.
pub(crate) fn jobs(words: &[String]) -> Result<Vec<JobRef>, Failure> {
    words.iter().flat_map(|word| listed(word)).map(job).collect()
}

/// The parts between commas; those inside brackets belong to a name.
fn listed(word: &str) -> Vec<&str> {
    let mut inside = false;
    let parts = word.split(|letter| {
        inside = match letter {
            '[' => true,
            ']' => false,
            _ => inside,
        };
        letter == ',' && !inside
    });
    parts.collect()
}

/// Reads the name of a job.
pub(crate) fn job(word: &str) -> Result<JobRef, Failure> {
    word.parse()
        .map_err(|error: muster_api::JobRefError| Failure::usage(format!("{error} [E_JOB_NAME]")))
}

/// Waits for the end of jobs and prints how they ended.
pub(crate) fn wait(args: &Jobs) -> Outcome {
    let jobs = jobs(&args.jobs)?;
    let client = Client::connect()?;
    if !args.json {
        return wait_for(&client, &jobs);
    }
    let mut ends = Vec::new();
    for job in &jobs {
        ends.extend(client.wait_over(job)?.jobs);
    }
    say::json(&ends)?;
    Ok(exit_code(&ends))
}

/// Waits for the end of jobs; returns their highest exit code.
pub(crate) fn wait_for(client: &Client, jobs: &[JobRef]) -> Outcome {
    let mut ends = Vec::new();
    for job in jobs {
        let answer = client.wait_over(job)?;
        for end in &answer.jobs {
            let exit = end.exit.map(|exit| format!(" {exit}")).unwrap_or_default();
            let message =
                if end.message.is_empty() { String::new() } else { format!(" ({})", end.message) };
            print(&format!("job {} {}{exit}{message}\n", end.job, say::coloured(end.state)));
        }
        ends.extend(answer.jobs);
    }
    Ok(exit_code(&ends))
}

/// The highest code: the job's own, 128 and the signal, or 1 where it never ran.
pub(crate) fn exit_code(ends: &[JobEnd]) -> i32 {
    let code = |end: &JobEnd| match end.exit {
        Some(exit) if exit.signal != 0 => 128 + i32::from(exit.signal),
        Some(exit) if exit.code != 0 || end.state == JobState::Completed => i32::from(exit.code),
        _ => 1,
    };
    ends.iter().map(code).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::ExitStatus;

    #[test]
    fn jobs_are_listed_in_words_and_in_one() {
        let listed = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let jobs = super::jobs(&words).expect("jobs");
            jobs.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(listed(&["1,2", "3"]), ["1", "2", "3"]);
        assert_eq!(listed(&["900_[1-3,7],901"]).len(), 2);
        assert!(super::jobs(&["1,,2".to_owned()]).is_err());
    }

    #[test]
    fn the_highest_code_wins() {
        let end = |state, code, signal| JobEnd {
            id: 1,
            job: "1".into(),
            state,
            exit: Some(ExitStatus { code, signal }),
            message: String::new(),
        };
        assert_eq!(exit_code(&[end(JobState::Completed, 0, 0), end(JobState::Failed, 3, 0)]), 3);
        assert_eq!(exit_code(&[end(JobState::Cancelled, 0, 15)]), 143);
        assert_eq!(exit_code(&[end(JobState::Cancelled, 0, 0)]), 1);
        assert_eq!(exit_code(&[]), 0);
    }

    #[test]
    fn a_job_knows_itself_and_its_attempt() {
        let of = |variables: &[(&str, &str)]| {
            let owned: Vec<(String, String)> =
                variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            own(&move |name: &str| owned.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone()))
        };
        let (jobs, attempt) = of(&[("SLURM_JOB_ID", "12")]).expect("read");
        assert_eq!((jobs[0].to_string().as_str(), attempt), ("12", Some(1)));
        let task = [
            ("SLURM_JOB_ID", "900"),
            ("SLURM_ARRAY_JOB_ID", "900"),
            ("SLURM_ARRAY_TASK_ID", "3"),
            ("SLURM_RESTART_COUNT", "2"),
        ];
        let (jobs, attempt) = of(&task).expect("read");
        assert_eq!((jobs[0].to_string().as_str(), attempt), ("900_3", Some(3)));
        assert!(of(&[]).is_err());
    }

    #[test]
    fn names_of_jobs_are_read() {
        assert_eq!(jobs(&["12".into(), "900_[1-3]".into()]).expect("read").len(), 2);
        assert_eq!(job("twelve").expect_err("refused").code, 2);
    }
}
