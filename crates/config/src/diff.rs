//! What differs between two configurations, key by key.

use crate::{Config, Section};
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
    /// Whether its section is new, gone, or was there before.
    pub kind: ChangeKind,
    /// Empty where it was not there.
    pub before: String,
    /// Empty where it is gone.
    pub after: String,
    /// It comes into force at the daemon's next start.
    pub restart: bool,
}

/// What became of the section that a setting is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was there, and is.
    #[default]
    Changed,
    /// It was not there.
    New,
    /// It is not there any more.
    Gone,
}

/// One section as it is in a configuration.
struct Entry {
    /// `policy`, `partition.gpu`.
    prefix: String,
    section: &'static Section,
    /// By key, as TOML.
    values: BTreeMap<&'static str, String>,
}

/// The keys that say which of several sections it is.
const NAMING: [&str; 5] = ["name", "account", "user", "nodes", "indices"];

impl Entry {
    fn of(section: &'static Section, table: &toml::Table) -> Self {
        let text = |key: &str| match table.get(key) {
            Some(toml::Value::String(text)) => text.clone(),
            Some(toml::Value::Array(items)) => {
                items.iter().filter_map(toml::Value::as_str).collect::<Vec<_>>().join(",")
            }
            _ => String::new(),
        };
        let has = |key: &str| section.keys.iter().any(|known| known.name == key);
        let name = if !section.many {
            String::new()
        } else if has("name") {
            text("name")
        } else if has("user") {
            format!("{}/{}", text("account"), text("user"))
        } else {
            let indices = text("indices");
            text("nodes") + &if indices.is_empty() { indices } else { format!(":{indices}") }
        };
        let prefix =
            if section.many { format!("{}.{name}", section.name) } else { section.name.to_owned() };
        let values = section
            .keys
            .iter()
            .filter_map(|key| Some((key.name, table.get(key.name)?.to_string())));
        Self { prefix, section, values: values.collect() }
    }

    fn names_it(&self, key: &str) -> bool {
        self.section.many
            && NAMING.contains(&key)
            && (key == "name" || !self.values.contains_key("name"))
            && self.values.get(key).is_some_and(|value| value != "\"\"")
    }
}

impl Config {
    /// Every section there is, in the order of the reference. Of several that are called the same
    /// the later ones are numbered.
    fn entries(&self) -> Vec<Entry> {
        let Ok(toml::Value::Table(all)) = toml::Value::try_from(self) else { return Vec::new() };
        let mut entries: Vec<Entry> = Vec::new();
        for section in Self::SECTIONS {
            let tables: Vec<&toml::Table> = match all.get(section.name) {
                Some(toml::Value::Table(table)) => vec![table],
                Some(toml::Value::Array(items)) => {
                    items.iter().filter_map(toml::Value::as_table).collect()
                }
                _ => Vec::new(),
            };
            for table in tables {
                let mut entry = Entry::of(section, table);
                let same =
                    |other: &&Entry| other.prefix.split('#').next() == Some(entry.prefix.as_str());
                let before = entries.iter().filter(same).count();
                if before > 0 {
                    entry.prefix = format!("{}#{}", entry.prefix, before + 1);
                }
                entries.push(entry);
            }
        }
        entries
    }

    /// Every setting in the order of the reference, unset optional ones left out.
    pub fn settings(&self) -> Vec<Setting> {
        let all = self.entries().into_iter().flat_map(|entry| {
            let Entry { prefix, section, values } = entry;
            let keys = section.keys.iter().filter_map(move |key| {
                let key_name = format!("{prefix}.{}", key.name);
                Some(Setting { key: key_name, value: values.get(key.name)?.clone() })
            });
            keys.collect::<Vec<_>>()
        });
        all.collect()
    }

    /// What changes from this configuration to another, section by section. Of a section that is new
    /// or gone only what differs from the default is told, and what it is called.
    pub fn changes_to(&self, other: &Self) -> Vec<Change> {
        let defaults = Self::one_of_each().entries();
        let default = |section: &Section| defaults.iter().find(|e| e.section.name == section.name);
        let by_prefix = |config: &Self| -> BTreeMap<String, Entry> {
            config.entries().into_iter().map(|entry| (entry.prefix.clone(), entry)).collect()
        };
        let (before, after) = (by_prefix(self), by_prefix(other));
        let mut prefixes: Vec<&String> = before.keys().chain(after.keys()).collect();
        prefixes.sort();
        prefixes.dedup();
        let mut changes = Vec::new();
        for prefix in prefixes {
            let (old, new) = (before.get(prefix), after.get(prefix));
            let (kind, Some(entry)) = (kind(old, new), new.or(old)) else { continue };
            let usual = default(entry.section);
            for key in entry.section.keys {
                let of =
                    |entry: Option<&Entry>| entry.and_then(|e| e.values.get(key.name)).cloned();
                let (from, to) = (of(old), of(new));
                let told = match kind {
                    ChangeKind::Changed => from != to,
                    _ => {
                        entry.names_it(key.name) || entry.values.get(key.name).cloned() != of(usual)
                    }
                };
                if told && from != to {
                    changes.push(Change {
                        key: format!("{prefix}.{}", key.name),
                        kind,
                        before: from.unwrap_or_default(),
                        after: to.unwrap_or_default(),
                        restart: key.restart,
                    });
                }
            }
        }
        changes
    }
}

const fn kind(old: Option<&Entry>, new: Option<&Entry>) -> ChangeKind {
    match (old.is_some(), new.is_some()) {
        (false, _) => ChangeKind::New,
        (_, false) => ChangeKind::Gone,
        _ => ChangeKind::Changed,
    }
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

    #[test]
    fn each_entry_of_several_is_told_by_itself() {
        let parse = |text: &str| Config::parse(text, "m").unwrap();
        let before = parse(
            "[[gpu]]\nnodes = [\"n1\"]\nmode = \"shared\"\n[[gpu]]\nnodes = [\"n2\"]\nindices = \"0-1\"\n\
             [[qos]]\nname = \"old\"\npriority = 3\n",
        );
        let after = parse(
            "[[gpu]]\nnodes = [\"n1\"]\nmode = \"mig\"\n[[gpu]]\nnodes = [\"n2\"]\nindices = \"0-1\"\n\
             [[gpu]]\nnodes = [\"n3\"]\nmode = \"shared\"\n",
        );
        let told: Vec<String> = before
            .changes_to(&after)
            .iter()
            .map(|c| format!("{:?} {} {} {}", c.kind, c.key, c.before, c.after))
            .collect();
        assert_eq!(
            told,
            [
                "Changed gpu.n1.mode \"shared\" \"mig\"",
                "New gpu.n3.nodes  [\"n3\"]",
                "New gpu.n3.mode  \"shared\"",
                "Gone qos.old.name \"old\" ",
                "Gone qos.old.priority 3 ",
            ]
        );
        let twice = parse("[[gpu]]\n[[gpu]]\nmode = \"mig\"\n");
        let keys: Vec<String> = twice.settings().into_iter().map(|s| s.key).collect();
        assert!(keys.contains(&"gpu.all.mode".to_owned()), "{keys:?}");
        assert!(keys.contains(&"gpu.all#2.mode".to_owned()), "{keys:?}");
    }
}
