//! Values of options that are too small for a file of their own.

use crate::problem::{Code, Problem, quoted};
use crate::scan::{digits, is_name_char};
use muster_model::nearest;

/// Largest adjustment of `--nice`.
const NICE_MAX: i64 = 2_147_483_645;

/// What `--priority=TOP` stands for.
const PRIORITY_TOP: u32 = 4_294_967_293;

/// Events of `--mail-type`, with those that `ALL` stands for first.
const MAIL_EVENTS: [&str; 11] = [
    "BEGIN",
    "END",
    "FAIL",
    "INVALID_DEPEND",
    "REQUEUE",
    "STAGE_OUT",
    "TIME_LIMIT",
    "TIME_LIMIT_90",
    "TIME_LIMIT_80",
    "TIME_LIMIT_50",
    "ARRAY_TASKS",
];
const MAIL_ALL: usize = 6;

/// The name of an account, partition, QOS or reservation.
pub(crate) fn name(text: &str) -> Result<String, Problem> {
    let good = !text.is_empty()
        && text.len() <= 255
        && text.chars().all(|c| is_name_char(c) || matches!(c, '@' | '+' | ':'))
        && !text.starts_with('-');
    if good {
        return Ok(text.to_owned());
    }
    Err(Problem::new(Code::NameBad, format!("{} is not a name", quoted(text)))
        .hint("names have letters, digits, `-`, `_`, `.`, `@`, `+` and `:`"))
}

/// A name where Slurm takes a list and muster does not.
pub(crate) fn one_name(text: &str) -> Result<String, Problem> {
    if text.contains(',') {
        return Err(Problem::new(
            Code::OptionRefused,
            format!("{} is a list, and muster takes one name", quoted(text)),
        )
        .hint("name the one that you want"));
    }
    name(text)
}

/// Names of reservations by preference, parted by commas.
pub(crate) fn reservations(text: &str) -> Result<String, Problem> {
    let names: Result<Vec<String>, Problem> = text.split(',').map(name).collect();
    Ok(names?.join(","))
}

/// Text without control characters, not empty, of bounded length.
pub(crate) fn free_text(text: &str, bytes_max: usize) -> Result<String, Problem> {
    let why = if text.is_empty() {
        "it is empty".to_owned()
    } else if text.len() > bytes_max {
        format!("it is longer than {bytes_max} bytes")
    } else if text.chars().any(|c| c.is_control() && c != '\t') {
        "it has a control character".to_owned()
    } else {
        return Ok(text.to_owned());
    };
    Err(Problem::new(Code::NameBad, format!("{} cannot be used: {why}", quoted(text))))
}

/// A path, absolute or relative.
pub(crate) fn path(text: &str) -> Result<String, Problem> {
    free_text(text, crate::pattern::PATH_MAX)
}

/// The adjustment of `--nice`: 100 when empty.
pub(crate) fn nice(text: &str) -> Result<i64, Problem> {
    let (sign, number) = match text.strip_prefix('-') {
        Some(number) => (-1, number),
        None => (1, text),
    };
    match digits(number).and_then(|n| i64::try_from(n).ok()) {
        _ if text.is_empty() => Ok(100),
        Some(n) if n <= NICE_MAX => Ok(sign * n),
        _ => Err(Problem::new(
            Code::CountBad,
            format!("{} is not an adjustment from -{NICE_MAX} to {NICE_MAX}", quoted(text)),
        )),
    }
}

/// The value of `--priority`.
pub(crate) fn priority(text: &str) -> Result<u32, Problem> {
    if text.eq_ignore_ascii_case("top") {
        return Ok(PRIORITY_TOP);
    }
    digits(text).and_then(|n| u32::try_from(n).ok()).filter(|&n| n <= PRIORITY_TOP).ok_or_else(
        || {
            Problem::new(Code::CountBad, format!("{} is not a priority", quoted(text)))
                .hint(format!("write a number up to {PRIORITY_TOP}, or TOP"))
        },
    )
}

/// `yes` or `no`.
pub(crate) fn flag_word(text: &str) -> Result<bool, Problem> {
    match text.to_ascii_lowercase().as_str() {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(Problem::new(Code::ValueBad, format!("{} is neither yes nor no", quoted(text)))),
    }
}

/// The events of `--mail-type`, in a fixed order; `NONE` is none whatever else stands there.
pub(crate) fn mail_events(text: &str) -> Result<Vec<String>, Problem> {
    let mut wanted = [false; MAIL_EVENTS.len()];
    let mut none = false;
    for word in text.split(',') {
        let upper = word.to_ascii_uppercase();
        match MAIL_EVENTS.iter().position(|event| *event == upper) {
            Some(index) => wanted[index] = true,
            None if upper == "ALL" => wanted[..MAIL_ALL].fill(true),
            None if upper == "NONE" => none = true,
            None => {
                let problem = Problem::new(
                    Code::ValueBad,
                    format!("{} is no event that mail is sent about", quoted(word)),
                );
                let words = MAIL_EVENTS.iter().copied().chain(["ALL", "NONE"]);
                return Err(match nearest(&upper, words) {
                    Some(near) => problem.hint(format!("did you mean {near}?")),
                    None => problem.hint("write BEGIN, END, FAIL, ALL, …"),
                });
            }
        }
    }
    let events = MAIL_EVENTS.iter().zip(wanted).filter(|(_, wanted)| *wanted && !none);
    Ok(events.map(|(event, _)| (*event).to_owned()).collect())
}

/// The name of an environment variable.
pub(crate) fn variable(text: &str) -> Result<String, Problem> {
    let good = !text.is_empty()
        && text.len() <= 255
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if good {
        Ok(text.to_owned())
    } else {
        Err(Problem::new(Code::NameBad, format!("{} is not a variable name", quoted(text))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_lists_of_names() {
        assert_eq!(name("gpu-long"), Ok("gpu-long".to_owned()));
        for bad in ["", "a b", "-x", "a/b", "a,b"] {
            assert_eq!(name(bad).expect_err(bad).code, Code::NameBad);
        }
        assert_eq!(one_name("a,b").unwrap_err().code, Code::OptionRefused);
    }

    #[test]
    fn nice_and_priority() {
        assert_eq!(nice(""), Ok(100));
        assert_eq!(nice("-5"), Ok(-5));
        for bad in ["x", "--5", "2147483646", "1.5"] {
            assert!(nice(bad).is_err(), "{bad}");
        }
        assert_eq!(priority("top"), Ok(PRIORITY_TOP));
        assert!(priority("4294967295").is_err());
    }

    #[test]
    fn mail_events_are_words() {
        assert_eq!(mail_events("end,begin"), Ok(vec!["BEGIN".to_owned(), "END".to_owned()]));
        assert_eq!(mail_events("ALL").map(|events| events.len()), Ok(MAIL_ALL));
        assert_eq!(mail_events("ALL,NONE"), Ok(vec![]));
        assert!(mail_events("BEGINN").unwrap_err().hints[0].contains("BEGIN"));
    }
}
