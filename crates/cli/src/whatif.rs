//! `muster whatif`: whom a change would delay, and by how long.

use std::fmt::Write as _;

use muster_api::{AddNodes, MovedJob, SubmitRequest, Tool, WhatIfRequest, WhatIfResponse};
use muster_client::Client;
use muster_model::{JobKind, Timestamp};
use muster_slurm_syntax::options::Command;

use crate::args::WhatIf;
use crate::say::{self, Failure, Outcome, instant, tell};
use crate::table::{Table, Yield, terminal_width};
use crate::{nodes, submit};

/// The most jobs that are listed.
const LISTED_MAX: usize = 50;

/// The largest configuration that is sent, bytes.
const CONFIG_MAX: u64 = 1 << 20;

/// Runs the command.
pub(crate) fn run(change: WhatIf) -> Outcome {
    let (request, json, texts) = read(change)?;
    let answer =
        Client::connect()?.whatif(&request).map_err(|error| submit::told(error, &texts))?;
    if json {
        return say::json(&answer);
    }
    tell(&told(&answer));
    Ok(0)
}

/// A question, whether JSON is wanted, and the scripts that it is about.
type Asked = (WhatIfRequest, bool, Vec<(String, String)>);

fn read(change: WhatIf) -> Result<Asked, Failure> {
    let none = WhatIfRequest::default;
    Ok(match change {
        WhatIf::Drain { names, json } => {
            let drain = nodes::expanded(&names)?;
            (WhatIfRequest { drain, ..none() }, json, Vec::new())
        }
        WhatIf::Nodes { count, like, json } => {
            (WhatIfRequest { add: Some(AddNodes { count, like }), ..none() }, json, Vec::new())
        }
        WhatIf::Config { file, json } => {
            use std::io::Read as _;
            let mut text = String::new();
            std::fs::File::open(&file)
                .and_then(|file| file.take(CONFIG_MAX).read_to_string(&mut text))
                .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
            (WhatIfRequest { config: Some(text), ..none() }, json, Vec::new())
        }
        WhatIf::Submit { words } => {
            let (json, words) = submit::take_flag(&words, "--json");
            let (request, texts) = submission(&words)?;
            (WhatIfRequest { submit: Some(Box::new(request)), ..none() }, json, texts)
        }
    })
}

/// One script with sbatch's options.
fn submission(words: &[String]) -> Result<(SubmitRequest, Vec<(String, String)>), Failure> {
    let line = submit::split(Command::Sbatch, words)?;
    let mut request = submit::request(Tool::Sbatch, JobKind::Batch, &line)?;
    let mut texts = Vec::new();
    if let Some(name) = &line.script {
        request.script = submit::read(name)?;
        request.script_name.clone_from(name);
        request.args.clone_from(&line.arguments);
        texts.push((name.clone(), request.script.clone()));
    } else if line.client.wrap.is_none() {
        return Err(Failure::usage(
            "a script is needed\nhint: muster whatif submit --time=10 train.sh",
        ));
    }
    Ok((request, texts))
}

/// The answer in words and a table.
fn told(answer: &WhatIfResponse) -> String {
    let mut text = String::new();
    for job in &answer.submitted {
        let _ = match job.after_ms {
            Some(at) => {
                writeln!(text, "{} would start {}", job.name, moment(answer.now_ms, Some(at)))
            }
            None => writeln!(text, "{}: its start cannot be foreseen", job.name),
        };
    }
    text.push_str(&preempted(answer));
    if answer.moved.is_empty() {
        let _ = writeln!(text, "no waiting job would start at another time ({})", kept(answer));
        return text;
    }
    let _ = writeln!(
        text,
        "{} would start later, {} earlier; {}",
        say::plural(u64::from(answer.later), "waiting job"),
        answer.earlier,
        kept(answer)
    );
    text.push_str(&moved(&answer.moved, answer.left_out, answer.now_ms));
    text.push_str(
        "expected starts: running jobs take their whole limits, and all wait their turn\n",
    );
    text
}

