//! A rule's text: its parts, each with its column, and what is wrong with them in words.

use crate::{RULE_MAX, RecurrenceError};

/// One `KEY=VALUE` of a rule.
pub(crate) struct Part {
    /// In upper case.
    pub(crate) key: String,
    /// In upper case.
    pub(crate) value: String,
    /// The column of the key, from 1.
    pub(crate) at: usize,
    /// The column of the value, from 1.
    pub(crate) value_at: usize,
}

/// Why a rule is none, and at which column.
pub(crate) fn bad(rule: &str, column: usize, why: impl Into<String>) -> RecurrenceError {
    let rule: String = rule.chars().filter(|c| !c.is_control()).take(80).collect();
    RecurrenceError::RuleBad { rule, column, why: why.into() }
}

const KEYS: [&str; 14] = [
    "FREQ",
    "UNTIL",
    "COUNT",
    "INTERVAL",
    "BYSECOND",
    "BYMINUTE",
    "BYHOUR",
    "BYDAY",
    "BYMONTHDAY",
    "BYYEARDAY",
    "BYWEEKNO",
    "BYMONTH",
    "BYSETPOS",
    "WKST",
];
const FREQUENCIES: [&str; 5] = ["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY"];
const DAYS: [&str; 7] = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];

/// The parts of a rule; `RRULE:` before them is allowed. Each was looked at by itself and with the
/// others (RFC 5545, 3.3.10).
pub(crate) fn parts(rule: &str) -> Result<Vec<Part>, RecurrenceError> {
    if rule.len() > RULE_MAX {
        return Err(bad(rule, RULE_MAX + 1, format!("it is longer than {RULE_MAX} bytes")));
    }
    if let Some(at) = rule.chars().position(char::is_control) {
        return Err(bad(rule, at + 1, "it is more than one line"));
    }
    let upper = rule.to_ascii_uppercase();
    let body = upper.trim_start();
    let body = body.strip_prefix("RRULE:").unwrap_or(body);
    // Upper case of ASCII moves nothing: columns are those of the text as given.
    let mut at = upper.chars().count() - body.chars().count() + 1;
    let mut parts: Vec<Part> = Vec::new();
    for text in body.split(';') {
        let here = at;
        at += text.chars().count() + 1;
        if text.trim().is_empty() {
            continue;
        }
        let Some((key, value)) = text.split_once('=') else {
            let why = format!("expected a part such as BYDAY=MO, found {}", text.trim());
            return Err(bad(rule, here, why));
        };
        let part = Part {
            key: key.trim().to_owned(),
            value: value.trim().to_owned(),
            at: here,
            value_at: here + key.chars().count() + 1,
        };
        if parts.iter().any(|before| before.key == part.key) {
            return Err(bad(rule, here, format!("{} is there twice", part.key)));
        }
        value_of(rule, &part)?;
        parts.push(part);
    }
    together(rule, &parts)?;
    Ok(parts)
}

/// What one part says by itself.
fn value_of(rule: &str, part: &Part) -> Result<(), RecurrenceError> {
    let Part { key, value, .. } = part;
    let (signed, least, most) = match key.as_str() {
        "FREQ" => return frequency(rule, part),
        // Its form depends on nothing else; it is read where the zone is known.
        "UNTIL" => return Ok(()),
        "BYDAY" => return days(rule, part),
        "WKST" if DAYS.contains(&value.as_str()) => return Ok(()),
        "WKST" => return Err(bad(rule, part.value_at, no_day(value))),
        "COUNT" => (false, 1, 1_000_000),
        "INTERVAL" => (false, 1, 65_535),
        "BYSECOND" | "BYMINUTE" => (false, 0, 59),
        "BYHOUR" => (false, 0, 23),
        "BYMONTH" => (false, 1, 12),
        "BYMONTHDAY" => (true, 1, 31),
        "BYYEARDAY" | "BYSETPOS" => (true, 1, 366),
        "BYWEEKNO" => (true, 1, 53),
        _ => {
            let near = muster_model::nearest(key, KEYS);
            let near = near.map_or_else(|| format!("there are {}", KEYS.join(", ")), meant);
            return Err(bad(rule, part.at, format!("{key} is no part of a rule; {near}")));
        }
    };
    let list = key.starts_with("BY");
    for (at, item) in items(part) {
        let number = item.strip_prefix('+').filter(|_| signed).unwrap_or(item).parse::<i64>();
        let fits = |n: i64| (least..=most).contains(&if signed { n.abs() } else { n });
        if !number.is_ok_and(fits) || (!list && value.contains(',')) {
            let or = if signed {
                format!(", or -{most} to -{least} from the end")
            } else {
                String::new()
            };
            return Err(bad(
                rule,
                at,
                format!("{key} is {least} to {most}{or}, not {}", shown(item)),
            ));
        }
    }
    Ok(())
}

