//! The programs of the bed, built from the Go module in `xtask/k8s/bed` and kept.
//!
//! The control plane takes minutes to build, so what was built stays in the build folder, named by
//! what it was built from.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use crate::{need, root, sh};

/// Where the module lies, below the workspace's top.
const MODULE: &str = "xtask/k8s/bed";

/// Its programs, each a folder of the module.
const PROGRAMS: [&str; 3] = ["kubeall", "player", "filters"];

/// In CI the build may take so long; nine minutes were the most on two cores.
const LIMIT_S: u32 = 1800;

/// The built programs.
pub(crate) struct Programs {
    dir: PathBuf,
}

impl Programs {
    /// Builds those of which this work tree has none.
    ///
    /// # Errors
    /// No Go that is new enough, or the build fails.
    pub(crate) fn build() -> Result<Self, String> {
        let programs = Self { dir: root::target().join("k8s-bed-bin").join(version()) };
        let absent: Vec<&str> =
            PROGRAMS.into_iter().filter(|name| !programs.path(name).is_file()).collect();
        if absent.is_empty() {
            return Ok(programs);
        }
        need::find("go", need::minimum("go"))
            .map_err(|reason| format!("{reason}, and Kubernetes {} is built with it", version()))?;
        std::fs::create_dir_all(&programs.dir)
            .map_err(|error| format!("{}: {error}", programs.dir.display()))?;
        sh::run(&mut sh::bounded(go_build(&programs.dir, &absent), LIMIT_S))?;
        absent.iter().try_for_each(|name| programs.keep(name))?;
        Ok(programs)
    }

    /// Where one of them lies: its name has what it was built from.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}-{:016x}", sources(name)))
    }

    /// Gives a program that was just built its lasting name, and removes those before it.
    fn keep(&self, name: &str) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.dir.display());
        let before = format!("{name}-");
        for entry in std::fs::read_dir(&self.dir).map_err(failed)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&before) {
                std::fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        std::fs::rename(self.dir.join(name), self.path(name)).map_err(failed)
    }
}

/// The version of Kubernetes that the module takes.
pub(crate) fn version() -> &'static str {
    let module = include_str!("../../k8s/bed/go.mod");
    let named = module.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v"));
    named.unwrap_or_default()
}

/// Builds these programs into `dir`, with the caches of Go where they are.
fn go_build(dir: &Path, names: &[&str]) -> std::process::Command {
    let mut parts = version().split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let set = "-X k8s.io/component-base/version";
    // Without these it works too, but calls itself v0.0.0.
    let flags = format!(
        "-s -w {set}.gitVersion=v{} {set}.gitMajor={major} {set}.gitMinor={minor}",
        version()
    );
    let mut go = sh::command("go");
    go.current_dir(root::dir().join(MODULE)).env("CGO_ENABLED", "0");
    go.args(["build", "-trimpath", "-buildvcs=false", "-ldflags", &flags, "-o"]).arg(dir);
    // A folder that is there takes every program under its own name.
    go.args(names.iter().map(|name| format!("./{name}")));
    go
}

/// A fingerprint of what the program is made from.
fn sources(name: &str) -> u64 {
    let module = root::dir().join(MODULE);
    let mut files = vec![module.join("go.mod"), module.join("go.sum")];
    let inside = std::fs::read_dir(module.join(name)).into_iter().flatten().flatten();
    files.extend(inside.map(|entry| entry.path()));
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.file_name().hash(&mut hasher);
        std::fs::read(&file).unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::{MODULE, PROGRAMS, sources, version};

    #[test]
    fn the_module_names_a_version() {
        assert_eq!(version().split('.').count(), 3, "{}", version());
    }

    #[test]
    fn every_program_is_a_folder_of_the_module() {
        for name in PROGRAMS {
            assert!(crate::root::dir().join(MODULE).join(name).join("main.go").is_file(), "{name}");
        }
        assert_ne!(sources(PROGRAMS[0]), sources(PROGRAMS[1]));
    }
}
