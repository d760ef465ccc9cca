//! Output: data to standard output, talk to standard error, colour only for a terminal.

use std::fmt::Write as _;
use std::io::Write;

use jiff::tz::TimeZone;
use muster_api::ApiError;
use muster_client::ClientError;
use muster_model::{JobState, Seconds, TimeLimit, Timestamp};
use muster_slurm_syntax::duration::print_short;
use muster_slurm_syntax::state::SlurmState;
use owo_colors::{OwoColorize, Style};
use serde::Serialize;

use crate::table::{talk_width, terminal_width, wrapped};

/// Why a command ends without its result: the exit code and a message.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code: 1 refused or not found, 2 a wrong command line.
    pub(crate) code: i32,
    /// The message, complete; empty where all was said already.
    pub(crate) text: String,
}

/// A command's end: its exit code.
pub(crate) type Outcome = Result<i32, Failure>;

impl Failure {
    /// A message with `error: ` in front, exit code 1.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { code: 1, text: text.into() }
    }

    /// The same for a wrong command line.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self { code: 2, text: text.into() }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::new(error.to_string())
    }
}

/// Prints a failure's message.
pub(crate) fn complain(text: &str) {
    if text.is_empty() {
        return;
    }
    let text = wrapped(text, talk_width());
    for (at, line) in text.lines().enumerate() {
        match line.strip_prefix("hint: ") {
            Some(hint) => {
                say(&format!("{} {hint}", "hint:".style(Style::new().cyan().bold())));
            }
            None if at == 0 => {
                say(&format!("{} {line}", "error:".style(Style::new().red().bold())));
            }
            None => say(line),
        }
    }
}

/// A line to standard error; one that nobody reads any more is no failure.
fn say(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

/// Prints data; a closed pipe is no error.
pub(crate) fn print(text: &str) {
    let mut out = anstream::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints sentences; at a terminal broken so that they fit.
pub(crate) fn tell(text: &str) {
    print(&wrapped(text, terminal_width()));
}

/// Prints data as JSON.
pub(crate) fn json(value: &impl Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(format!("the answer is no JSON: {error}")))?;
    print(&format!("{text}\n"));
    Ok(0)
}

/// Says something to the person at the terminal.
pub(crate) fn note(text: &str) {
    say(&wrapped(text, talk_width()));
}

/// A title in bold.
pub(crate) fn bold(text: &str) -> String {
    text.style(Style::new().bold()).to_string()
}

/// A state in Slurm's word, in the colour that fits it.
pub(crate) fn coloured(state: JobState) -> String {
    let style = match state {
        JobState::Running | JobState::Completed => Style::new().green(),
        JobState::Pending | JobState::Starting | JobState::Suspended | JobState::Completing => {
            Style::new().yellow()
        }
        JobState::Cancelled => Style::new().dimmed(),
        _ => Style::new().red(),
    };
    word(state).style(style).to_string()
}

/// A state in Slurm's word.
pub(crate) fn word(state: JobState) -> &'static str {
    SlurmState::from(state).name()
}

/// Now.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}

/// An instant in local time; without its date where that is today's.
pub(crate) fn instant(at: Timestamp) -> String {
    let zoned = |at: Timestamp| {
        let instant = jiff::Timestamp::from_millisecond(at.millis()).ok()?;
        Some(instant.to_zoned_datetime(TimeZone::system()))
    };
    match (zoned(at), zoned(now())) {
        (Some(at), Some(today)) if at.date() == today.date() => at.strftime("%H:%M:%S").to_string(),
        (Some(at), _) => at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        _ => "unknown".to_owned(),
    }
}

/// A duration: `1:02:03`.
pub(crate) fn seconds(seconds: u64) -> String {
    print_short(TimeLimit::Of(Seconds(seconds)))
}

/// A limit: `1:00:00` or `no limit`.
pub(crate) fn limit(seconds: Option<u64>) -> String {
    seconds.map_or("no limit".to_owned(), self::seconds)
}

