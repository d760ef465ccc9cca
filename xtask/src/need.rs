//! Outside tools: looked for, checked against a least version, installed from Debian where
//! that is allowed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::sh;
use crate::stage::Skip;

/// The least version that each outside tool must have; an older one counts as absent.
///
/// Documented in `docs/operations/requirements.md`; a test compares the two.
pub(crate) const MINIMUM: &[(&str, &str)] =
    &[("python3", "3.9"), ("node", "18"), ("go", "1.26"), ("java", "17")];

/// A tool that is there and new enough.
#[derive(Debug, Clone)]
pub(crate) struct Tool {
    /// Where it lies.
    pub(crate) path: PathBuf,
    /// What it calls itself; empty where no version was asked for.
    pub(crate) version: String,
}

/// Finds `command`, at least of version `version` ("" = any), or installs the Debian `package`.
///
/// # Errors
/// It is not there and could not be installed: the reason as a skip.
pub(crate) fn need(package: &str, command: &str, version: &str) -> Result<Tool, Skip> {
    let before = match find(command, version) {
        Ok(tool) => return Ok(tool),
        Err(reason) => reason,
    };
    if package.is_empty() {
        return Err(Skip::avoidable(before));
    }
    install(&[package]).map_err(|reason| Skip::avoidable(format!("{before}; {reason}")))?;
    find(command, version)
        .map_err(|reason| Skip::avoidable(format!("{reason} (Debian's {package} is installed)")))
}

/// The least version of a tool named in [`MINIMUM`].
pub(crate) fn minimum(command: &str) -> &'static str {
    MINIMUM.iter().find(|(name, _)| *name == command).map_or("", |(_, version)| version)
}

/// Finds `command` in PATH and compares its version.
///
/// # Errors
/// A sentence that says what is missing or too old.
pub(crate) fn find(command: &str, version: &str) -> Result<Tool, String> {
    let path = which(command).ok_or_else(|| format!("{command} is not installed"))?;
    if version.is_empty() {
        return Ok(Tool { path, version: String::new() });
    }
    let said = said_version(&path, command);
    let Some(found) = said.as_deref().and_then(first_version) else {
        return Err(format!("{command} does not tell its version"));
    };
    let wanted = first_version(version).unwrap_or_default();
    if found < wanted {
        let found = found.iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
        return Err(format!("{command} {found} is too old: {version} or newer is needed"));
    }
    let version = found.iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
    Ok(Tool { path, version })
}

/// Whether this run has refreshed Debian's package lists.
static UPDATED: OnceLock<Result<(), String>> = OnceLock::new();

/// Installs Debian packages, as root only; the package lists are refreshed once a run.
///
/// # Errors
/// Not root, not Debian, or apt-get failed: a sentence for the reader.
pub(crate) fn install(packages: &[&str]) -> Result<(), String> {
    if !is_root() {
        return Err(format!("not root, so {} was not installed", packages.join(" ")));
    }
    if which("apt-get").is_none() {
        return Err("no apt-get here".to_owned());
    }
    UPDATED.get_or_init(|| apt(&["update", "-qq"])).clone()?;
    let mut args = vec!["install", "-y", "-qq", "--no-install-recommends"];
    args.extend(packages);
    apt(&args)
}

fn apt(args: &[&str]) -> Result<(), String> {
    let mut apt = sh::command("apt-get");
    apt.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    sh::read(&mut apt).map(drop)
}

/// True for the superuser.
pub(crate) fn is_root() -> bool {
    // The owner of our own /proc entry is the effective user.
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}

/// The first executable of that name in PATH.
pub(crate) fn which(command: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(command)).find(|file| {
        file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    })
}

fn said_version(path: &Path, command: &str) -> Option<String> {
    let flag = if command == "go" { "version" } else { "--version" };
    let output = Command::new(path).arg(flag).output().ok()?;
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    output.status.success().then_some(said)
}

/// The first run of digits with dots in a text: `go1.26.1` and `Python 3.11.7` alike.
fn first_version(text: &str) -> Option<Vec<u32>> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let digits: String =
        text[start..].chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    digits.trim_matches('.').split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::{MINIMUM, find, first_version, need};

    #[test]
    fn the_book_names_the_same_versions() {
        let page = crate::root::dir().join("docs/operations/requirements.md");
        let text = std::fs::read_to_string(page).expect("requirements.md");
        for (command, version) in MINIMUM {
            let name = if *command == "python3" { "Python 3" } else { *command };
            let named = text.lines().any(|line| {
                line.to_lowercase().contains(&name.to_lowercase())
                    && line.ends_with(&format!("| {version} |"))
            });
            assert!(named, "requirements.md does not name {command} {version}");
        }
    }

    #[test]
    fn reads_versions_as_tools_print_them() {
        assert_eq!(first_version("Python 3.11.7"), Some(vec![3, 11, 7]));
        assert_eq!(first_version("go version go1.26.1 linux/amd64"), Some(vec![1, 26, 1]));
        assert_eq!(first_version("v18.20.4"), Some(vec![18, 20, 4]));
        assert_eq!(first_version("none"), None);
    }

    #[test]
    fn three_nine_is_older_than_three_eleven() {
        assert!(first_version("3.9") < first_version("3.11"));
    }

    #[test]
    fn an_older_tool_counts_as_absent() {
        let Err(reason) = find("git", "999.1") else { panic!("git 999.1 cannot exist") };
        assert!(reason.contains("too old: 999.1 or newer"), "{reason}");
    }

    #[test]
    fn an_absent_tool_without_a_package_is_a_skip() {
        assert!(need("", "no-such-tool-anywhere", "").is_err());
    }
}
