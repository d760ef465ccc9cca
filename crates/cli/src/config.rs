//! `muster config`: the configuration in force, what is wrong with one, and reading it anew.

use muster_client::Client;
use muster_config::Source;

use crate::args::Config;
use crate::say::{self, Failure, Outcome, note, print};

/// Runs the command.
pub(crate) fn run(command: Config) -> Outcome {
    let failed = |error: muster_config::ConfigError| Failure::new(error.to_string());
    match command {
        Config::Show { origin, config, json } => {
            let source = Source::find(config.as_deref());
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
        Config::Check { file } => {
            let source = Source::find(file.as_deref());
            source.read().map_err(failed)?;
            note(&format!("{}: nothing is wrong", source.path.display()));
            Ok(0)
        }
        Config::Reload(args) => {
            let answer = Client::connect()?.reload()?;
            if args.json {
                return say::json(&answer);
            }
            for change in &answer.changes {
                print(&format!("{}: {} -> {}\n", change.key, change.before, change.after));
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
