//! `muster sim`: the core without a daemon.

mod scenario;

use clap::Subcommand;

use crate::say::Outcome;

/// What there is to do without a daemon.
#[derive(Subcommand)]
pub(crate) enum Sim {
    /// Run scenarios and compare them with their transcripts
    Scenario(scenario::ScenarioArgs),
}

/// Carries out one of them.
pub(crate) fn run(sim: &Sim) -> Outcome {
    match sim {
        Sim::Scenario(args) => scenario::run(args),
    }
}
