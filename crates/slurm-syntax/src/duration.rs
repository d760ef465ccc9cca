//! Durations as Slurm writes them: `minutes`, `minutes:seconds`, `hours:minutes:seconds`,
//! `days-hours[:minutes[:seconds]]`.
//!
//! Rule: sbatch manual, `--time`; hours above 23 and minutes above 59 are legal. Two printed forms
//! exist: `squeue` drops leading zeros ([`print_short`]), `scontrol` and `sacct` do not
//! ([`print_long`]). Both parse back to the same number of seconds, with one exception that Slurm
//! shares: the short form of less than an hour reads as `minutes:seconds`, which it is.

use muster_model::{Seconds, TimeLimit};

use crate::problem::{Code, Problem, quoted};
use crate::scan::digits;

/// Longest duration accepted, in seconds (a hundred years): keeps sums far from overflow.
pub const DURATION_MAX_S: u64 = 100 * 366 * 86_400;

/// The limit rounded up to whole minutes, as Slurm keeps job limits (sbatch manual, `--time`).
pub fn rounded_to_minutes(limit: TimeLimit) -> TimeLimit {
    match limit {
        TimeLimit::Of(Seconds(seconds)) => TimeLimit::Of(Seconds(seconds.div_ceil(60) * 60)),
        TimeLimit::Unlimited => TimeLimit::Unlimited,
    }
}

/// Reads a time limit; `0`, `-1`, `infinite` and `unlimited` (any case) mean no limit.
///
/// # Errors
/// [`Code::TimeBad`] for everything else that is not one of the six forms.
pub fn parse_limit(text: &str) -> Result<TimeLimit, Problem> {
    if text == "-1"
        || text.eq_ignore_ascii_case("infinite")
        || text.eq_ignore_ascii_case("unlimited")
    {
        return Ok(TimeLimit::Unlimited);
    }
    match parse_seconds(text)? {
        0 => Ok(TimeLimit::Unlimited),
        seconds => Ok(TimeLimit::Of(Seconds(seconds))),
    }
}

/// Reads how long a reservation is: `3h`, `90m`, `2d`, or as Slurm writes durations; `None` is without
/// an end.
///
/// # Errors
/// [`Code::ValueBad`] for a length of zero or beyond all time, [`Code::TimeBad`] for what is none.
pub fn parse_length(text: &str) -> Result<Option<Seconds>, Problem> {
    let unit = text.chars().last().and_then(|c| match c.to_ascii_lowercase() {
        's' => Some(1u64),
        'm' => Some(60),
        'h' => Some(3600),
        'd' => Some(86_400),
        _ => None,
    });
    let number = unit.and_then(|unit| Some((unit, text[..text.len() - 1].parse::<u64>().ok()?)));
    if let Some((unit, number)) = number {
        let seconds = number.checked_mul(unit).filter(|s| *s > 0 && *s < 1 << 40);
        let none = || Problem::new(Code::TimeBad, format!("{text} is no length of time"));
        return seconds.map(|seconds| Some(Seconds(seconds))).ok_or_else(none);
    }
    let endless = ["-1", "infinite", "unlimited"].iter().any(|w| text.eq_ignore_ascii_case(w));
    match parse_limit(text)? {
        TimeLimit::Unlimited if endless => Ok(None),
        // Slurm's zero, which is no end for a job, is no length here.
        TimeLimit::Unlimited => Err(Problem::new(Code::TimeBad, "it is zero")),
        TimeLimit::Of(seconds) => Ok(Some(seconds)),
    }
}

/// Reads a duration in seconds; zero is zero.
///
/// # Errors
/// [`Code::TimeBad`] if the text is not one of the six forms or exceeds [`DURATION_MAX_S`].
pub fn parse_seconds(text: &str) -> Result<u64, Problem> {
    let seconds = match text.split_once('-') {
        Some((days, rest)) => with_days(days, rest),
        None => without_days(text),
    };
    seconds.filter(|&seconds| seconds <= DURATION_MAX_S).ok_or_else(|| bad(text))
}

fn with_days(days: &str, rest: &str) -> Option<u64> {
    let fields = fields(rest)?;
    let [hours, minutes, seconds] = match fields[..] {
        [h] => [h, 0, 0],
        [h, m] => [h, m, 0],
        [h, m, s] => [h, m, s],
        _ => return None,
    };
    digits(days)?.checked_mul(86_400)?.checked_add(sum(hours, minutes, seconds)?)
}

fn without_days(text: &str) -> Option<u64> {
    match fields(text)?[..] {
        [m] => sum(0, m, 0),
        [m, s] => sum(0, m, s),
        [h, m, s] => sum(h, m, s),
        _ => None,
    }
}

fn fields(text: &str) -> Option<Vec<u64>> {
    text.splitn(4, ':').map(digits).collect()
}

fn sum(hours: u64, minutes: u64, seconds: u64) -> Option<u64> {
    hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?.checked_add(seconds)
}

