//! The configuration in force as text, each value with where it comes from.

use crate::read::{Text, span_of};
use crate::{Config, Source};
use std::fmt::Write as _;
use toml::de::DeTable;

impl Config {
    /// The whole configuration as TOML. With `origin`, behind each value `# FILE:LINE` or
    /// `# default`.
    pub fn show(&self, source: &Source, text: Option<&str>, origin: bool) -> String {
        let name = source.path.to_string_lossy();
        let parsed = text.and_then(|t| DeTable::parse(t).ok());
        let place = |section: &str, index: usize, key: &str| -> String {
            let found = parsed.as_ref().and_then(|table| {
                let whole = span_of(table.get_ref(), section, index, "")?;
                let at = span_of(table.get_ref(), section, index, key)?;
                (at != whole).then_some(at)
            });
            match (found, text) {
                (Some(at), Some(text)) => {
                    let (line, _) = Text { name: &name, text }.line_column(at.start);
                    format!("{name}:{line}")
                }
                _ => "default".to_owned(),
            }
        };
        let Ok(toml::Value::Table(all)) = toml::Value::try_from(self) else { return String::new() };
        let mut out = String::new();
        for section in Self::SECTIONS {
            let tables: Vec<&toml::Table> = match all.get(section.name) {
                Some(toml::Value::Table(table)) => vec![table],
                Some(toml::Value::Array(items)) => {
                    items.iter().filter_map(toml::Value::as_table).collect()
                }
                _ => Vec::new(),
            };
            for (index, table) in tables.into_iter().enumerate() {
                let brackets = if section.many { ("[[", "]]") } else { ("[", "]") };
                // Writing to a string cannot fail.
                let _ = writeln!(out, "{}{}{}", brackets.0, section.name, brackets.1);
                for key in section.keys {
                    let line = match table.get(key.name) {
                        Some(value) => format!("{} = {value}", key.name),
                        None => format!("# {} is not set", key.name),
                    };
                    let mark = if origin && !line.starts_with('#') {
                        format!("  # {}", place(section.name, index, key.name))
                    } else {
                        String::new()
                    };
                    let _ = writeln!(out, "{line}{mark}");
                }
                out.push('\n');
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_its_origin_and_the_text_reads_back() {
        let text = "[policy]\nkill_wait = \"5s\"\n[[qos]]\nname = \"high\"\n";
        let config = Config::parse(text, "m.toml").unwrap();
        let source = Source { path: "m.toml".into(), origin: "--config", optional: false };
        let shown = config.show(&source, Some(text), true);
        assert!(shown.contains("kill_wait = \"5s\"  # m.toml:2\n"), "{shown}");
        assert!(shown.contains("backfill = \"easy\"  # default\n"), "{shown}");
        assert!(shown.contains("name = \"high\"  # m.toml:4\n"), "{shown}");
        assert_eq!(Config::parse(&shown, "again").unwrap(), config);
    }
}
