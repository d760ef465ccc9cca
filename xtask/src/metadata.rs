//! The workspace's crates and what each depends on, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::sh;

/// What a dependency is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Linked into the product, or run to build it.
    Normal,
    /// Only in tests, examples and benches.
    Dev,
}

/// One crate of the workspace.
#[derive(Debug, Default, Clone)]
pub(crate) struct Member {
    /// Other crates of the workspace that it names, without the `muster-` prefix.
    pub(crate) ours: BTreeSet<(Kind, String)>,
    /// Crates from outside that it names.
    pub(crate) outside: BTreeSet<(Kind, String)>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Option<Resolve>,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    path: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<NodeDep>,
}

#[derive(Deserialize)]
struct NodeDep {
    pkg: String,
    dep_kinds: Vec<DepKind>,
}

#[derive(Deserialize)]
struct DepKind {
    kind: Option<String>,
}

/// The name used in the arrow tables: without `muster-`.
pub(crate) fn short(name: &str) -> &str {
    name.strip_prefix("muster-").unwrap_or(name)
}

/// The crates of the workspace by short name.
///
/// # Errors
/// `cargo metadata` fails or prints something else than expected.
pub(crate) fn members() -> Result<BTreeMap<String, Member>, String> {
    let metadata = load(&["metadata", "--format-version=1", "--no-deps"])?;
    let mut members = BTreeMap::new();
    for package in metadata.packages {
        let mut member = Member::default();
        for dependency in package.dependencies {
            let kind =
                if dependency.kind.as_deref() == Some("dev") { Kind::Dev } else { Kind::Normal };
            if dependency.path.is_some() {
                member.ours.insert((kind, short(&dependency.name).to_owned()));
            } else {
                member.outside.insert((kind, dependency.name));
            }
        }
        members.insert(short(&package.name).to_owned(), member);
    }
    Ok(members)
}

/// For each crate of the workspace, every outside crate that it links, directly or not.
///
/// # Errors
/// As for [`members`].
pub(crate) fn linked() -> Result<BTreeMap<String, BTreeSet<String>>, String> {
    let metadata =
        load(&["metadata", "--format-version=1", "--filter-platform=x86_64-unknown-linux-gnu"])?;
    let resolve = metadata.resolve.ok_or("cargo metadata printed no dependency graph")?;
    let names: BTreeMap<&str, &str> =
        metadata.packages.iter().map(|p| (p.id.as_str(), p.name.as_str())).collect();
    let arrows: BTreeMap<&str, Vec<&str>> = resolve
        .nodes
        .iter()
        .map(|node| {
            let linked =
                node.deps.iter().filter(|dep| dep.dep_kinds.iter().any(|k| k.kind.is_none()));
            (node.id.as_str(), linked.map(|dep| dep.pkg.as_str()).collect())
        })
        .collect();
    let mut result = BTreeMap::new();
    for member in &metadata.workspace_members {
        let mut seen = BTreeSet::new();
        let mut stack = vec![member.as_str()];
        while let Some(id) = stack.pop() {
            if seen.insert(id) {
                stack.extend(arrows.get(id).into_iter().flatten());
            }
        }
        let name = |id: &&str| names.get(id).copied().map(str::to_owned);
        let own = name(&member.as_str()).unwrap_or_default();
        result.insert(short(&own).to_owned(), seen.iter().filter_map(name).collect());
    }
    Ok(result)
}

fn load(args: &[&str]) -> Result<Metadata, String> {
    let text = sh::read(&mut sh::cargo(args))?;
    serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))
}