fn meant(near: &str) -> String {
    format!("did you mean {near}?")
}

fn shown(item: &str) -> &str {
    if item.is_empty() { "nothing" } else { item }
}

/// The items of a list, each with its column.
fn items(part: &Part) -> impl Iterator<Item = (usize, &str)> {
    let mut at = part.value_at;
    part.value.split(',').map(move |item| {
        let here = at;
        at += item.chars().count() + 1;
        (here, item)
    })
}

fn frequency(rule: &str, part: &Part) -> Result<(), RecurrenceError> {
    let value = part.value.as_str();
    let why = match value {
        known if FREQUENCIES.contains(&known) => return Ok(()),
        "MINUTELY" | "SECONDLY" => format!("the shortest frequency is HOURLY, not {value}"),
        _ => {
            let near = muster_model::nearest(value, FREQUENCIES).map(meant).unwrap_or_default();
            format!("FREQ is {}, not {}; {near}", FREQUENCIES.join(", "), shown(value))
        }
    };
    Err(bad(rule, part.value_at, why.trim_end_matches([';', ' '])))
}

fn no_day(text: &str) -> String {
    format!("{} is no day of the week; there are {}", shown(text), DAYS.join(", "))
}

/// `MO`, or `2MO` and `-1FR` within a month or year.
fn days(rule: &str, part: &Part) -> Result<(), RecurrenceError> {
    for (at, item) in items(part) {
        let split = item.len().saturating_sub(2);
        let (number, day) = item.split_at_checked(split).unwrap_or(("", item));
        if !DAYS.contains(&day) {
            return Err(bad(rule, at, no_day(item)));
        }
        let digits = number.trim_start_matches(['+', '-']);
        let fits = |n: u32| (1..=53).contains(&n);
        if !number.is_empty() && !digits.parse().is_ok_and(fits) {
            return Err(bad(rule, at, format!("{item}: the number before a day is 1 to 53")));
        }
    }
    Ok(())
}

