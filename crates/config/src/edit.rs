//! Settings put into the text of a configuration, with all else left as it stands, and what that
//! changes as a unified diff.

use crate::Config;
use similar::TextDiff;

/// So many lines around a change are shown.
const CONTEXT: usize = 3;

/// A changed text, beside what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    old: String,
    new: String,
}

/// Why a text was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// What comes out is no configuration.
    #[error(transparent)]
    Config(#[from] crate::ConfigError),
    /// The section is written in a way that lines cannot be put into.
    #[error(
        "[{section}] is written in a way that cannot be changed line by line; set by hand: {keys}"
    )]
    Form {
        /// Which section.
        section: String,
        /// What is to be set.
        keys: String,
    },
}

/// Sets keys of one section, values as TOML. What is set already is replaced where it stands, what
/// is not comes after the section's title; a section that is not there comes at the end.
///
/// # Errors
/// What comes out is no configuration, or is not what it should be.
pub fn set(text: &str, section: &str, values: &[(String, String)]) -> Result<Edited, EditError> {
    let mut lines: Vec<String> = Vec::new();
    let (mut inside, mut found) = (false, false);
    let mut left: Vec<&(String, String)> = values.iter().collect();
    for line in text.lines() {
        if let Some(title) = title(line) {
            inside = title == section;
            lines.push(line.to_owned());
            if inside {
                found = true;
                // What stands in the section already is replaced there.
                left.retain(|(key, value)| {
                    let stands = stands_in(text, section, key);
                    if !stands {
                        lines.push(format!("{key} = {value}"));
                    }
                    stands
                });
            }
            continue;
        }
        let set = key_of(line).filter(|_| inside).and_then(|key| {
            let at = left.iter().position(|(other, _)| other == key)?;
            Some(left.remove(at))
        });
        lines.push(match set {
            Some((key, value)) if line.trim() != format!("{key} = {value}") => {
                format!("{key} = {value}")
            }
            _ => line.to_owned(),
        });
    }
    if !found && !values.is_empty() {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(format!("[{section}]"));
        lines.extend(values.iter().map(|(key, value)| format!("{key} = {value}")));
    }
    let ended = |line: &str| format!("{line}\n");
    let edited = Edited {
        old: text.lines().map(ended).collect(),
        new: lines.iter().map(|line| ended(line)).collect(),
    };
    let form = || EditError::Form {
        section: section.to_owned(),
        keys: values.iter().map(|(k, v)| format!("{k} = {v}")).collect::<Vec<_>>().join(", "),
    };
    let before = Config::parse(text, "the configuration")?;
    let after = Config::parse(&edited.new, "the proposal").map_err(|_| form())?;
    if is_as_meant(&before, &after, section, values) { Ok(edited) } else { Err(form()) }
}

impl Edited {
    /// The new text.
    pub fn text(&self) -> &str {
        &self.new
    }

    /// What changes, as `diff -u` tells it; empty where nothing does.
    pub fn diff(&self, name: &str) -> String {
        if self.old == self.new {
            return String::new();
        }
        let diff = TextDiff::from_lines(&self.old, &self.new);
        diff.unified_diff().context_radius(CONTEXT).header(name, name).to_string()
    }
}

/// True where the settings are what they were but for those that were to change.
fn is_as_meant(
    before: &Config,
    after: &Config,
    section: &str,
    values: &[(String, String)],
) -> bool {
    let prefix = format!("{section}.");
    let ours = |key: &str| {
        let key = key.strip_prefix(&prefix)?;
        values.iter().find(|(other, _)| other == key)
    };
    let others = |config: &Config| -> Vec<_> {
        config.settings().into_iter().filter(|one| ours(&one.key).is_none()).collect()
    };
    let settings = after.settings();
    let set = settings.iter().filter(|one| ours(&one.key).is_some()).count();
    others(before) == others(after) && set == values.len()
}

/// The name in `[name]`; `None` where a line is no title of a section.
fn title(line: &str) -> Option<&str> {
    let line = line.split('#').next()?.trim();
    Some(line.strip_prefix('[')?.strip_suffix(']')?.trim())
}

fn key_of(line: &str) -> Option<&str> {
    let (key, _) = line.split_once('=')?;
    let key = key.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (!key.is_empty() && key.chars().all(plain)).then_some(key)
}

/// True where a line of the section sets the key.
fn stands_in(text: &str, section: &str, key: &str) -> bool {
    let mut inside = false;
    text.lines().any(|line| {
        if let Some(title) = title(line) {
            inside = title == section;
        }
        inside && key_of(line) == Some(key)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    const TEXT: &str = "# ours\n[cluster]\nname = \"x\"\n\n[policy] # who comes first\n\
        kill_wait = \"5s\" # short\norder = \"fifo\"\n\n[local]\npractice = \"4x8\"\n";

    #[test]
    fn what_is_set_is_replaced_and_all_else_stands() {
        let set_to = values(&[("order", "\"slowdown\""), ("guard_first", "300")]);
        let edited = set(TEXT, "policy", &set_to).unwrap();
        let diff = "--- muster.toml\n+++ muster.toml\n@@ -3,8 +3,9 @@\n name = \"x\"\n \n \
            [policy] # who comes first\n+guard_first = 300\n kill_wait = \"5s\" # short\n\
            -order = \"fifo\"\n+order = \"slowdown\"\n \n [local]\n practice = \"4x8\"\n";
        assert_eq!(edited.diff("muster.toml"), diff);
        let config = Config::parse(edited.text(), "new").unwrap();
        assert_eq!(config.policy.guard_first, 300);
        // Once it is so, nothing is left to change.
        assert_eq!(set(edited.text(), "policy", &set_to).unwrap().diff("x"), "");
    }

    #[test]
    fn a_section_that_is_not_there_comes_at_the_end() {
        let set_to = values(&[("guard_first", "300")]);
        let edited = set("[cluster]\nname = \"x\"\n", "policy", &set_to).unwrap();
        assert_eq!(edited.text(), "[cluster]\nname = \"x\"\n\n[policy]\nguard_first = 300\n");
        let edited = set("", "policy", &set_to).unwrap();
        assert_eq!(
            edited.diff("m"),
            "--- m\n+++ m\n@@ -0,0 +1,2 @@\n+[policy]\n+guard_first = 300\n"
        );
    }

    #[test]
    fn what_cannot_be_changed_by_lines_is_said() {
        let set_to = values(&[("guard_first", "300")]);
        for text in ["policy = { guard_first = 2 }\n", "policy.guard_first = 2\n"] {
            let error = set(text, "policy", &set_to).unwrap_err();
            assert!(matches!(error, EditError::Form { .. }), "{error}");
        }
    }
}
