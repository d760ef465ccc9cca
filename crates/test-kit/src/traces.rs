//! Public workloads, which tests use where they are and never carry along.

use std::path::{Path, PathBuf};

/// A file of the public workloads, by its path below their folder: that of `MUSTER_TRACES`, or
/// `shared/traces` beside the project. Where it is not there, standard error says that it was
/// skipped.
pub fn trace(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let given = std::env::var_os("MUSTER_TRACES").map(PathBuf::from);
    let beside = [root.join("../shared/traces"), root.join("../../shared/traces")];
    let mut places = given.into_iter().chain(beside).map(|folder| folder.join(name));
    let found = places.find(|file| file.exists());
    if found.is_none() {
        eprintln!("skipped: {name} is not in ../shared/traces (or MUSTER_TRACES)");
    }
    found
}
