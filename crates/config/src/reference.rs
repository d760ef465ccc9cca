//! The reference page, made from the table of keys.

use crate::Config;
use std::fmt::Write as _;

const HEAD: &str = "# Configuration

<!-- Made from the types in crates/config; a test compares. -->

One TOML file. `--config`, else `MUSTER_CONFIG`, else `/etc/muster/muster.toml` for root and
`$XDG_CONFIG_HOME/muster/muster.toml` for others; without a file everything has its default.
`muster config check` says what is wrong with a file, and what in it contradicts something else, with
line and column, without starting anything; `muster config show --origin` says what is in force and where it comes from;
`muster config reload` takes a changed file over without losing anything, and names the keys that
need a new start.

Durations are `90s`, `30m`, `12h`, `7d`; sizes are `512M`, `80G`, `1T` (powers of 1024).
";

/// `docs/reference/configuration.md`.
pub fn reference_page() -> String {
    let defaults = Config::one_of_each();
    let all = toml::Value::try_from(&defaults).unwrap_or(toml::Value::Boolean(false));
    let mut page = HEAD.to_owned();
    for section in Config::SECTIONS {
        let brackets = if section.many { ("[[", "]]") } else { ("[", "]") };
        // Writing to a string cannot fail.
        let _ = write!(
            page,
            "\n## `{}{}{}`\n\n{}\n\n| key | value | default | what it does |\n| --- | --- | --- | --- |\n",
            brackets.0,
            section.name,
            brackets.1,
            section.text()
        );
        let table =
            all.get(section.name).and_then(|v| if section.many { v.get(0) } else { Some(v) });
        for key in section.keys {
            let default = table.and_then(|t| t.get(key.name)).map(ToString::to_string);
            let default = match default {
                Some(_) if key.kind.contains("required") => "none".to_owned(),
                Some(value) => format!("`{value}`"),
                None => "none".to_owned(),
            };
            let restart = if key.restart { " Needs a new start." } else { "" };
            let _ = writeln!(
                page,
                "| `{}` | {} | {default} | {}{restart} |",
                key.name,
                key.kind,
                key.text()
            );
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn the_page_in_the_docs_is_this_one() {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
        if std::env::var_os("MUSTER_BLESS").is_some() {
            std::fs::write(&path, reference_page()).unwrap();
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(there == reference_page(), "stale: run the test again with MUSTER_BLESS=1");
    }

    #[test]
    fn every_key_is_documented() {
        for section in Config::SECTIONS {
            assert!(!section.text().is_empty(), "{}", section.name);
            let names: BTreeSet<_> = section.keys.iter().map(|k| k.name).collect();
            assert_eq!(names.len(), section.keys.len());
            for key in section.keys {
                assert!(key.text().ends_with('.'), "{}.{}", section.name, key.name);
            }
        }
    }
}
