//! Running other programs: shown before they run, bounded in time where nobody watches.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

/// True where a service and no person reads the output.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true" || value == "1")
}

/// A command in the workspace's top folder, without standard input.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(crate::root::dir()).stdin(Stdio::null());
    command
}

/// The cargo that runs this, so that a toolchain override holds.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut cargo = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(args);
    cargo
}

/// Shows and runs a command, its output passed through.
///
/// # Errors
/// It cannot be started, or ends with another status than 0.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let line = render(command);
    println!("$ {line}");
    let status = command.status().map_err(|error| format!("{line}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{line}: {status}")) }
}

/// Runs a command and returns what it printed to standard output.
///
/// # Errors
/// It cannot be started, or ends with another status than 0; with what it said on standard error.
pub(crate) fn read(command: &mut Command) -> Result<String, String> {
    let line = render(command);
    let output = command.output().map_err(|error| format!("{line}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{line}: {}: {}", output.status, said.trim()))
}

/// Bounds a command to `limit_s` seconds where nobody could interrupt it (in CI).
pub(crate) fn bounded(command: Command, limit_s: u32) -> Command {
    if !in_ci() {
        return command;
    }
    let mut outer = Command::new("timeout");
    outer.args(["-k", "30", &limit_s.to_string()]);
    outer.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer.current_dir(command.get_current_dir().unwrap_or(Path::new("."))).stdin(Stdio::null());
    outer
}

/// The command as a person would type it.
pub(crate) fn render(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        // Where a command finds its daemon says nothing to the reader.
        let plumbing = name == "PATH" || name == "MUSTER_SOCKET" || name == "MUSTER_STATE";
        if let Some(value) = value.filter(|_| !plumbing) {
            words.push(format!("{}={}", name.to_string_lossy(), value.to_string_lossy()));
        }
    }
    // Nor does the full path of cargo.
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let shown = if name == "cargo" || name == "muster" { name } else { program.as_os_str() };
    words.push(shown.to_string_lossy().into_owned());
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    shell_words::join(words)
}
