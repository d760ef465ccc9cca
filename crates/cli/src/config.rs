//! `muster config`: the configuration in force, what is wrong with one, and reading it anew.

use std::fmt::Write as _;
use std::path::Path;

use muster_api::ConfigChange;
use muster_client::Client;
use muster_config::{Problem, Source};
use serde_json::json;

use crate::args::Config;
use crate::say::{self, Failure, Outcome, note, print};

/// What is wrong with a file, and what in it is doubtful. Nodes are those of practice, else those that
/// a running daemon has; users and groups those of this machine.
fn check(file: Option<&Path>, strict: bool, json: bool) -> Outcome {
    let source = Source::find(file);
    let name = source.path.display().to_string();
    let text = source.text().map_err(|error| Failure::new(error.to_string()))?;
    let Some(text) = text else {
        note(&format!("{name}: there is no file; everything has its default"));
        return if json { say::json(&json!({ "file": name, "problems": [] })) } else { Ok(0) };
    };
    let (problems, read) = match muster_config::Config::parse(&text, &name) {
        Ok(config) => (warnings(&config, &text, &name), true),
        Err(error) => (error.problems, false),
    };
    let code = i32::from(!read || (strict && !problems.is_empty()));
    if json {
        let told: Vec<_> = problems.iter().map(told).collect();
        return say::json(&json!({ "file": name, "problems": told })).map(|_| code);
    }
    if !read {
        return Err(Failure::new(muster_config::ConfigError { problems }.to_string()));
    }
    for problem in &problems {
        note(&format!("warning: {problem}"));
    }
    match problems.len() {
        0 => note(&format!("{name}: nothing is wrong")),
        n => note(&format!("{name}: it can be used; {}", say::plural(n as u64, "warning"))),
    }
    Ok(code)
}

fn warnings(config: &muster_config::Config, text: &str, name: &str) -> Vec<Problem> {
    let nodes = match config.practice_nodes() {
        Some(names) => Some(names),
        // Without a daemon nobody knows the nodes, and nothing is said of them.
        None => Client::connect()
            .and_then(|client| client.nodes())
            .ok()
            .map(|nodes| nodes.into_iter().map(|node| node.name).collect()),
    };
    let known = muster_config::Known {
        nodes,
        is_user: Some(&|name| matches!(nix::unistd::User::from_name(name), Ok(Some(_)))),
        is_group: Some(&|name| matches!(nix::unistd::Group::from_name(name), Ok(Some(_)))),
    };
    config.warnings(text, name, &known)
}

fn told(problem: &Problem) -> serde_json::Value {
    json!({
        "code": problem.code,
        "line": problem.line,
        "column": problem.column,
        "message": problem.message,
        "hint": problem.hint,
    })
}

/// What changed, section by section.
fn diff(changes: &[ConfigChange]) -> String {
    let mut out = String::new();
    let mut open = "";
    for change in changes {
        let (entry, key) = change.key.rsplit_once('.').unwrap_or(("", &change.key));
        if entry != open || out.is_empty() {
            open = entry;
            let (section, name) = entry.split_once('.').unwrap_or((entry, ""));
            let many = muster_config::Config::SECTIONS.iter().any(|s| s.name == section && s.many);
            let title = if many { format!("[[{section}]] {name}") } else { format!("[{section}]") };
            let what = match change.kind.as_str() {
                "new" => " (new)",
                "gone" => " (gone)",
                _ => "",
            };
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{title}{what}");
        }
        let _ = match (change.before.as_str(), change.after.as_str()) {
            ("", after) => writeln!(out, "  {key} = {after}"),
            (before, "") if change.kind == "gone" => writeln!(out, "  {key} = {before}"),
            (before, "") => writeln!(out, "  {key}: {before} -> not set"),
            (before, after) => writeln!(out, "  {key}: {before} -> {after}"),
        };
    }
    out
}

/// The file that was named, else the one that a running daemon reads, else the usual one.
fn source(named: Option<&Path>) -> Source {
    let source = Source::find(named);
    if !source.optional {
        return source;
    }
    let ping = Client::connect().and_then(|client| client.ping()).ok();
    match ping.filter(|ping| !ping.config.is_empty()) {
        Some(ping) => Source { path: ping.config.into(), origin: "the running daemon", ..source },
        None => source,
    }
}

/// Runs the command.
pub(crate) fn run(command: Config) -> Outcome {
    let failed = |error: muster_config::ConfigError| Failure::new(error.to_string());
    match command {
        Config::Show { origin, config, json } => {
            let source = source(config.as_deref());
            let read = source.read().map_err(failed)?;
            if json {
                return say::json(&read);
            }
            let text = source.text().map_err(failed)?;
            let from = if text.is_some() {
                source.path.display().to_string()
            } else {
                "defaults; there is no file".to_owned()
            };
            note(&format!("# {from} ({})", source.origin));
            print(&read.show(&source, text.as_deref(), origin));
            Ok(0)
        }
        Config::Check { file, strict, json } => check(file.as_deref(), strict, json),
        Config::Propose(args) => crate::propose::run(&args),
        Config::Reload(args) => {
            let answer = Client::connect()?.reload()?;
            if args.json {
                return say::json(&answer);
            }
            print(&diff(&answer.changes));
            for refused in &answer.refused {
                note(&format!("not yet: {refused}"));
            }
            if answer.changes.is_empty() {
                note("nothing changed");
            }
            if !answer.restart_needed.is_empty() {
                note(&format!(
                    "in force after a new start of the daemon: {}",
                    answer.restart_needed.join(", ")
                ));
            }
            Ok(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_reads_section_by_section() {
        let change = |key: &str, kind: &str, before: &str, after: &str| ConfigChange {
            key: key.into(),
            kind: kind.into(),
            before: before.into(),
            after: after.into(),
        };
        let changes = [
            change("gpu.n1.mode", "changed", "\"shared\"", "\"mig\""),
            change("gpu.n1.reserve", "changed", "\"1G\"", ""),
            change("gpu.n3.nodes", "new", "", "[\"n3\"]"),
            change("policy.kill_wait", "changed", "\"30s\"", "\"5s\""),
            change("qos.old.name", "gone", "\"old\"", ""),
        ];
        assert_eq!(
            diff(&changes),
            "[[gpu]] n1\n  mode: \"shared\" -> \"mig\"\n  reserve: \"1G\" -> not set\n\
             [[gpu]] n3 (new)\n  nodes = [\"n3\"]\n\
             [policy]\n  kill_wait: \"30s\" -> \"5s\"\n\
             [[qos]] old (gone)\n  name = \"old\"\n"
        );
    }
}
