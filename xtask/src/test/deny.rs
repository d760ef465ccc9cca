//! cargo-deny: licences, bans and sources always; advisories where their database is in reach.

use std::path::PathBuf;

use super::Options;
use crate::stage::{Outcome, Report, Skip};
use crate::{need, root, sh};

/// The version whose configuration `deny.toml` is written for.
const VERSION: &str = "0.20.2";
const FETCH_LIMIT_S: &str = "60";

/// Checks the dependency tree against `deny.toml`.
pub(super) fn checks(options: &Options, report: &mut Report) {
    let tool = match find(options) {
        Ok(tool) => tool,
        Err(skip) => {
            report.check("licences, bans, sources, advisories", || Err(skip.into()));
            return;
        }
    };
    report.check("licences, bans, sources", || {
        let mut deny = sh::command(&tool);
        deny.args(["--locked", "check", "licenses", "bans", "sources"]);
        sh::run(&mut deny)?;
        Ok(String::new())
    });
    report.check("advisories", || advisories(&tool));
}

fn find(options: &Options) -> Result<PathBuf, Skip> {
    if let Some(path) = need::which("cargo-deny") {
        return Ok(path);
    }
    let tools = root::target().join("tools");
    let path = tools.join("bin/cargo-deny");
    if path.is_file() {
        return Ok(path);
    }
    if !options.long && !sh::in_ci() {
        let reason = format!("cargo-deny {VERSION} is not installed; --long builds it (minutes)");
        return Err(Skip::unavoidable(reason));
    }
    let mut install = sh::cargo(&["install", "cargo-deny", "--locked", "--version", VERSION]);
    // Quick to build rather than quick to run: it is used for seconds.
    install.args(["--config", "profile.release.opt-level=1"]);
    install.args(["--config", "profile.release.lto=\"off\""]);
    install.arg("--root").arg(&tools).arg("--target-dir").arg(tools.join("build"));
    sh::run(&mut install).map_err(Skip::avoidable)?;
    Ok(path)
}

fn advisories(tool: &std::path::Path) -> Outcome {
    let mut fetch = sh::command("timeout");
    fetch.arg(FETCH_LIMIT_S).arg(tool).args(["fetch", "db"]);
    if sh::read(&mut fetch).is_err() {
        let reason = "the advisory database (a git host) cannot be reached from here";
        return Err(Skip::unavoidable(reason).into());
    }
    let mut deny = sh::command(tool);
    deny.args(["--locked", "check", "advisories"]);
    sh::run(&mut deny)?;
    Ok(String::new())
}