/// What the parts say together (RFC 5545, 3.3.10, the table of `BY` parts).
fn together(rule: &str, parts: &[Part]) -> Result<(), RecurrenceError> {
    let find = |key: &str| parts.iter().find(|part| part.key == key);
    let Some(frequency) = find("FREQ").map(|part| part.value.as_str()) else {
        let why = "it says no frequency; begin with FREQ=WEEKLY, FREQ=DAILY or the like";
        return Err(bad(rule, 1, why));
    };
    let refuse = |key: &str, why: String| match find(key) {
        Some(part) => Err(bad(rule, part.at, why)),
        None => Ok(()),
    };
    let only = |key: &str, with: &[&str]| {
        if with.contains(&frequency) {
            return Ok(());
        }
        refuse(key, format!("{key} goes with FREQ={}, not {frequency}", with.join(" or FREQ=")))
    };
    if find("UNTIL").is_some() {
        refuse("COUNT", "COUNT and UNTIL exclude one another; leave one out".to_owned())?;
    }
    only("BYWEEKNO", &["YEARLY"])?;
    only("BYYEARDAY", &["YEARLY", "HOURLY"])?;
    only("BYMONTHDAY", &["YEARLY", "MONTHLY", "DAILY", "HOURLY"])?;
    let numbered = find("BYDAY").filter(|part| part.value.contains(|c: char| c.is_ascii_digit()));
    if let Some(part) = numbered
        && (!["YEARLY", "MONTHLY"].contains(&frequency) || find("BYWEEKNO").is_some())
    {
        let why = "a number before a day goes with FREQ=MONTHLY or FREQ=YEARLY, without BYWEEKNO";
        return Err(bad(rule, part.value_at, why));
    }
    let by = |part: &Part| part.key.starts_with("BY") && part.key != "BYSETPOS";
    if !parts.iter().any(by) {
        refuse("BYSETPOS", "BYSETPOS chooses among what another BY part gives".to_owned())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(rule: &str) -> (usize, String) {
        match parts(rule).map(|parts| parts.len()) {
            Err(RecurrenceError::RuleBad { column, why, .. }) => (column, why),
            other => panic!("{rule}: {other:?}"),
        }
    }

    #[test]
    fn what_is_wrong_has_a_column_and_plain_words() {
        let cases = [
            ("FREQ=WEEKLY;BYDAY=MO,XX", 22, "XX is no day of the week"),
            ("FREQ=WEKLY", 6, "did you mean WEEKLY?"),
            ("FREQ=DAILY;BYHUOR=9", 12, "did you mean BYHOUR?"),
            ("FREQ=DAILY;BYHOUR=9,24", 21, "BYHOUR is 0 to 23, not 24"),
            ("FREQ=DAILY;INTERVAL=0", 21, "INTERVAL is 1 to 65535, not 0"),
            ("RRULE:FREQ=DAILY;COUNT=", 24, "not nothing"),
            ("FREQ=DAILY;COUNT=2,3", 18, "COUNT is 1 to 1000000"),
            ("FREQ=MONTHLY;BYMONTHDAY=-32", 25, "or -31 to -1 from the end"),
            ("FREQ=SECONDLY", 6, "the shortest frequency is HOURLY"),
            ("FREQ=DAILY;DAILY", 12, "expected a part such as BYDAY=MO"),
            ("FREQ=DAILY;FREQ=DAILY", 12, "FREQ is there twice"),
            ("BYDAY=MO", 1, "it says no frequency"),
            ("", 1, "it says no frequency"),
            ("FREQ=WEEKLY;BYMONTHDAY=1", 13, "not WEEKLY"),
            ("FREQ=WEEKLY;BYDAY=2MO", 19, "FREQ=MONTHLY or FREQ=YEARLY"),
            ("FREQ=MONTHLY;BYDAY=99MO", 20, "1 to 53"),
            ("FREQ=DAILY;BYSETPOS=1", 12, "another BY part"),
            ("FREQ=DAILY;COUNT=2;UNTIL=20271231", 12, "exclude one another"),
            ("FREQ=MONTHLY;BYWEEKNO=3", 14, "FREQ=YEARLY"),
        ];
        for (rule, column, words) in cases {
            let (at, why) = refused(rule);
            assert_eq!(at, column, "{rule}: {why}");
            assert!(why.contains(words), "{rule}: {why}");
        }
    }

    #[test]
    fn what_the_rfc_allows_is_taken() {
        for rule in [
            "freq=weekly;byday=mo,we,fr",
            " RRULE:FREQ=MONTHLY;BYDAY=-1FR",
            "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
            "FREQ=YEARLY;INTERVAL=2;BYMONTH=1;BYDAY=SU;BYHOUR=8,9;BYMINUTE=30",
            "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO;WKST=SU",
            "FREQ=MONTHLY;BYMONTHDAY=2,+15,-1;COUNT=10",
            "FREQ=DAILY;UNTIL=20271231T235959Z;",
        ] {
            assert!(parts(rule).is_ok(), "{rule}");
        }
    }
}