/// The jobs that start at another time, as a table.
pub(crate) fn moved(jobs: &[MovedJob], left_out: u32, now: Timestamp) -> String {
    if jobs.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["JOB", "NAME", "USER", "STARTS", "WOULD START", "CHANGE"])
        .yielding(&[Yield::DropSame("USER"), Yield::Shorten("NAME", 16), Yield::Drop("USER")]);
    for job in jobs.iter().take(LISTED_MAX) {
        table.row(vec![
            job.job.clone(),
            job.name.clone(),
            job.user.clone(),
            moment(now, job.before_ms),
            moment(now, job.after_ms),
            by(job),
        ]);
    }
    let mut text = table.text(terminal_width());
    let rest = jobs.len().saturating_sub(LISTED_MAX) + left_out as usize;
    if rest > 0 {
        let _ = writeln!(text, "and {rest} more; --json has them");
    }
    text
}

/// Who would make room, and what becomes of them.
fn preempted(answer: &WhatIfResponse) -> String {
    if answer.preempted.is_empty() {
        return String::new();
    }
    let heads = ["PREEMPTED", "NAME", "USER", "FOR", "HOW", "UNTIL", "STARTS AGAIN"];
    let mut table = Table::new(&heads).yielding(&[
        Yield::DropSame("USER"),
        Yield::Shorten("NAME", 16),
        Yield::Drop("USER"),
    ]);
    for job in answer.preempted.iter().take(LISTED_MAX) {
        let again = match job.mode.as_str() {
            "cancel" => "never".to_owned(),
            "suspend" => "goes on then".to_owned(),
            _ => moment(answer.now_ms, job.again_ms),
        };
        table.row(vec![
            job.job.clone(),
            job.name.clone(),
            job.user.clone(),
            job.by.clone(),
            job.mode.clone(),
            moment(answer.now_ms, Some(job.until_ms)),
            again,
        ]);
    }
    let many = answer.preempted.len();
    let jobs = if many == 1 { "job" } else { "jobs" };
    format!("{many} running {jobs} would be preempted\n{}", table.text(terminal_width()))
}

fn kept(answer: &WhatIfResponse) -> String {
    format!("{} unchanged", answer.unmoved)
}

/// An expected start, as seen from now.
fn moment(now: Timestamp, at: Option<Timestamp>) -> String {
    match at {
        None => "not foreseen".to_owned(),
        Some(at) if at <= now => "now".to_owned(),
        Some(at) => instant(at),
    }
}

/// How much later or earlier.
fn by(job: &MovedJob) -> String {
    match (job.before_ms, job.after_ms) {
        (Some(before), Some(after)) if after >= before => {
            format!("+{}", say::seconds(after.since(before).0))
        }
        (Some(before), Some(after)) => format!("-{}", say::seconds(before.since(after).0)),
        (Some(_), None) => "cannot be foreseen".to_owned(),
        _ => "can be foreseen".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::PreemptedJob;

    #[test]
    fn losers_come_with_what_they_lose() {
        let at = |s| Some(Timestamp::from_secs(s));
        let moved = |before_ms, after_ms| MovedJob { before_ms, after_ms, ..MovedJob::default() };
        assert_eq!(by(&moved(at(0), at(90))), "+1:30");
        assert_eq!(by(&moved(at(3700), at(0))), "-1:01:40");
        assert_eq!(by(&moved(at(0), None)), "cannot be foreseen");
        let answer = WhatIfResponse { unmoved: 3, ..WhatIfResponse::default() };
        assert_eq!(told(&answer), "no waiting job would start at another time (3 unchanged)\n");
    }

    #[test]
    fn who_is_preempted_comes_first_with_what_becomes_of_it() {
        let job = |mode: &str| PreemptedJob {
            job: "12".to_owned(),
            by: "30".to_owned(),
            mode: mode.to_owned(),
            ..PreemptedJob::default()
        };
        let preempted = vec![job("cancel"), job("suspend"), job("requeue")];
        let text = told(&WhatIfResponse { preempted, ..WhatIfResponse::default() });
        assert!(text.starts_with("3 running jobs would be preempted\nPREEMPTED"), "{text}");
        for ending in ["never", "goes on then", "not foreseen"] {
            assert!(text.contains(ending), "{text}");
        }
    }
}
