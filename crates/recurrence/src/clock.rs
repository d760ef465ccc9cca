//! Local times and zones, by the bundled database.

use crate::RecurrenceError;
use jiff::civil;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use muster_model::Timestamp;

/// A time zone.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

/// The zone of this name.
///
/// # Errors
/// There is none.
pub fn zone(name: &str) -> Result<Zone, RecurrenceError> {
    let unknown = || RecurrenceError::ZoneUnknown { name: name.chars().take(80).collect() };
    if name.eq_ignore_ascii_case("UTC") || name.is_empty() {
        return Ok(Zone(TimeZone::UTC));
    }
    TimeZoneDatabase::bundled().get(name).map(Zone).map_err(|_| unknown())
}

/// A time of day, written `09:00` or with seconds.
///
/// # Errors
/// It is none.
pub fn time_of_day(text: &str) -> Result<civil::Time, RecurrenceError> {
    text.parse()
        .map_err(|_| RecurrenceError::TimeOfDayBad { text: text.chars().take(80).collect() })
}

/// The instant of a local time, written `2026-12-07T09:00` or with seconds.
///
/// # Errors
/// No such zone, or not a time.
pub fn local(zone_name: &str, text: &str) -> Result<Timestamp, RecurrenceError> {
    let at: civil::DateTime =
        text.parse().map_err(|_| RecurrenceError::TimeBad { text: text.to_owned() })?;
    Ok(zone(zone_name)?.instant(at))
}

/// An instant as the zone's local time, `2026-12-07T09:00:00`.
///
/// # Errors
/// No such zone.
pub fn local_text(zone_name: &str, at: Timestamp) -> Result<String, RecurrenceError> {
    Ok(zone(zone_name)?.civil(at).strftime("%Y-%m-%dT%H:%M:%S").to_string())
}

impl Zone {
    /// The calendar library's own.
    pub fn into_inner(self) -> TimeZone {
        self.0
    }

    /// The instant of a local time: in a gap by the offset before it, of two the first.
    pub fn instant(&self, at: civil::DateTime) -> Timestamp {
        let at = self.0.to_ambiguous_timestamp(at).compatible();
        at.map_or(Timestamp::NEVER, |at| Timestamp::from_millis(at.as_millisecond()))
    }

    /// The local time of an instant.
    pub fn civil(&self, at: Timestamp) -> civil::DateTime {
        let at = jiff::Timestamp::from_millisecond(at.millis());
        self.0.to_datetime(at.unwrap_or(jiff::Timestamp::MAX))
    }

    /// The first instant at or after `from` at which the local clock shows this time of day.
    pub fn next_time(&self, from: Timestamp, time: civil::Time) -> Timestamp {
        let today = self.civil(from).date();
        let days = [
            Some(today),
            today.tomorrow().ok(),
            today.tomorrow().and_then(civil::Date::tomorrow).ok(),
        ];
        let starts = days.into_iter().flatten().map(|day| self.instant(day.to_datetime(time)));
        starts.into_iter().find(|at| *at >= from).unwrap_or(from)
    }
}
