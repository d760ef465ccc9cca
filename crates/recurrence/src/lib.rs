//! When a reservation comes again: recurrence rules in a time zone, as windows in UTC.
//!
//! A rule (RFC 5545, 3.3.10) is read on the local calendar of its zone: a weekly 09:00 in Seoul or
//! Berlin stays 09:00 there, and so moves in UTC where the clocks are changed. A local time that
//! does not exist is read with the offset from before the gap (02:30 becomes 03:30), one that comes
//! twice is the first (RFC 5545, 3.3.5). Hours without any `BY…` are counted, not read off a clock.
//!
//! The calendar is bundled, so that the same rule means the same on every machine of one version.
//! The state keeps the windows that come out of here, not the rule alone: nothing that decides
//! depends on this crate.
//!
//! ```
//! use muster_model::{Repeat, Seconds, Timestamp};
//! let first = muster_recurrence::local("Asia/Seoul", "2026-12-07T09:00").unwrap();
//! let rule = "FREQ=WEEKLY;BYDAY=MO".to_owned();
//! let repeat = Repeat { rule, zone: "Asia/Seoul".to_owned(), first };
//! let next = muster_recurrence::windows(&repeat, Seconds(3600), first, 2).unwrap();
//! assert_eq!(next[1].start, first.plus(Seconds(7 * 24 * 3600)));
//! ```

mod clock;
mod rule;

pub use clock::{Zone, local, local_text, time_of_day, zone};

use jiff::civil;
use muster_model::{Repeat, Seconds, Timestamp, Window};
use rrule::{Frequency, RRuleSet};
use rule::{Part, bad, parts};
use std::str::FromStr;

/// A rule is at most so many bytes.
pub const RULE_MAX: usize = 512;
/// So many steps of a rule are walked, counted from its first occurrence.
const STEPS_MAX: usize = 100_000;
/// A rule that does not come within this of where it is asked about is taken to be over.
const AHEAD_MAX: Seconds = Seconds(5 * 366 * 24 * 3600);

/// What is wrong with a rule or a zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecurrenceError {
    /// The IANA database has no such zone.
    #[error("there is no time zone {name}")]
    ZoneUnknown {
        /// As given.
        name: String,
    },
    /// The text is not a local time.
    #[error("{text} is not a local time such as 2026-12-07T09:00")]
    TimeBad {
        /// As given.
        text: String,
    },
    /// The text is not a time of day.
    #[error("{text} is not a time of day such as 09:00")]
    TimeOfDayBad {
        /// As given.
        text: String,
    },
    /// The text is not a rule.
    #[error("{rule:?} is no recurrence rule: column {column}: {why}")]
    RuleBad {
        /// As given.
        rule: String,
        /// Where it is wrong, in characters from 1.
        column: usize,
        /// What is wrong.
        why: String,
    },
    /// It comes again before it is over.
    #[error("it is {length} s long, but comes again after {gap} s")]
    Overlaps {
        /// How long it is.
        length: u64,
        /// The shortest time between two starts.
        gap: u64,
    },
    /// It never comes.
    #[error("{rule} does not come within five years")]
    Never {
        /// As given.
        rule: String,
    },
}

/// Looks whether a rule may be used for something so long: it can be read, comes at all, and is over
/// each time before it comes again (as far as its first hundred occurrences show).
///
/// # Errors
/// What is wrong with it.
pub fn check(repeat: &Repeat, length: Seconds) -> Result<(), RecurrenceError> {
    let first = windows(repeat, length, repeat.first, 100)?;
    if first.is_empty() {
        return Err(RecurrenceError::Never { rule: repeat.rule.clone() });
    }
    let gaps = first.windows(2).map(|pair| pair[1].start.since(pair[0].start).0);
    match gaps.min() {
        Some(gap) if gap < length.0 => Err(RecurrenceError::Overlaps { length: length.0, gap }),
        _ => Ok(()),
    }
}

/// At most `count` occurrences that are not over at `after`, ascending.
///
/// Bounded whatever the rule is: it walks at most 100,000 steps and five years beyond `after`.
///
/// # Errors
/// The rule or its zone cannot be read.
pub fn windows(
    repeat: &Repeat,
    length: Seconds,
    after: Timestamp,
    count: usize,
) -> Result<Vec<Window>, RecurrenceError> {
    let zone = zone(&repeat.zone)?;
    let last = after.max(repeat.first).plus(AHEAD_MAX);
    let mut found: Vec<Window> = Vec::new();
    for start in starts(repeat, &zone, after, length)?.take(STEPS_MAX) {
        if start > last || found.len() >= count {
            break;
        }
        let end = start.plus(length);
        // In a gap two local times may be one instant.
        if end > after && found.last().is_none_or(|w| w.start < start) {
            found.push(Window { start, end });
        }
    }
    Ok(found)
}

