//! `muster top`: queue, nodes, GPUs, plan and shares on a terminal.

use clap::{Args, ValueEnum};

use crate::say::{Failure, Outcome};

/// What the terminal shows.
#[derive(Args)]
#[cfg_attr(not(feature = "top"), allow(dead_code))]
pub(crate) struct TopArgs {
    /// What is shown first
    #[arg(value_enum, default_value = "queue", hide_default_value = true)]
    view: View,
    /// Print one frame as text and end
    #[arg(long)]
    once: bool,
}

/// The views of the terminal.
#[derive(Clone, Copy, ValueEnum)]
enum View {
    /// What waits and runs
    Queue,
    /// Nodes
    Nodes,
    /// GPUs
    Gpus,
    /// What is planned
    Plan,
    /// What accounts and users have used
    Shares,
}

#[cfg(not(feature = "top"))]
pub(crate) fn run(_args: &TopArgs) -> Outcome {
    let code = "E_TOP_NOT_BUILT";
    Err(Failure::new(format!(
        "this muster was built without `muster top`: build it with `cargo build`, or take a \
         released one [{code}]"
    )))
}

#[cfg(feature = "top")]
pub(crate) fn run(args: &TopArgs) -> Outcome {
    use muster_top::View as Shown;
    let view = match args.view {
        View::Queue => Shown::Queue,
        View::Nodes => Shown::Nodes,
        View::Gpus => Shown::Gpus,
        View::Plan => Shown::Plan,
        View::Shares => Shown::Shares,
    };
    let options = muster_top::Options { once: args.once, view };
    muster_top::run(options).map_err(|error| Failure::new(error.to_string())).map(|()| 0)
}
