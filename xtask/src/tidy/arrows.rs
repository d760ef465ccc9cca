//! Which crate of ours may see which: the table of ARCHITECTURE.md, compared both ways.
//!
//! A dependency that the table lacks fails, and so does a permission nobody uses.

use std::collections::{BTreeMap, BTreeSet};

use crate::metadata::{Kind, Member, members};

/// Who may depend on whom outside tests.
const ALLOWED: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("node-metrics", &[]),
    ("planner", &["model"]),
    ("plan-check", &["model"]),
    ("recurrence", &["model"]),
    ("scenario", &["model", "slurm-syntax"]),
    ("sim", &["model", "planner", "plan-check", "scenario"]),
    ("slurm-syntax", &["model"]),
    ("store", &["model"]),
    ("engine", &["model"]),
    ("api", &["model"]),
    ("config", &["model", "recurrence", "slurm-syntax"]),
    ("control", &["model", "planner", "plan-check", "recurrence", "store", "engine"]),
    ("engine-local", &["model", "engine", "node-metrics", "api"]),
    ("engine-slurm", &["model", "slurm-syntax", "engine"]),
    ("devices", &[]),
    ("engine-k8s", &["model", "slurm-syntax", "engine", "devices"]),
    ("pod-agent", &["model", "engine", "engine-local"]),
    ("pods", &["model", "planner", "plan-check", "engine-k8s"]),
    ("shadow", &["model", "planner", "plan-check", "engine-slurm", "slurm-syntax"]),
    ("drive", &["model", "planner", "plan-check", "engine-slurm", "slurm-syntax"]),
    ("client", &["api", "model"]),
    ("slurm-shim", &["client", "api", "slurm-syntax", "config", "model"]),
    (
        "cli",
        &[
            "client",
            "api",
            "config",
            "slurm-syntax",
            "model",
            "node-metrics",
            "sim",
            "store",
            "engine-slurm",
            "shadow",
            "drive",
            "engine-k8s",
            "pods",
            "pages",
            "web",
            "top",
        ],
    ),
    ("pages", &[]),
    ("web", &["api"]),
    ("top", &["client", "api", "model", "node-metrics"]),
    (
        "daemon",
        &[
            "control",
            "recurrence",
            "store",
            "engine",
            "engine-local",
            "engine-slurm",
            "engine-k8s",
            "api",
            "config",
            "slurm-syntax",
            "model",
            "node-metrics",
            "sim",
            "exporter",
            "diagnosis",
        ],
    ),
    ("diagnosis", &[]),
    ("exporter", &["node-metrics", "pages"]),
    ("muster", &["daemon", "cli", "exporter", "pod-agent", "slurm-shim"]),
    ("test-kit", &["model", "planner", "plan-check", "scenario"]),
    ("bench", &["model", "planner", "plan-check", "engine-slurm"]),
    ("bench-pods", &["engine-k8s", "model", "pods"]),
    ("xtask", &[]),
];

/// What tests may see beside that; not compared the other way.
const ALLOWED_IN_TESTS: &[(&str, &[&str])] = &[
    ("planner", &["plan-check", "scenario", "test-kit"]),
    ("engine-k8s", &["pods", "planner", "plan-check"]),
    ("sim", &["test-kit"]),
    ("control", &["test-kit", "sim"]),
    ("daemon", &["client"]),
    ("muster", &["client", "api", "model", "slurm-syntax", "planner"]),
];

/// The breaches of the arrow rules in this workspace.
///
/// # Errors
/// `cargo metadata` cannot be read.
pub(super) fn violations() -> Result<Vec<String>, String> {
    Ok(compare(&members()?, ALLOWED, ALLOWED_IN_TESTS))
}

