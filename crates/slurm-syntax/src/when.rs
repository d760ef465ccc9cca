//! Instants for `--begin` and `--deadline`: `now+1hour`, `16:00`, `tomorrow`, `2027-01-20T12:34:00`.
//!
//! Rule: sbatch manual, `--begin`. A time of day that has passed means tomorrow; a date without a
//! time means its midnight; a date without a year means the next such date; several parts may
//! follow one another (`tomorrow18:00`). What `now` is and which time zone holds are values: this
//! module has no clock. Instants are whole seconds.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use muster_model::Timestamp;

use crate::problem::{Code, Problem, quoted};
use crate::scan::digits;

/// Longest text that is read.
const WHEN_TEXT_MAX: usize = 64;

/// Farthest offset from now, in seconds (a hundred years).
const OFFSET_MAX_S: u64 = 100 * 366 * 86_400;

const CLOCK_WORDS: [(&str, i8); 5] =
    [("midnight", 0), ("elevenses", 11), ("noon", 12), ("fika", 15), ("teatime", 16)];

const UNITS: [(&str, u64); 10] = [
    ("seconds", 1),
    ("second", 1),
    ("minutes", 60),
    ("minute", 60),
    ("hours", 3600),
    ("hour", 3600),
    ("days", 86_400),
    ("day", 86_400),
    ("weeks", 604_800),
    ("week", 604_800),
];

