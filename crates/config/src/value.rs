//! What is wrong with a value, in the words of the reference in place of the deserialiser's.

use crate::key::{Key, Section};
use crate::read::one_line;

/// The message and hint for what a deserialiser said about a key's value.
///
/// Only the deserialiser knows what it wanted, and says so in one of a few forms (serde's `Error`);
/// any other message is one of ours already.
pub(crate) fn told(
    said: &str,
    at: Option<(&'static Section, &'static Key)>,
) -> (String, Option<String>) {
    let said = one_line(said);
    let Some((section, key)) = at else {
        return (whole_section(&said).unwrap_or(said), None);
    };
    let brackets = if section.many { ("[[", "]]") } else { ("[", "]") };
    let place = format!("{} in {}{}{}", key.name, brackets.0, section.name, brackets.1);
    if let Some((found, words)) = one_of(&said, "unknown variant ") {
        let hint = muster_model::nearest(found, words.iter().copied());
        let hint = hint.map(|near| format!("did you mean {near}?"));
        return (format!("{place} is {}, not {found:?}", listed(&words)), hint);
    }
    if let Some((found, words)) = one_of(&said, "unknown field ") {
        let hint = muster_model::nearest(found, words.iter().copied());
        let hint = hint.map(|near| format!("did you mean {near}?"));
        let there = words.join(", ");
        return (format!("{found} is no part of {place}; there are {there}"), hint);
    }
    if let Some(found) = found(&said) {
        return (format!("{place} is {}, not {found}", kind(key.kind)), None);
    }
    if said.starts_with("data did not match any variant") {
        return (format!("{place} is {}", kind(key.kind)), None);
    }
    (format!("{place}: {said}"), None)
}

/// `invalid type: integer `3`, expected struct PolicySection`.
fn whole_section(said: &str) -> Option<String> {
    let name = said.split("expected struct ").nth(1)?;
    let config = crate::Config::SECTIONS;
    let found = found(said)?;
    let lower = name.to_ascii_lowercase();
    let of = |section: &&Section| lower.trim_end_matches("section").ends_with(section.name);
    let section = config.iter().find(of)?;
    let brackets = if section.many { ("[[", "]]") } else { ("[", "]") };
    Some(format!(
        "{} is written as a section, {}{}{}, not {found}",
        section.name, brackets.0, section.name, brackets.1
    ))
}

/// ``unknown variant `x`, expected one of `a`, `b` ``: what was found and the words there are.
fn one_of<'a>(said: &'a str, begins: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let rest = said.strip_prefix(begins)?;
    let mut quoted = rest.split('`').skip(1).step_by(2);
    let found = quoted.next()?;
    Some((found, quoted.collect()))
}

/// What was found, of ``invalid type: string "x", expected u32`` and ``invalid value: …``.
fn found(said: &str) -> Option<String> {
    let rest =
        said.strip_prefix("invalid type: ").or_else(|| said.strip_prefix("invalid value: "))?;
    let found = rest.rsplit_once(", expected").map_or(rest, |(found, _)| found);
    let number = |word: &str| Some(found.strip_prefix(word)?.trim_matches('`').to_owned());
    Some(match found {
        "sequence" => "a list".to_owned(),
        "map" => "a table".to_owned(),
        _ => number("integer ")
            .or_else(|| number("floating point "))
            .or_else(|| number("boolean "))
            .or_else(|| found.strip_prefix("string ").map(|text| format!("the text {text}")))
            .unwrap_or_else(|| found.to_owned()),
    })
}

/// The kind of a key with its article.
fn kind(kind: &str) -> String {
    let kind = kind.trim_end_matches(", required");
    match kind {
        "duration" => "a duration such as 90s, 30m or 12h".to_owned(),
        "duration or unlimited" => "a duration such as 90s, 30m or 12h, or unlimited".to_owned(),
        "size" => "a size such as 512M or 80G".to_owned(),
        "true or false" => kind.to_owned(),
        _ => format!("a {kind}"),
    }
}

/// `a, b or c`.
fn listed(words: &[&str]) -> String {
    match words {
        [] => "another word".to_owned(),
        [one] => (*one).to_owned(),
        [rest @ .., last] => format!("{} or {last}", rest.join(", ")),
    }
}
