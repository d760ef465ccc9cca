//! What differs between two configurations, key by key.

use crate::Config;
use std::collections::BTreeMap;

/// A setting: its key and its value as TOML.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setting {
    /// `policy.kill_wait`; `partition.gpu.max_time` for the partition `gpu`.
    pub key: String,
    /// As TOML.
    pub value: String,
}

/// A setting that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// See [`Setting::key`].
    pub key: String,
    /// Empty where it was not there.
    pub before: String,
    /// Empty where it is gone.
    pub after: String,
    /// It comes into force at the daemon's next start.
    pub restart: bool,
}

impl Config {
    /// Every setting in the order of the reference, unset optional ones left out.
    pub fn settings(&self) -> Vec<Setting> {
        let Ok(toml::Value::Table(all)) = toml::Value::try_from(self) else { return Vec::new() };
        let mut settings = Vec::new();
        for section in Self::SECTIONS {
            let items = match all.get(section.name) {
                Some(toml::Value::Table(table)) => vec![(section.name.to_owned(), table)],
                Some(toml::Value::Array(items)) => items
                    .iter()
                    .filter_map(toml::Value::as_table)
                    .map(|table| {
                        let of = |key: &str| table.get(key).and_then(toml::Value::as_str);
                        let name = match (of("name"), of("account"), of("user")) {
                            (Some(name), ..) => name.to_owned(),
                            (None, Some(account), Some(user)) => format!("{account}/{user}"),
                            _ => String::new(),
                        };
                        (format!("{}.{name}", section.name), table)
                    })
                    .collect(),
                _ => Vec::new(),
            };
            for (prefix, table) in items {
                for key in section.keys {
                    if let Some(value) = table.get(key.name) {
                        let key = format!("{prefix}.{}", key.name);
                        settings.push(Setting { key, value: value.to_string() });
                    }
                }
            }
        }
        settings
    }

    /// What changes from this configuration to another.
    pub fn changes_to(&self, other: &Self) -> Vec<Change> {
        let map = |config: &Self| -> BTreeMap<String, String> {
            config.settings().into_iter().map(|s| (s.key, s.value)).collect()
        };
        let (before, after) = (map(self), map(other));
        let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
        keys.sort();
        keys.dedup();
        let value =
            |map: &BTreeMap<String, String>, key: &str| map.get(key).cloned().unwrap_or_default();
        keys.into_iter()
            .filter(|key| before.get(*key) != after.get(*key))
            .map(|key| Change {
                key: key.clone(),
                before: value(&before, key),
                after: value(&after, key),
                restart: needs_restart(key),
            })
            .collect()
    }
}

fn needs_restart(key: &str) -> bool {
    let Some((section, rest)) = key.split_once('.') else { return false };
    let name = rest.rsplit('.').next().unwrap_or(rest);
    let section = Config::SECTIONS.iter().find(|s| s.name == section);
    section.and_then(|s| s.keys.iter().find(|k| k.name == name)).is_some_and(|k| k.restart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_name_the_key_and_both_values() {
        let before = Config::default();
        let text = "[policy]\nkill_wait = \"5s\"\n[cluster]\nname = \"x\"\n[[licence]]\nname = \"sim\"\ntotal = 2\n";
        let changes = before.changes_to(&Config::parse(text, "m").unwrap());
        let keys: Vec<(&str, bool)> = changes.iter().map(|c| (c.key.as_str(), c.restart)).collect();
        assert_eq!(
            keys,
            [
                ("cluster.name", true),
                ("licence.sim.name", false),
                ("licence.sim.total", false),
                ("policy.kill_wait", false)
            ]
        );
        assert_eq!((changes[3].before.as_str(), changes[3].after.as_str()), ("\"30s\"", "\"5s\""));
    }
}