/// `1 job`, `2 jobs`.
pub(crate) fn plural(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// None of the jobs that were named is there.
pub(crate) fn no_such_jobs(jobs: &[String], hint: &str) -> Failure {
    let text = format!("there is no job {} [E_JOB_UNKNOWN]\nhint: {hint}", jobs.join(", "));
    Failure::new(text)
}

/// There is none of this name, and which was perhaps meant.
pub(crate) fn unknown<'a>(
    what: &str,
    name: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Failure {
    let near = muster_model::nearest(name, names);
    let hint = near.map(|near| format!("\nhint: did you mean {near}?")).unwrap_or_default();
    Failure::new(format!("there is no {what} {name} [E_NOT_FOUND]{hint}"))
}

/// How long until then: `in 12 minutes`, `now`.
pub(crate) fn from_now(at: Timestamp) -> String {
    let left = at.since(now()).0;
    match left {
        0 => "now".to_owned(),
        1..=90 => format!("in {left} seconds"),
        91..=5400 => format!("in {} minutes", left.div_ceil(60)),
        _ => format!("in {} hours", left.div_ceil(3600)),
    }
}

/// Every problem of a refusal: what, where with the line and a caret, and what next. `texts` are
/// the scripts by name.
pub(crate) fn refusal(error: &ApiError, texts: &[(String, String)]) -> String {
    let problems = if error.problems.is_empty() {
        let ApiError { code, message, place, hint, .. } = error.clone();
        vec![muster_api::Problem { code, message, place, hint }]
    } else {
        error.problems.clone()
    };
    let red = Style::new().red().bold();
    let mut out = String::new();
    for problem in problems {
        let _ =
            writeln!(out, "{} {}", format!("error[{}]:", problem.code).style(red), problem.message);
        if let Some(place) = &problem.place {
            let _ = writeln!(out, "  --> {place}");
            out.push_str(&excerpt(place, texts));
        }
        if let Some(hint) = &problem.hint {
            let cyan = Style::new().cyan().bold();
            let _ = writeln!(out, "{} {hint}", "hint:".style(cyan));
        }
    }
    out
}

/// The line of a script and a caret below the column.
fn excerpt(place: &muster_api::Place, texts: &[(String, String)]) -> String {
    let (Some(line), Some((_, text))) =
        (place.line, texts.iter().find(|(name, _)| *name == place.source))
    else {
        return String::new();
    };
    let Some(shown) = text.lines().nth(line as usize - 1) else { return String::new() };
    // A control character would move the caret or the terminal.
    let shown: String =
        shown.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    let column = (place.column.unwrap_or(1).max(1) as usize - 1).min(200);
    format!("{margin} |\n{number} | {shown}\n{margin} | {}^\n", " ".repeat(column))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::{Place, Problem};

    #[test]
    fn a_refusal_shows_the_place() {
        let place = Place { source: "bad.sh".into(), line: Some(2), column: Some(9) };
        let error = ApiError::of_problems(vec![Problem {
            code: "E_TIME_BAD".into(),
            message: "--time: `4h` is not a time".into(),
            place: Some(place),
            hint: Some("for 4h write 4:00:00".into()),
        }]);
        let texts = [("bad.sh".to_owned(), "#!/bin/sh\n#SBATCH --time=4h\n".to_owned())];
        let plain = anstream::adapter::strip_str(&refusal(&error, &texts)).to_string();
        assert_eq!(
            plain,
            "error[E_TIME_BAD]: --time: `4h` is not a time
  --> bad.sh:2:9
  |
2 | #SBATCH --time=4h
  |         ^
hint: for 4h write 4:00:00
"
        );
    }

    #[test]
    fn waits_are_told_in_words() {
        let then = |s: i64| Timestamp::from_millis(now().millis() + s * 1000 + 500);
        assert_eq!(from_now(then(30)), "in 30 seconds");
        assert_eq!(from_now(then(600)), "in 10 minutes");
        assert_eq!(from_now(Timestamp::from_secs(0)), "now");
        assert_eq!(limit(None), "no limit");
    }
}