type Table<'a> = &'a [(&'a str, &'a [&'a str])];

fn compare(members: &BTreeMap<String, Member>, allowed: Table, in_tests: Table) -> Vec<String> {
    let row = |table: Table, name: &str| -> BTreeSet<String> {
        let row = table.iter().find(|(crate_name, _)| *crate_name == name);
        row.map(|(_, seen)| seen.iter().map(ToString::to_string).collect()).unwrap_or_default()
    };
    let mut found = Vec::new();
    for (name, member) in members {
        if !allowed.iter().any(|(crate_name, _)| crate_name == name) {
            found.push(format!("crate {name} has no row in the arrow table"));
            continue;
        }
        let may = row(allowed, name);
        let may_in_tests = row(in_tests, name);
        for (kind, seen) in &member.ours {
            let fine = may.contains(seen) || (*kind == Kind::Dev && may_in_tests.contains(seen));
            if !fine {
                let place = if *kind == Kind::Dev { "in tests " } else { "" };
                found.push(format!(
                    "crate {name} {place}depends on {seen}, which the table forbids"
                ));
            }
        }
        for seen in may.iter().filter(|seen| members.contains_key(*seen)) {
            if !member.ours.contains(&(Kind::Normal, seen.clone())) {
                found.push(format!("the table lets {name} see {seen}, but nothing uses it"));
            }
        }
    }
    for (name, _) in allowed {
        if !members.contains_key(*name) {
            found.push(format!("the arrow table has a row for {name}, which is no crate here"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{ALLOWED, Kind, Member, compare, violations};

    #[test]
    fn this_workspace_keeps_the_arrow_rules() {
        let found = violations().expect("cargo metadata");
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    /// The table for people says the same as the one above.
    #[test]
    fn architecture_md_has_the_same_table() {
        let text = std::fs::read_to_string(crate::root::dir().join("ARCHITECTURE.md"));
        let text = text.expect("ARCHITECTURE.md");
        for (name, seen) in ALLOWED.iter().filter(|(name, _)| *name != "xtask") {
            let row = text.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
            let row = row.unwrap_or_else(|| panic!("ARCHITECTURE.md has no row for {name}"));
            let cell = row.trim_end_matches(" |").rsplit("| ").next().unwrap_or_default();
            let mut said: Vec<&str> = cell
                .split(", ")
                .map(|word| word.split(" (").next().unwrap_or(word))
                .filter(|word| *word != "nothing")
                .collect();
            said.sort_unstable();
            let mut wanted = seen.to_vec();
            wanted.sort_unstable();
            assert_eq!(said, wanted, "the row of {name}");
        }
    }

    fn workspace(arrows: &[(&str, Kind, &str)]) -> BTreeMap<String, Member> {
        let mut members: BTreeMap<String, Member> = BTreeMap::new();
        for (from, kind, to) in arrows {
            members.entry((*to).to_owned()).or_default();
            let member = members.entry((*from).to_owned()).or_default();
            member.ours.insert((*kind, (*to).to_owned()));
        }
        members
    }

    #[test]
    fn a_forbidden_arrow_is_found() {
        let members = workspace(&[("cli", Kind::Normal, "daemon")]);
        let found = compare(&members, &[("cli", &[]), ("daemon", &[])], &[]);
        assert_eq!(found, ["crate cli depends on daemon, which the table forbids"]);
    }

    #[test]
    fn a_stale_permission_is_found() {
        let members = workspace(&[("cli", Kind::Dev, "daemon")]);
        let found = compare(&members, &[("cli", &["daemon"]), ("daemon", &[])], &[]);
        assert_eq!(found, ["the table lets cli see daemon, but nothing uses it"]);
    }

    #[test]
    fn a_test_arrow_needs_its_own_permission() {
        let members = workspace(&[("planner", Kind::Dev, "plan-check")]);
        let table: &[(&str, &[&str])] = &[("planner", &[]), ("plan-check", &[])];
        assert_eq!(compare(&members, table, &[]).len(), 1);
        assert!(compare(&members, table, &[("planner", &["plan-check"])]).is_empty());
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_found() {
        let members = workspace(&[("cli", Kind::Normal, "daemon")]);
        let found = compare(&members, &[("cli", &["daemon"]), ("gone", &[])], &[]);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
