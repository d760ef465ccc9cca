//! When a reservation is, read from texts that must not contradict each other.

use super::{Clock, bad, wrong};
use crate::http::error::Refusal;
use jiff::tz::TimeZone;
use muster_api::ReservationRequest;
use muster_control::reservations::Start;
use muster_model::{ReservationFlag as Flag, Seconds, Timestamp};
use muster_slurm_syntax::{duration, when};
use std::collections::BTreeSet;

/// When it begins, ends, comes again, and by whose clock.
pub(super) struct Times {
    pub(super) start: Option<Start>,
    pub(super) end: Option<Timestamp>,
    #[allow(clippy::option_option)] // not said, endless, or so long
    pub(super) length: Option<Option<Seconds>>,
    pub(super) repeat: Option<(String, String)>,
    pub(super) zone: String,
}

/// Reads all of them.
pub(super) fn times(
    request: &ReservationRequest,
    flags: &BTreeSet<Flag>,
    clock: &Clock<'_>,
) -> Result<Times, Refusal> {
    let zone = match request.tz.as_deref() {
        None => clock.zone.clone(),
        Some(name) => zone_of(name)?,
    };
    let zone_name = request.tz.clone().or_else(|| clock.zone.iana_name().map(str::to_owned));
    let zone_name = zone_name.unwrap_or_else(|| "UTC".to_owned());
    let repeat = repeat(request.every.as_deref(), flags)?;
    let instant = |field: &'static str, text: &str| {
        when::parse(text, clock.now, &zone).map_err(|problem| wrong(field, &problem))
    };
    let mut start = match &request.start {
        Some(text) => Some(instant("start", text)?),
        None => None,
    };
    let floats = flags.contains(&Flag::TimeFloat);
    if let Some(text) = &request.at {
        let rule = repeat.as_deref().unwrap_or_default().to_ascii_uppercase();
        if rule.contains("BYHOUR") || rule.contains("BYMINUTE") {
            return Err(bad("at", "the rule of every names its own times of day")
                .hint("leave out at, or BYHOUR and BYMINUTE"));
        }
        if floats {
            return Err(bad("at", "one that floats is always so long from now, at no time of day")
                .hint("leave out at, or the flag TIME_FLOAT; start=now+1hour says how long"));
        }
        start = Some(time_of_day(text, start, clock.now, &zone_name)?);
    }
    let start = start.map(|at| match floats {
        // Both are whole seconds: an hour from now is an hour.
        true => Start::Away(Seconds(at.secs().saturating_sub(clock.now.secs()).max(0) as u64)),
        false => Start::At(at),
    });
    let endless_end = request.end.as_deref().is_some_and(endless);
    let end = match &request.end {
        Some(text) if !endless(text) => Some(instant("end", text)?),
        _ => None,
    };
    let length = match &request.duration {
        Some(text) => Some(length_of("duration", text)?),
        None => endless_end.then_some(None),
    };
    if endless_end && length.is_some_and(|length| length.is_some()) {
        let why = "end says that it is without one; leave one of them out";
        return Err(bad("duration", why));
    }
    let repeat = repeat.map(|rule| (rule, zone_name.clone()));
    Ok(Times { start, end, length, repeat, zone: zone_name })
}

/// The first time of day after the start. A start that names another time of day contradicts it.
fn time_of_day(
    text: &str,
    start: Option<Timestamp>,
    now: Timestamp,
    zone: &str,
) -> Result<Timestamp, Refusal> {
    let at = muster_recurrence::time_of_day(text).map_err(|error| bad("at", error))?;
    let zone = muster_recurrence::zone(zone)
        .map_err(|error| Refusal::invalid("E_TIMEZONE_UNKNOWN", error.to_string()))?;
    if let Some(start) = start {
        let said = zone.civil(start).time();
        if said != jiff::civil::Time::midnight() && said != at {
            let (said, at) = (said.strftime("%H:%M"), at.strftime("%H:%M"));
            return Err(bad("at", format!("start says {said}, not {at}"))
                .hint("leave one of them out, or give start as a date"));
        }
    }
    Ok(zone.next_time(start.unwrap_or(now), at))
}

/// A zone of the bundled database, as the rule will be read.
fn zone_of(name: &str) -> Result<TimeZone, Refusal> {
    let known = muster_recurrence::zone(name);
    known.map(muster_recurrence::Zone::into_inner).map_err(|error| {
        Refusal::invalid("E_TIMEZONE_UNKNOWN", error.to_string())
            .hint("name one of the IANA database, such as Europe/Berlin or Asia/Seoul")
    })
}

fn endless(text: &str) -> bool {
    ["infinite", "unlimited", "-1"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// How long a field says; `None` is without an end.
pub(super) fn length_of(field: &str, text: &str) -> Result<Option<Seconds>, Refusal> {
    duration::parse_length(text).map_err(|problem| wrong(field, &problem))
}

/// A word for a rule, a rule, or the rule of a flag. Both a word and a flag may say it, where they say
/// the same.
fn repeat(every: Option<&str>, flags: &BTreeSet<Flag>) -> Result<Option<String>, Refusal> {
    let of_flag = flags.iter().find_map(|flag| Some((flag.word(), flag.rule()?)));
    let Some(word) = every else { return Ok(of_flag.map(|(_, rule)| rule.to_owned())) };
    let rule = match Flag::of_word(word).and_then(Flag::rule) {
        _ if word.eq_ignore_ascii_case("never") => String::new(),
        Some(rule) => rule.to_owned(),
        // One word is no rule: it was meant to be one of those above.
        None if !word.contains('=') => {
            let known: Vec<String> = Flag::WORDS
                .iter()
                .filter(|(flag, _)| flag.rule().is_some())
                .map(|(_, word)| word.to_ascii_lowercase())
                .collect();
            let known = known.join(", ");
            return Err(bad("every", format!("{word:?} is no word for how often it comes"))
                .hint(format!("write {known}, never, or a rule such as FREQ=WEEKLY;BYDAY=MO")));
        }
        None => word.to_owned(),
    };
    match of_flag {
        Some((flag, of_flag)) if of_flag != rule => {
            Err(bad("every", format!("{word} is not what the flag {flag} says"))
                .hint("leave one of them out"))
        }
        _ => Ok(Some(rule)),
    }
}
