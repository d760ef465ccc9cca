//! Text to settings. Everything that is wrong is found in one pass, with its line and column.

use crate::error::{ConfigError, Problem};
use crate::key::{Key, Section};
use crate::{Config, check};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The largest file that is read, bytes.
pub(crate) const FILE_MAX: u64 = 4 * 1024 * 1024;

/// A text with its name, to tell places by.
pub(crate) struct Text<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
}

impl Config {
    /// Reads and checks a file's text. `name` is for messages.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigError> {
        let text = Text { name, text };
        let table = DeTable::parse(text.text).map_err(|error| text.syntax(&error))?;
        let mut problems = Vec::new();
        unknown_keys(&text, table.get_ref(), &mut problems);
        if !problems.is_empty() {
            return Err(ConfigError { problems });
        }
        let config: Self =
            toml::from_str(text.text).map_err(|error| text.value(&error, table.get_ref()))?;
        check::check(&config, &text, table.get_ref(), &mut problems);
        if problems.is_empty() { Ok(config) } else { Err(ConfigError { problems }) }
    }
}

impl Text<'_> {
    /// A problem at a place in the text.
    pub(crate) fn problem(
        &self,
        code: &'static str,
        at: Option<Range<usize>>,
        message: String,
        hint: Option<String>,
    ) -> Problem {
        let (line, column) = at.map(|range| self.line_column(range.start)).unzip();
        Problem { code, source: self.name.to_owned(), line, column, message, hint }
    }

    pub(crate) fn line_column(&self, at: usize) -> (u32, u32) {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &self.text[..at];
        let line = before.matches('\n').count() as u32 + 1;
        let start = before.rfind('\n').map_or(0, |n| n + 1);
        (line, before[start..].chars().count() as u32 + 1)
    }

    fn syntax(&self, error: &toml::de::Error) -> ConfigError {
        let hint = Some("the file's form is TOML: key = value below [section]".to_owned());
        let problem =
            self.problem("E_CONFIG_SYNTAX", error.span(), one_line(error.message()), hint);
        ConfigError { problems: vec![problem] }
    }

    /// The section and the key whose value lies over a place.
    fn key_at(table: &DeTable, at: usize) -> Option<(&'static Section, &'static Key)> {
        let holds = |span: Range<usize>| span.contains(&at);
        for (name, value) in table {
            let section = Config::SECTIONS.iter().find(|s| s.name == name.get_ref().as_ref())?;
            let inner: Vec<&DeTable> = match value.get_ref() {
                DeValue::Table(inner) => vec![inner],
                DeValue::Array(items) => {
                    items.iter().filter_map(|v| v.get_ref().as_table()).collect()
                }
                _ => continue,
            };
            let mut keys = inner.into_iter().flat_map(|inner| inner.iter());
            if let Some((key, _)) = keys.rfind(|(_, value)| holds(value.span())) {
                let key = section.keys.iter().find(|k| k.name == key.get_ref().as_ref())?;
                return Some((section, key));
            }
        }
        None
    }

    fn value(&self, error: &toml::de::Error, table: &DeTable) -> ConfigError {
        let found = error.span().and_then(|span| Self::key_at(table, span.start));
        let (message, hint) = crate::value::told(error.message(), found);
        let problem = self.problem("E_CONFIG_VALUE", error.span(), message, hint);
        ConfigError { problems: vec![problem] }
    }
}

pub(crate) fn one_line(message: &str) -> String {
    message.trim().lines().map(str::trim).collect::<Vec<_>>().join(", ")
}

fn unknown_keys(text: &Text, table: &DeTable, problems: &mut Vec<Problem>) {
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        let Some(section) = Config::SECTIONS.iter().find(|s| s.name == name) else {
            let names = Config::SECTIONS.iter().map(|s| s.name);
            problems.push(unknown(text, key.span(), "section", name, names));
            continue;
        };
        match value.get_ref() {
            DeValue::Table(inner) => unknown_in(text, section, inner, problems),
            DeValue::Array(items) => {
                for item in items {
                    if let DeValue::Table(inner) = item.get_ref() {
                        unknown_in(text, section, inner, problems);
                    }
                }
            }
            _ => {}
        }
    }
    problems.sort_by_key(|p| (p.line, p.column));
}

fn unknown_in(text: &Text, section: &Section, table: &DeTable, problems: &mut Vec<Problem>) {
    for key in table.keys() {
        let name = key.get_ref().as_ref();
        if !section.keys.iter().any(|k| k.name == name) {
            let names = section.keys.iter().map(|k| k.name);
            let what = format!("key of [{}]", section.name);
            problems.push(unknown(text, key.span(), &what, name, names));
        }
    }
}

