//! Which layer may use which crates from outside.

use std::collections::{BTreeMap, BTreeSet};

use crate::metadata::{Kind, Member, linked, members};

/// Crates that decide: same input, same bytes, no way to the outside world.
pub(super) const PURE: &[&str] = &["model", "planner", "plan-check", "scenario", "slurm-syntax"];

/// Everything that a pure crate may name outside its tests. A new one is a decision: it must
/// read no clock, no file and no network, and iterate nothing in hash order.
const PURE_MAY_NAME: &[(&str, &[&str])] = &[
    ("model", &["serde", "serde_json", "thiserror", "imbl", "strsim"]),
    // imbl: persistent maps whose order is that of their keys (OrdMap only).
    ("planner", &["imbl"]),
    ("plan-check", &[]),
    ("scenario", &["thiserror"]),
    // jiff for calendar arithmetic only; its clock is barred by the crate's clippy.toml.
    ("slurm-syntax", &["jiff", "shell-words", "thiserror", "serde"]),
];

/// What no pure crate may link, however far away: runtimes, sockets, random sources, stores.
const NEVER_IN_PURE: &[&str] = &[
    "tokio",
    "async-std",
    "smol",
    "mio",
    "polling",
    "socket2",
    "hyper",
    "reqwest",
    "axum",
    "rand",
    "getrandom",
    "fastrand",
    "rusqlite",
    "sqlx",
    "nix",
    "rustix",
    "libc",
    "tempfile",
    "chrono",
    "rayon",
    "crossbeam-channel",
    "tracing",
];

/// Crates that have one home.
const HOMES: &[(&str, &[&str])] = &[
    ("rusqlite", &["store"]),
    ("sqlx", &["store"]),
    ("tokio-postgres", &["store"]),
    ("cel", &["devices"]),
    ("hyper-rustls", &["exporter"]),
    ("opentelemetry-proto", &["exporter"]),
    ("kube", &["engine-k8s"]),
    ("k8s-openapi", &["engine-k8s"]),
    ("axum", &["daemon"]),
    ("crc32fast", &["daemon"]),
    ("flate2", &["sim"]),
    ("parquet", &["sim"]),
    ("tower", &["daemon"]),
    ("nvml-wrapper", &["node-metrics"]),
    ("roxmltree", &["node-metrics"]),
    ("netlink-packet-core", &["node-metrics"]),
    ("netlink-sys", &["node-metrics"]),
    ("ratatui", &["top"]),
    ("clap_complete", &["cli"]),
    ("clap_mangen", &["cli"]),
    ("imbl", &["model", "planner"]),
];

/// The breaches of the rules above in this workspace.
///
/// # Errors
/// `cargo metadata` cannot be read.
pub(super) fn violations() -> Result<Vec<String>, String> {
    let members = members()?;
    let mut found = named(&members);
    found.extend(reached(&linked()?));
    Ok(found)
}

fn named(members: &BTreeMap<String, Member>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, member) in members {
        let pure = PURE_MAY_NAME.iter().find(|(pure, _)| pure == name);
        for (kind, outside) in &member.outside {
            let home = HOMES.iter().find(|(homed, _)| homed == outside);
            if home.is_some_and(|(_, homes)| !homes.contains(&name.as_str())) {
                found.push(format!("crate {name} names {outside}, whose home is elsewhere"));
            }
            let allowed = pure.is_none_or(|(_, may)| may.contains(&outside.as_str()));
            if *kind == Kind::Normal && !allowed {
                found.push(format!("pure crate {name} names {outside}, which its list lacks"));
            }
        }
    }
    found
}

fn reached(linked: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut found = Vec::new();
    for name in PURE {
        let Some(crates) = linked.get(*name) else { continue };
        for banned in NEVER_IN_PURE.iter().filter(|banned| crates.contains(**banned)) {
            found.push(format!("pure crate {name} links {banned}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::{Kind, Member, named, reached, violations};

    #[test]
    fn this_workspace_keeps_outside_crates_in_their_layer() {
        let found = violations().expect("cargo metadata");
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    fn one(name: &str, kind: Kind, outside: &str) -> BTreeMap<String, Member> {
        let member =
            Member { ours: BTreeSet::new(), outside: BTreeSet::from([(kind, outside.to_owned())]) };
        BTreeMap::from([(name.to_owned(), member)])
    }

    #[test]
    fn sql_has_one_home() {
        assert_eq!(named(&one("daemon", Kind::Normal, "rusqlite")).len(), 1);
        assert!(named(&one("store", Kind::Normal, "rusqlite")).is_empty());
    }

    #[test]
    fn a_pure_crate_names_only_what_its_list_has() {
        assert_eq!(named(&one("planner", Kind::Normal, "ahash")).len(), 1);
        assert!(named(&one("planner", Kind::Dev, "proptest")).is_empty());
    }

    #[test]
    fn a_runtime_is_found_however_far_away() {
        let links = BTreeSet::from(["serde".to_owned(), "tokio".to_owned()]);
        let found = reached(&BTreeMap::from([("model".to_owned(), links)]));
        assert_eq!(found, ["pure crate model links tokio"]);
    }
}
