//! Amounts and instants in few letters.

use jiff::tz::TimeZone;
use muster_model::Timestamp;

/// A span of time in at most five letters: `45s`, `12m`, `3h20`, `2d4h`.
pub(crate) fn span(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m"),
        3600..36_000 => format!("{hours}h{:02}", minutes % 60),
        36_000..86_400 => format!("{hours}h"),
        _ if days < 100 => format!("{days}d{}h", hours % 24),
        _ => format!("{days}d"),
    }
}

/// Until then: `in 12m`, `now` where it has come.
pub(crate) fn until(at: Timestamp, now: Timestamp) -> String {
    match at.since(now).0 {
        0 => "now".to_owned(),
        left => format!("in {}", span(left)),
    }
}

/// An instant in the given zone, with its date where that is another day than `now`.
pub(crate) fn instant(at: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let zoned = |at: Timestamp| {
        let instant = jiff::Timestamp::from_millisecond(at.millis()).ok()?;
        Some(zone.to_datetime(instant))
    };
    match (zoned(at), zoned(now)) {
        (Some(at), Some(today)) if at.date() == today.date() => at.strftime("%H:%M:%S").to_string(),
        (Some(at), _) => at.strftime("%m-%d %H:%M").to_string(),
        _ => "unknown".to_owned(),
    }
}

/// Memory that is given in MiB: `512M`, `1.5G`, `80G`, `2.0T`.
pub(crate) fn mib(mib: u64) -> String {
    let amount = mib as f64;
    match mib {
        0..1024 => format!("{mib}M"),
        1024..10_240 => format!("{:.1}G", amount / 1024.0),
        10_240..1_048_576 => format!("{:.0}G", amount / 1024.0),
        _ => format!("{:.1}T", amount / 1_048_576.0),
    }
}

/// Bytes, in the same letters.
pub(crate) fn bytes(bytes: f64) -> String {
    const MIB: f64 = 1_048_576.0;
    match bytes {
        b if b < 1024.0 => format!("{b:.0}"),
        b if b < MIB => format!("{:.0}K", b / 1024.0),
        b => mib((b / MIB) as u64),
    }
}

/// `[|||||     ]` of so many columns, brackets and all; a part of nothing is none.
pub(crate) fn bar(part: f64, whole: f64, columns: usize) -> String {
    let inner = columns.saturating_sub(2);
    let share = if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 };
    let mut full = (share * inner as f64).round() as usize;
    // A little is not nothing, and not quite all is not all.
    if share > 0.0 {
        full = full.max(1);
    }
    if share < 1.0 {
        full = full.min(inner.saturating_sub(1));
    }
    format!("[{}{}]", "|".repeat(full), " ".repeat(inner - full))
}

/// The text in lines of so many columns, broken between words; a word that is longer is cut.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(10);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let wide = columns_of(word);
        if used > 0 && used + 1 + wide > columns {
            lines.push(String::new());
            used = 0;
        } else if used > 0 {
            push(&mut lines, ' ');
            used += 1;
        }
        for letter in word.chars() {
            let letter_columns = columns_of(letter.encode_utf8(&mut [0; 4]));
            if used + letter_columns > columns {
                lines.push(String::new());
                used = 0;
            }
            push(&mut lines, letter);
            used += letter_columns;
        }
    }
    lines
}

fn push(lines: &mut [String], letter: char) {
    if let Some(line) = lines.last_mut() {
        line.push(letter);
    }
}

fn columns_of(text: &str) -> usize {
    ratatui::text::Span::raw(text).width()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_take_five_letters_at_most() {
        let all = [0, 59, 60, 3599, 3600, 35_999, 36_000, 86_399, 86_400, 8_639_999, 99_999_999];
        let told: Vec<String> = all.iter().map(|s| span(*s)).collect();
        assert_eq!(
            told,
            ["0s", "59s", "1m", "59m", "1h00", "9h59", "10h", "23h", "1d0h", "99d23h", "1157d"]
        );
    }

    #[test]
    fn a_bar_tells_a_little_from_nothing() {
        assert_eq!(bar(0.0, 8.0, 6), "[    ]");
        assert_eq!(bar(0.1, 8.0, 6), "[|   ]");
        assert_eq!(bar(7.9, 8.0, 6), "[||| ]");
        assert_eq!(bar(8.0, 8.0, 6), "[||||]");
        assert_eq!(bar(1.0, 0.0, 6), "[    ]");
    }

    #[test]
    fn long_text_breaks_between_words_and_a_long_word_is_cut() {
        assert_eq!(wrapped("held by 6, 5, 8", 10), ["held by 6,", "5, 8"]);
        assert_eq!(wrapped("a 0123456789abc", 10), ["a", "0123456789", "abc"]);
        assert_eq!(wrapped("한글한글한글", 10), ["한글한글한", "글"]);
        assert_eq!(wrapped("[|    ] 3", 10), ["[|    ] 3"]);
        assert_eq!(wrapped("", 10), [""]);
    }

    #[test]
    fn instants_of_another_day_have_their_date() {
        let at = |s| Timestamp::from_secs(s);
        assert_eq!(instant(at(3_661), at(0), &TimeZone::UTC), "01:01:01");
        assert_eq!(instant(at(90_000), at(0), &TimeZone::UTC), "01-02 01:00");
        assert_eq!((until(at(5), at(9)), until(at(69), at(9))), ("now".into(), "in 1m".into()));
        assert_eq!(
            (mib(1536), mib(81_920), bytes(2048.0)),
            ("1.5G".into(), "80G".into(), "2K".into())
        );
    }
}
