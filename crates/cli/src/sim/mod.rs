//! `muster sim`: the core without a daemon.

mod common;
mod generate;
mod import;
mod own_log;
mod past;
mod placement;
mod replay;
mod scenario;
mod score;
mod sweep;
mod watch;

use clap::Subcommand;

use crate::say::Outcome;

/// What there is to do without a daemon.
#[derive(Subcommand)]
pub(crate) enum Sim {
    /// Replay a trace or muster's own log under a policy: what would have become of these jobs
    Replay(replay::ReplayArgs),
    /// Replay a trace or muster's own log under several policies, side by side
    Compare(replay::CompareArgs),
    /// Replay a trace or muster's own log under each combination of settings of the policy: a table, and what to propose
    Sweep(sweep::SweepArgs),
    /// Write what sacct or another scheduler recorded as a trace, without names
    Import(import::ImportArgs),
    /// Draw a trace from a model: rigid jobs, or a cluster of GPUs
    Generate(generate::GenerateArgs),
    /// Fill a cluster from lists of nodes and pods: how much of its GPUs each placement gives out
    Placement(placement::PlacementArgs),
    /// Foresee starts over a trace and say how good that is
    ScoreEstimates(score::ScoreArgs),
    /// Run scenarios and compare them with their transcripts
    Scenario(scenario::ScenarioArgs),
}

/// Carries out one of them.
pub(crate) fn run(sim: &Sim) -> Outcome {
    match sim {
        Sim::Replay(args) => replay::run(args),
        Sim::Compare(args) => replay::compare(args),
        Sim::Sweep(args) => sweep::run(args),
        Sim::Import(args) => import::run(args),
        Sim::Generate(args) => generate::run(args),
        Sim::Placement(args) => placement::run(args),
        Sim::ScoreEstimates(args) => score::run(args),
        Sim::Scenario(args) => scenario::run(args),
    }
}
