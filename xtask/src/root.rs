//! Where the workspace lies and which files belong to it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace's top folder.
pub(crate) fn dir() -> PathBuf {
    // xtask/ lies directly under it.
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Cargo's build folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| dir().join("target"), PathBuf::from)
}

/// Every file that is or would be committed, relative to the top, sorted.
///
/// # Errors
/// `git` cannot be run here.
pub(crate) fn files() -> Result<Vec<PathBuf>, String> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(dir())
        .output()
        .map_err(|error| format!("git ls-files: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let mut files: Vec<PathBuf> = String::from_utf8_lossy(&output.stdout)
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .filter(|name| dir().join(name).is_file())
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}