/// The starts, ascending from the first.
fn starts<'a>(
    repeat: &Repeat,
    zone: &'a Zone,
    after: Timestamp,
    length: Seconds,
) -> Result<Box<dyn Iterator<Item = Timestamp> + 'a>, RecurrenceError> {
    let rule = parts(&repeat.rule)?;
    let first = zone.civil(repeat.first);
    let spelled = spelled(&repeat.rule, &rule, zone)?;
    let text = format!("DTSTART:{}Z\nRRULE:{spelled}", first.strftime("%Y%m%dT%H%M%S"));
    let set = RRuleSet::from_str(&text).ok();
    let parsed = set.as_ref().and_then(|set| set.get_rrule().first()).cloned();
    let (Some(set), Some(parsed)) = (set, parsed) else {
        // Each part was looked at by itself: what is left is the end, and how they go together.
        let until = rule.iter().find(|part| part.key == "UNTIL");
        return Err(match until {
            Some(part) => {
                let why = format!("UNTIL is before it first comes, {}", first.strftime("%F %H:%M"));
                bad(&repeat.rule, part.at, why)
            }
            None => bad(&repeat.rule, 1, "its parts do not go together"),
        });
    };
    let counted = parsed.get_freq() == Frequency::Hourly
        && !rule.iter().any(|part| part.key.starts_with("BY"));
    if counted {
        let step = Seconds(3600 * u64::from(parsed.get_interval()));
        let until = parsed.get_until().map(|at| zone.instant(civil_of(at.timestamp())));
        let most = parsed.get_count().map_or(usize::MAX, |n| n as usize);
        // Past occurrences need no walk where they are counted.
        let past = after.since(repeat.first).0.saturating_sub(length.0) / step.0;
        let past = usize::try_from(past).unwrap_or(usize::MAX).min(most);
        let first = repeat.first.plus(Seconds(step.0.saturating_mul(past as u64)));
        let next = move |at: &Timestamp| Some(at.plus(step));
        let all = std::iter::successors(Some(first), next).take(most - past);
        return Ok(Box::new(all.take_while(move |at| until.is_none_or(|until| *at <= until))));
    }
    let starts = set.limit().into_iter().map(|at| civil_of(at.timestamp()));
    Ok(Box::new(starts.map(|at| zone.instant(at)).collect_sorted()))
}

/// The civil time that the rule's own calendar, which knows no zones, calls this second.
fn civil_of(second: i64) -> civil::DateTime {
    let at = jiff::Timestamp::from_second(second).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    jiff::tz::TimeZone::UTC.to_datetime(at)
}

/// The rule for a calendar without zones: an end in UTC becomes the zone's local time.
fn spelled(rule: &str, parts: &[Part], zone: &Zone) -> Result<String, RecurrenceError> {
    let part = |part: &Part| -> Result<String, RecurrenceError> {
        let Part { key, value, .. } = part;
        if key != "UNTIL" {
            return Ok(format!("{key}={value}"));
        }
        let wrong =
            || bad(rule, part.value_at, "UNTIL is a date or a time such as 20271231T235959Z");
        let digits = value.trim_end_matches('Z');
        let until = if digits.contains('T') {
            civil::DateTime::strptime("%Y%m%dT%H%M%S", digits).map_err(|_| wrong())?
        } else {
            let day = civil::Date::strptime("%Y%m%d", digits).map_err(|_| wrong())?;
            day.at(23, 59, 59, 0)
        };
        let until = if value.ends_with('Z') {
            let at = jiff::tz::TimeZone::UTC.to_timestamp(until).map_err(|_| wrong())?;
            zone.civil(Timestamp::from_millis(at.as_millisecond()))
        } else {
            until
        };
        Ok(format!("UNTIL={}Z", until.strftime("%Y%m%dT%H%M%S")))
    };
    Ok(parts.iter().map(part).collect::<Result<Vec<_>, _>>()?.join(";"))
}

/// Occurrences ascend on the local calendar; over a change of the clocks two instants may be the
/// other way round, so each is held against the one before.
trait CollectSorted: Iterator<Item = Timestamp> + Sized {
    fn collect_sorted(self) -> impl Iterator<Item = Timestamp> {
        let mut latest = Timestamp::from_millis(i64::MIN);
        self.filter(move |at| {
            let ascends = *at > latest;
            latest = latest.max(*at);
            ascends
        })
    }
}

impl<I: Iterator<Item = Timestamp>> CollectSorted for I {}

#[cfg(test)]
mod tests;