fn bad(text: &str) -> Problem {
    let what = if text.is_empty() {
        "an empty text is not a time".to_owned()
    } else {
        format!("{} is not a time", quoted(text))
    };
    let mut problem = Problem::new(Code::TimeBad, what).hint(
        "write minutes (30), minutes:seconds (30:00), hours:minutes:seconds (1:30:00) or days-hours (2-12)",
    );
    if let Some(spelled) = with_unit(text) {
        problem = problem.hint(format!("for {text} write {spelled}"));
    }
    problem
}

/// What somebody who wrote `4h` or `90min` probably meant.
fn with_unit(text: &str) -> Option<String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let number = digits(&text[..unit_at])?;
    if number > 100_000 {
        return None;
    }
    match text[unit_at..].to_ascii_lowercase().as_str() {
        "h" | "hr" | "hrs" | "hour" | "hours" => Some(format!("{number}:00:00")),
        "m" | "min" | "mins" | "minutes" => Some(number.to_string()),
        "s" | "sec" | "secs" | "seconds" => Some(format!("0:{number:02}")),
        "d" | "day" | "days" => Some(format!("{number}-0")),
        _ => None,
    }
}

/// As `squeue` prints: `0:17`, `1:02:03`, `1-02:03:04`, `UNLIMITED`.
pub fn print_short(limit: TimeLimit) -> String {
    let TimeLimit::Of(Seconds(total)) = limit else { return "UNLIMITED".to_owned() };
    let (d, h, m, s) = split(total);
    if d > 0 {
        format!("{d}-{h:02}:{m:02}:{s:02}")
    } else if h > 0 {
        format!("{h}:{m:02}:{s:02}")
    } else {
        format!("{m}:{s:02}")
    }
}

/// As `scontrol` and `sacct` print: `00:00:17`, `01:02:03`, `1-02:03:04`, `UNLIMITED`.
pub fn print_long(limit: TimeLimit) -> String {
    let TimeLimit::Of(Seconds(total)) = limit else { return "UNLIMITED".to_owned() };
    let (d, h, m, s) = split(total);
    if d > 0 { format!("{d}-{h:02}:{m:02}:{s:02}") } else { format!("{h:02}:{m:02}:{s:02}") }
}

fn split(total: u64) -> (u64, u64, u64, u64) {
    (total / 86_400, total / 3600 % 24, total / 60 % 60, total % 60)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn s01_times_that_look_like_clock_times() {
        for (text, seconds) in [
            ("30", 1800),
            ("4:00", 240),
            ("1:30:00", 5400),
            ("2-12", 216_000),
            ("2-12:30", 217_800),
            ("1-0:0:30", 86_430),
            ("0:90:0", 5400),
            ("100:00:00", 360_000),
        ] {
            assert_eq!(parse_limit(text), Ok(TimeLimit::Of(Seconds(seconds))), "{text}");
        }
        let rounded = rounded_to_minutes(parse_limit("1-0:0:30").expect("good"));
        assert_eq!(rounded, TimeLimit::Of(Seconds(1441 * 60)));
    }

    #[test]
    fn s02_a_bad_time_is_an_error() {
        for text in [
            "",
            "60:",
            "1::1",
            "1:2:3:4",
            "1-2-3",
            "4h",
            "1.5",
            "-60:10",
            " 10",
            "10 ",
            ":",
            "-",
            "1-",
            "-2",
            "+5",
            "0x10",
            "99999999999999999999",
            "1:-1",
            "١",
        ] {
            let problem = parse_limit(text).expect_err(text);
            assert_eq!(problem.code, Code::TimeBad);
        }
        assert!(parse_limit("4h").unwrap_err().hints.iter().any(|h| h.contains("4:00:00")));
    }

    #[test]
    fn s03_the_only_spellings_of_no_limit() {
        for text in ["0", "UNLIMITED", "infinite", "-1", "0:00", "0-0"] {
            assert_eq!(parse_limit(text), Ok(TimeLimit::Unlimited), "{text}");
        }
        for text in ["none", "inf", "-2", "max"] {
            assert!(parse_limit(text).is_err(), "{text}");
        }
    }

    #[test]
    fn s57_two_ways_to_print() {
        for (seconds, short, long) in [
            (17, "0:17", "00:00:17"),
            (3723, "1:02:03", "01:02:03"),
            (93_784, "1-02:03:04", "1-02:03:04"),
            (1800, "30:00", "00:30:00"),
        ] {
            assert_eq!(print_short(TimeLimit::Of(Seconds(seconds))), short);
            assert_eq!(print_long(TimeLimit::Of(Seconds(seconds))), long);
        }
        assert_eq!(print_short(TimeLimit::Unlimited), "UNLIMITED");
        assert_eq!(print_long(TimeLimit::Unlimited), "UNLIMITED");
    }

    proptest! {
        #[test]
        fn both_printed_forms_parse_back(seconds in 1..=DURATION_MAX_S) {
            let limit = TimeLimit::Of(Seconds(seconds));
            prop_assert_eq!(parse_limit(&print_short(limit)), Ok(limit));
            prop_assert_eq!(parse_limit(&print_long(limit)), Ok(limit));
        }

        #[test]
        fn never_panics(text in "\\PC{0,40}", timeish in "[0-9:\\- ]{0,20}") {
            let _ = parse_limit(&text);
            let _ = parse_limit(&timeish);
        }
    }
}