fn unknown<'a>(
    text: &Text,
    at: Range<usize>,
    what: &str,
    name: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Problem {
    let near = muster_model::nearest(name, names.clone());
    let hint = match near {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there are: {}", names.collect::<Vec<_>>().join(", ")),
    };
    let message = format!("{name} is no {what}");
    text.problem("E_CONFIG_UNKNOWN_KEY", Some(at), message, Some(hint))
}

/// Where a key of a section stands, or with `key[2]` an item of its list; `index` counts
/// `[[section]]`s. The section itself where the key is not written.
pub(crate) fn span_of(
    table: &DeTable,
    section: &str,
    index: usize,
    key: &str,
) -> Option<Range<usize>> {
    let (_, value) = table.iter().find(|(k, _)| k.get_ref().as_ref() == section)?;
    let item: &Spanned<DeValue> = match value.get_ref() {
        DeValue::Array(items) => items.get(index)?,
        _ => value,
    };
    let DeValue::Table(inner) = item.get_ref() else { return Some(item.span()) };
    let (key, nth) = match key.strip_suffix(']').and_then(|key| key.split_once('[')) {
        Some((key, nth)) => (key, nth.parse().ok()),
        None => (key, None::<usize>),
    };
    let found = inner.iter().find(|(k, _)| k.get_ref().as_ref() == key);
    let Some((_, value)) = found else { return Some(item.span()) };
    let of_list = nth.and_then(|nth| value.get_ref().as_array()?.get(nth));
    Some(of_list.map_or_else(|| value.span(), Spanned::span))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> Problem {
        let mut error = Config::parse(text, "m.toml").unwrap_err();
        assert_eq!(error.problems.len(), 1, "{error}");
        error.problems.remove(0)
    }

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(Config::parse("", "m.toml").unwrap(), Config::default());
    }

    #[test]
    fn an_unknown_key_has_a_place_and_a_suggestion() {
        let problem = only("[policy]\nkil_wait = 3\n");
        assert_eq!(
            problem.to_string(),
            "m.toml:2:1: kil_wait is no key of [policy] [E_CONFIG_UNKNOWN_KEY]\n\
             hint: did you mean kill_wait?"
        );
        assert_eq!(only("[polcy]\n").hint.as_deref(), Some("did you mean policy?"));
    }

    #[test]
    fn a_wrong_value_has_a_place() {
        let problem = only("[policy]\nkill_wait = \"soon\"\n");
        assert_eq!(
            (problem.code, problem.line, problem.column),
            ("E_CONFIG_VALUE", Some(2), Some(13))
        );
        let problem = only("[policy\n");
        assert_eq!((problem.code, problem.line), ("E_CONFIG_SYNTAX", Some(1)));
    }

    #[test]
    fn a_wrong_value_is_told_in_plain_words() {
        let told = |text: &str| {
            let problem = only(text);
            assert_eq!(problem.code, "E_CONFIG_VALUE");
            (problem.message, problem.hint.unwrap_or_default())
        };
        let (message, hint) = told("[policy]\nbackfill = \"eazy\"\n");
        assert_eq!(
            message,
            "backfill in [policy] is none, easy, conservative or mixed, not \"eazy\""
        );
        assert_eq!(hint, "did you mean easy?");
        let (message, _) = told("[policy]\nbackfill_depth = \"many\"\n");
        assert_eq!(message, "backfill_depth in [policy] is a number, not the text \"many\"");
        let (message, _) = told("[policy]\nbackfill_depth = -1\n");
        assert_eq!(message, "backfill_depth in [policy] is a number, not -1");
        let (message, _) = told("[[qos]]\nname = 3\n");
        assert_eq!(message, "name in [[qos]] is a text, not 3");
        let (message, _) = told("[policy]\nkill_wait = [1]\n");
        assert_eq!(message, "kill_wait in [policy] is a duration such as 90s, 30m or 12h");
        let (message, _) = told("[[partition]]\nname = \"p\"\nnodes = [1]\n");
        assert_eq!(message, "nodes in [[partition]] is a list of host lists, not 1");
        let (message, _) = told("policy = 3\n");
        assert_eq!(message, "policy is written as a section, [policy], not 3");
        let (message, hint) = told("[[account]]\nname = \"a\"\nguarantee = { gpu = 8 }\n");
        assert_eq!(
            message,
            "gpu is no part of guarantee in [[account]]; there are cpus, gpus, memory"
        );
        assert_eq!(hint, "did you mean gpus?");
    }

    #[test]
    fn all_unknown_keys_are_told_at_once() {
        let error = Config::parse("[cluster]\nnam = 1\n[[node]]\nwight = 1\n", "m").unwrap_err();
        assert_eq!(error.problems.len(), 2);
    }
}
