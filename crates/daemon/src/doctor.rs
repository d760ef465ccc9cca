//! What this machine has and lacks.

use nix::unistd::geteuid;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// How a thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Standing {
    /// There, and used.
    Has,
    /// Not there; something is then not done.
    Lacks,
    /// Worth knowing.
    Note,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What.
    pub(crate) name: &'static str,
    /// How it stands.
    pub(crate) standing: Standing,
    /// A sentence.
    pub(crate) text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<&'static str>,
}

/// Looks at this machine. Changes nothing.
pub(crate) fn look(state_dir: Option<&Path>) -> Vec<Finding> {
    let mut findings = vec![
        user(),
        machine(),
        cgroups(),
        gpus(),
        tool("python3", "python3", "--version", "examples and the demo need it"),
        tool("mpirun", "mpirun", "--version", "jobs of Open MPI need it"),
        tool("git", "git", "--version", "only the developers' tests need it"),
    ];
    findings.extend(state_dir.map(state));
    findings
}

/// The findings as text or JSON.
pub(crate) fn report(json: bool) -> String {
    let findings = look(None);
    if json {
        let text = serde_json::to_string_pretty(&findings);
        return text.unwrap_or_default() + "\n";
    }
    let mut out = String::new();
    for finding in findings {
        let mark = match finding.standing {
            Standing::Has => "has  ",
            Standing::Lacks => "lacks",
            Standing::Note => "note ",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{mark} {:<10} {}", finding.name, finding.text);
        if let Some(hint) = finding.hint {
            let _ = writeln!(out, "      {:<10} hint: {hint}", "");
        }
    }
    out
}

fn has(name: &'static str, text: String) -> Finding {
    Finding { name, standing: Standing::Has, text, hint: None }
}

/// Something that the engine cannot enforce here.
pub(crate) fn unenforced(note: &str) -> Finding {
    Finding { name: "limits", standing: Standing::Lacks, text: note.to_owned(), hint: None }
}

fn user() -> Finding {
    if geteuid().is_root() {
        return has("user", "root: jobs of all users run as their users".to_owned());
    }
    Finding {
        name: "user",
        standing: Standing::Note,
        text: format!("uid {}: only this user's own jobs can be run", geteuid()),
        hint: Some("start the daemon as root to serve all users"),
    }
}

fn machine() -> Finding {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory.lines().find_map(|line| {
        line.strip_prefix("MemTotal:")?.trim().split(' ').next()?.parse::<u64>().ok()
    });
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mib = kib.unwrap_or(0) / 1024;
    has("machine", format!("{cpus} CPUs, {mib} MiB of memory, Linux {}", kernel.trim()))
}

fn cgroups() -> Finding {
    let root = Path::new("/sys/fs/cgroup");
    if let Ok(controllers) = std::fs::read_to_string(root.join("cgroup.controllers")) {
        return writable("v2", root, controllers.trim());
    }
    if root.join("freezer").is_dir() {
        let names = ["cpuset", "memory", "devices", "pids", "freezer"];
        let there: Vec<&str> = names.into_iter().filter(|n| root.join(n).is_dir()).collect();
        return writable("v1", &root.join("freezer"), &there.join(" "));
    }
    Finding {
        name: "cgroups",
        standing: Standing::Lacks,
        text: "none: CPU, memory and GPU limits are not enforced".to_owned(),
        hint: Some("jobs are still ended whole, by process groups and /proc"),
    }
}

fn writable(version: &str, dir: &Path, controllers: &str) -> Finding {
    let may = nix::unistd::access(dir, nix::unistd::AccessFlags::W_OK).is_ok();
    let text = format!("{version} with {controllers}");
    if may {
        return has("cgroups", text);
    }
    Finding {
        name: "cgroups",
        standing: Standing::Lacks,
        text: format!("{text}, but this user may not make any: limits are not enforced"),
        hint: Some("start the daemon as root, or in a delegated cgroup (systemd Delegate=yes)"),
    }
}

fn gpus() -> Finding {
    let cards = std::fs::read_dir("/proc/driver/nvidia/gpus").map_or(0, Iterator::count);
    if cards > 0 {
        return has("gpus", format!("{cards} of NVIDIA"));
    }
    Finding {
        name: "gpus",
        standing: Standing::Lacks,
        text: "none that the NVIDIA driver knows".to_owned(),
        hint: Some("`muster up --practice 4x8` invents some, to learn and to test with"),
    }
}

fn tool(name: &'static str, program: &str, flag: &str, why: &'static str) -> Finding {
    let ran = Command::new(program).arg(flag).stdin(Stdio::null()).output();
    let first = ran.ok().filter(|out| out.status.success()).map(|out| {
        String::from_utf8_lossy(&out.stdout).lines().next().unwrap_or_default().to_owned()
    });
    match first {
        Some(version) => has(name, version),
        None => Finding {
            name,
            standing: Standing::Lacks,
            text: format!("no {program} in PATH"),
            hint: Some(why),
        },
    }
}

fn state(dir: &Path) -> Finding {
    let may = nix::unistd::access(dir, nix::unistd::AccessFlags::W_OK).is_ok();
    let text = dir.to_string_lossy().into_owned();
    if may {
        return has("state", text);
    }
    Finding {
        name: "state",
        standing: Standing::Lacks,
        text: format!("{text} cannot be written"),
        hint: Some("see who owns it and whether its file system is mounted read-only"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_is_a_sentence() {
        let text = report(false);
        assert!(text.lines().count() >= 6, "{text}");
        assert!(serde_json::from_str::<serde_json::Value>(&report(true)).is_ok());
    }
}
