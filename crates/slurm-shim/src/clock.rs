//! Instants as Slurm prints them, in the reader's time zone.

use jiff::tz::TimeZone;
use muster_model::Timestamp;

/// Now.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}

/// `2026-12-01T14:20:06` in local time.
pub(crate) fn instant(at: Timestamp) -> String {
    stamp(at, "%Y-%m-%dT%H:%M:%S")
}

/// `Tue Dec 01 14:20:13 2026` in local time.
pub(crate) fn sentence(at: Timestamp) -> String {
    stamp(at, "%a %b %d %H:%M:%S %Y")
}

/// An instant, or this word where there is none.
pub(crate) fn instant_or(at: Option<Timestamp>, word: &str) -> String {
    at.map_or_else(|| word.to_owned(), instant)
}

fn stamp(at: Timestamp, form: &str) -> String {
    match jiff::Timestamp::from_millisecond(at.millis()) {
        Ok(instant) => instant.to_zoned_datetime(TimeZone::system()).strftime(form).to_string(),
        Err(_) => "Unknown".to_owned(),
    }
}