/// Reads an instant, given what now is and the time zone that clock times are meant in.
///
/// # Errors
/// [`Code::WhenBad`] for texts of no known form and dates that do not exist.
pub fn parse(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, Problem> {
    if text.is_empty() || text.len() > WHEN_TEXT_MAX || !text.is_ascii() {
        return Err(bad(text));
    }
    let lower = text.to_ascii_lowercase();
    if let Some(seconds) = lower.strip_prefix("uts") {
        return digits(seconds)
            .filter(|&seconds| (1_000_000..1 << 37).contains(&seconds))
            .map(|seconds| Timestamp::from_secs(seconds as i64))
            .ok_or_else(|| bad(text));
    }
    if let Some(offset) = lower.strip_prefix("now") {
        return from_now(offset, now).ok_or_else(|| bad(text));
    }
    let local = jiff::Timestamp::from_second(now.secs())
        .map_err(|_| bad(text))?
        .to_zoned_datetime(zone.clone())
        .datetime();
    let parts = Parts::read(&lower, local.date()).ok_or_else(|| bad(text))?;
    let civil = parts.resolve(local.date(), local.time()).ok_or_else(|| bad(text))?;
    let instant = civil.to_zoned_datetime(zone.clone()).map_err(|_| bad(text))?.timestamp();
    Ok(Timestamp::from_secs(instant.as_second()))
}

/// Prints an instant in a form that means the same in every time zone and at every time.
pub fn print(instant: Timestamp) -> String {
    format!("uts{}", instant.secs())
}

fn bad(text: &str) -> Problem {
    Problem::new(Code::WhenBad, format!("{} is not a point in time", quoted(text)))
        .hint("write for example now+1hour, 16:00, tomorrow, noon, 01/20/27 or 2027-01-20T12:34:00")
}

/// `` | `+count[unit]` | `-count[unit]`, blanks between.
fn from_now(offset: &str, now: Timestamp) -> Option<Timestamp> {
    let offset = offset.trim_start_matches(' ');
    if offset.is_empty() {
        return Some(Timestamp::from_secs(now.secs()));
    }
    let back = offset.starts_with('-');
    let rest = offset.strip_prefix(['+', '-'])?.trim_start_matches(' ');
    let unit_at = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let count = digits(&rest[..unit_at])?;
    let unit = rest[unit_at..].trim_matches(' ');
    let factor = if unit.is_empty() { 1 } else { UNITS.iter().find(|(name, _)| *name == unit)?.1 };
    let seconds = count.checked_mul(factor).filter(|&s| s <= OFFSET_MAX_S)? as i64;
    Some(Timestamp::from_secs(now.secs() + if back { -seconds } else { seconds }))
}

/// A date whose year may be missing.
#[derive(Clone, Copy)]
enum Day {
    Full(Date),
    Yearless(i8, i8),
}

#[derive(Default)]
struct Parts {
    day: Option<Day>,
    clock: Option<Time>,
}

impl Parts {
    fn read(text: &str, today: Date) -> Option<Self> {
        let mut parts = Self::default();
        let mut rest = text;
        loop {
            rest = rest.trim_start_matches([' ', '\t', '-']);
            if let Some(after) = rest.strip_prefix("today") {
                parts.day = Some(Day::Full(today));
                rest = after;
            } else if let Some(after) = rest.strip_prefix("tomorrow") {
                parts.day = Some(Day::Full(today.tomorrow().ok()?));
                rest = after;
            } else if let Some((word, hour)) = CLOCK_WORDS.iter().find(|(w, _)| rest.starts_with(w))
            {
                parts.clock = Some(Time::new(*hour, 0, 0, 0).ok()?);
                rest = &rest[word.len()..];
            } else if let Some(after) = rest.strip_prefix('t') {
                if !after.starts_with(|c: char| c.is_ascii_digit()) {
                    return None;
                }
                rest = after;
            } else if rest.is_empty() {
                break;
            } else if rest.as_bytes().get(1) == Some(&b':') || rest.as_bytes().get(2) == Some(&b':')
            {
                let (clock, after) = read_clock(rest)?;
                parts.clock = Some(clock);
                rest = after;
            } else {
                let (day, after) = read_day(rest)?;
                parts.day = Some(day);
                rest = after;
            }
        }
        (parts.day.is_some() || parts.clock.is_some()).then_some(parts)
    }

    fn resolve(&self, today: Date, time: Time) -> Option<jiff::civil::DateTime> {
        let clock = self.clock.unwrap_or(Time::midnight());
        let passed = (clock.hour(), clock.minute()) <= (time.hour(), time.minute());
        let date = match self.day {
            Some(Day::Full(date)) => date,
            Some(Day::Yearless(month, day)) => {
                let ahead = (month, day) > (today.month(), today.day())
                    || ((month, day) == (today.month(), today.day()) && !passed);
                Date::new(today.year() + i16::from(!ahead), month, day).ok()?
            }
            None if passed => today.tomorrow().ok()?,
            None => today,
        };
        Some(date.to_datetime(clock))
    }
}

/// `H:MM[:SS]` or `HH:MM[:SS]`, then perhaps `am` or `pm`.
fn read_clock(text: &str) -> Option<(Time, &str)> {
    let colon = text.find(':')?;
    let mut hour = small(&text[..colon])?;
    let (minute, mut rest) = two(&text[colon + 1..])?;
    let mut second = 0;
    if let Some(after) = rest.strip_prefix(':') {
        (second, rest) = two(after)?;
    }
    let half = rest.trim_start_matches(' ');
    if let Some(after) = half.strip_prefix("pm") {
        hour = if hour == 12 { 12 } else { hour.checked_add(12)? };
        rest = after;
    } else if let Some(after) = half.strip_prefix("am") {
        match hour {
            12 => hour = 0,
            0..=11 => {}
            _ => return None,
        }
        rest = after;
    }
    Some((Time::new(hour, minute, second, 0).ok()?, rest))
}

/// `YYYY-MM-DD`, `MMDD[YY]`, `MM/DD[/YY[YY]]` or the same with dots.
fn read_day(text: &str) -> Option<(Day, &str)> {
    let run = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    if run == 4 && text[run..].starts_with('-') {
        let year = i16::try_from(digits(&text[..4])?).ok()?;
        let (month, rest) = one_or_two(&text[5..])?;
        let (day, rest) = one_or_two(rest.strip_prefix('-')?)?;
        return Some((Day::Full(Date::new(year, month, day).ok()?), rest));
    }
    let separator = text[run..].chars().next().filter(|c| matches!(c, '/' | '.'));
    match (separator, run) {
        (Some(separator), 1 | 2) => {
            let month = small(&text[..run])?;
            let (day, rest) = one_or_two(&text[run + 1..])?;
            let Some(after) = rest.strip_prefix(separator) else {
                return Some((yearless(month, day)?, rest));
            };
            let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            Some((full(&after[..end], month, day)?, &after[end..]))
        }
        (None, 4) => Some((yearless(small(&text[..2])?, small(&text[2..4])?)?, &text[4..])),
        (None, 6 | 8) => {
            Some((full(&text[4..run], small(&text[..2])?, small(&text[2..4])?)?, &text[run..]))
        }
        _ => None,
    }
}

fn full(year: &str, month: i8, day: i8) -> Option<Day> {
    let number = i16::try_from(digits(year)?).ok()?;
    let year = match year.len() {
        2 => 2000 + number,
        4 => number,
        _ => return None,
    };
    Some(Day::Full(Date::new(year, month, day).ok()?))
}

fn yearless(month: i8, day: i8) -> Option<Day> {
    // A leap year: 29 February exists in some year.
    Date::new(2000, month, day).ok().map(|_| Day::Yearless(month, day))
}

fn small(text: &str) -> Option<i8> {
    if text.len() > 2 { None } else { i8::try_from(digits(text)?).ok() }
}

fn two(text: &str) -> Option<(i8, &str)> {
    Some((small(text.get(..2)?)?, &text[2..]))
}

fn one_or_two(text: &str) -> Option<(i8, &str)> {
    two(text).or_else(|| Some((small(text.get(..1)?)?, &text[1..])))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2027-03-13 10:30:00 in New York (15:30 UTC); the clock there moves on the next day.
    fn now() -> (Timestamp, TimeZone) {
        let zone = TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").expect("a zone");
        (Timestamp::from_secs(1_804_951_800), zone)
    }

    fn local(text: &str) -> String {
        let (now, zone) = now();
        let instant = parse(text, now, &zone).expect(text);
        jiff::Timestamp::from_second(instant.secs())
            .expect("in range")
            .to_zoned_datetime(zone)
            .datetime()
            .to_string()
    }

    #[test]
    fn every_form_of_the_manual() {
        for (text, out) in [
            ("now", "2027-03-13T10:30:00"),
            ("now+60", "2027-03-13T10:31:00"),
            ("now+1hour", "2027-03-13T11:30:00"),
            ("now + 2 hours", "2027-03-13T12:30:00"),
            ("now+1week", "2027-03-20T11:30:00"),
            ("now-30minutes", "2027-03-13T10:00:00"),
            ("16:00", "2027-03-13T16:00:00"),
            ("9:00", "2027-03-14T09:00:00"),
            ("10:30", "2027-03-14T10:30:00"),
            ("10:31:05", "2027-03-13T10:31:05"),
            ("4:15pm", "2027-03-13T16:15:00"),
            ("12:10 AM", "2027-03-14T00:10:00"),
            ("12:10pm", "2027-03-13T12:10:00"),
            ("midnight", "2027-03-14T00:00:00"),
            ("noon", "2027-03-13T12:00:00"),
            ("elevenses", "2027-03-13T11:00:00"),
            ("fika", "2027-03-13T15:00:00"),
            ("teatime", "2027-03-13T16:00:00"),
            ("today", "2027-03-13T00:00:00"),
            ("tomorrow", "2027-03-14T00:00:00"),
            ("tomorrow18:00", "2027-03-14T18:00:00"),
            ("today noon", "2027-03-13T12:00:00"),
            ("032027", "2027-03-20T00:00:00"),
            ("03/20/27", "2027-03-20T00:00:00"),
            ("3.20.2027", "2027-03-20T00:00:00"),
            ("0320", "2027-03-20T00:00:00"),
            ("01/02", "2028-01-02T00:00:00"),
            ("03/13-16:00", "2027-03-13T16:00:00"),
            ("03/13-09:00", "2028-03-13T09:00:00"),
            ("2028-02-29", "2028-02-29T00:00:00"),
            ("2027-01-20T12:34:00", "2027-01-20T12:34:00"),
            ("2027-01-20T12:34", "2027-01-20T12:34:00"),
            ("uts1804951800", "2027-03-13T10:30:00"),
        ] {
            assert_eq!(local(text), out, "{text}");
        }
    }

    #[test]
    fn bad_instants_are_errors() {
        let (now, zone) = now();
        for text in [
            "",
            "soon",
            "25:00",
            "10:60",
            "10:5",
            "13:00pm",
            "13:00am",
            "2027-02-30",
            "13/01/27",
            "now+",
            "now+1fortnight",
            "now 5",
            "-",
            "t",
            "10",
            "tomorrow!",
            "2027-01-20T",
            "now+99999999999999999weeks",
            "uts5",
            "1:2:3:4",
            "02/30",
            "noonish",
            "١٢:٠٠",
        ] {
            assert_eq!(parse(text, now, &zone).expect_err(text).code, Code::WhenBad, "{text}");
        }
    }

    #[test]
    fn a_time_that_the_clock_change_skips_moves_on() {
        assert_eq!(local("tomorrow 2:30"), "2027-03-14T03:30:00");
    }

    proptest! {
        #[test]
        fn print_then_parse(seconds in 1_000_000_i64..10_000_000_000) {
            let (now, zone) = now();
            let instant = Timestamp::from_secs(seconds);
            prop_assert_eq!(parse(&print(instant), now, &zone), Ok(instant));
        }

        #[test]
        fn never_panics(text in "\\PC{0,40}", near in "[0-9:/.tT nowampy+-]{0,24}") {
            let (now, zone) = now();
            let _ = parse(&text, now, &zone);
            let _ = parse(&near, now, &zone);
        }
    }
}
