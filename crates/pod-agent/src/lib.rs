//! What muster does inside a pod that runs one of its jobs: the engine of one machine, for one
//! attempt, so that script, steps, files, signals and limits are as anywhere else.
//!
//! The pod is made by `engine-k8s`: it has the order to launch as a file, takes further orders by
//! `muster pod order`, and says how it ended in its termination message.

mod error;
mod install;
mod mailbox;
mod report;
mod run;
mod serve;
mod task;
mod wire;

use error::AgentError;

/// The first word of these commands, which nobody types.
pub const VERB: &str = "pod";

/// Runs `muster pod …`; `slurm_names` are those under which the program is Slurm's commands. Gives
/// the exit status.
pub fn run(words: &[String], slurm_names: &[&str]) -> i32 {
    let done = match words.split_first() {
        Some((verb, rest)) => carry_out(verb, rest, slurm_names),
        None => Err(AgentError::Usage),
    };
    done.unwrap_or_else(|error| {
        eprintln!("muster pod: {error}");
        error.status()
    })
}

fn carry_out(verb: &str, rest: &[String], slurm_names: &[&str]) -> Result<i32, AgentError> {
    match (verb, rest) {
        ("run", [orders, state, report]) => {
            let folders =
                run::Folders { orders: orders.into(), state: state.into(), report: report.into() };
            run::run(&folders, slurm_names)
        }
        ("order", [state, order]) => mailbox::send(state.as_ref(), order).map(|()| 0),
        ("task", [orders, host, end, argv @ ..]) if end == "--" => {
            task::task(orders.as_ref(), host, argv)
        }
        ("install", [target]) => install::install(target.as_ref()).map(|()| 0),
        _ => Err(AgentError::Usage),
    }
}
