//! Reading: what Slurm's commands tell, as records and as muster's state.
//!
//! Nodes, partitions, reservations, licences and the configuration come from `scontrol -o show`,
//! whose `Key=value` lines are alike in every version; jobs come from `squeue --json`, in the shapes
//! of data_parser 0.0.38 (Slurm 22.05) to 0.0.42 (24.11): numbers are plain, or
//! `{set, infinite, number}` from 23.02 on; states are one word, or a list of words from 23.11 on.

mod associations;
mod cluster;
mod config;
mod driven;
pub(crate) mod jobs;
pub(crate) mod json;
mod licences;
mod mark;
mod nodes;
mod order;
mod partitions;
mod record;
mod reservations;
mod resources;
mod spec;
mod stamp;
mod topology;

pub use associations::{AssociationRecord, Associations};
pub use cluster::{Cluster, LeftOut};
pub use config::Config;
pub use driven::{AHEAD_MAX, Driven, LEASE_PREFIX, Remainder, Target, lease_name};
pub use jobs::{JobRecord, JobStanding};
pub(crate) use json::{Number, Words};
pub use mark::{Mark, NodeRange};
pub use order::Order;
pub use record::Record;

use crate::{Commands, Rest, SlurmError};
use muster_model::{Licence, Node, Timestamp};
pub use partitions::{Members, PartitionRecord};
pub use reservations::ReservationRecord;
pub use stamp::{Stamp, stamped, without};
use std::collections::BTreeMap;

/// The answers of the commands, before they are understood.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// `scontrol show config`.
    pub config: String,
    /// `scontrol -o show node`.
    pub nodes: String,
    /// `scontrol -o show partition`.
    pub partitions: String,
    /// The groups that partitions are for, as this machine knows them.
    pub groups: BTreeMap<String, Members>,
    /// `scontrol -o show reservation`.
    pub reservations: String,
    /// `scontrol -o show licenses`.
    pub licences: String,
    /// `scontrol -o show topology`; empty where there is none.
    pub topology: String,
    /// `scontrol -o show assoc_mgr`; empty where it is not for everybody to see.
    pub associations: String,
    /// `squeue --json`.
    pub jobs: Vec<u8>,
}

/// So many commands [`read`] runs.
pub const CALLS: u32 = 8;

/// So many commands [`Answers::refresh`] runs.
pub const CALLS_AGAIN: u32 = 3;

/// Asks a Slurm for all of it: [`CALLS`] commands, one after the other.
///
/// # Errors
/// As [`Answers::ask`], and [`SlurmError::Answer`] for what cannot be understood.
pub fn read(commands: &Commands, now: Timestamp) -> Result<Cluster, SlurmError> {
    understand(&Answers::ask(commands)?, now)
}

/// How many CPUs the nodes of a Slurm have in all.
///
/// # Errors
/// As [`read`].
pub fn processors(commands: &Commands) -> Result<u32, SlurmError> {
    let nodes = nodes::all(&commands.scontrol(&NODES)?).map_err(wrong("scontrol show node"))?;
    let sum = |all: u32, node: &Node| all.saturating_add(node.cpu_count());
    Ok(nodes.iter().fold(0, sum))
}

impl Answers {
    /// Runs all [`CALLS`] commands.
    ///
    /// A topology or associations that it does not tell (there are none, or they are private)
    /// count as none.
    ///
    /// # Errors
    /// [`SlurmError`] of the first that fails.
    pub fn ask(commands: &Commands) -> Result<Self, SlurmError> {
        let partitions = commands.scontrol(&["-o", "--all", "show", "partition"])?;
        Ok(Self {
            config: commands.scontrol(&["show", "config"])?,
            nodes: nodes_of(commands)?,
            groups: partitions::groups(&partitions),
            partitions,
            reservations: reservations_of(commands)?,
            licences: commands.scontrol(&["-o", "show", "licenses"])?,
            topology: told(commands.scontrol(&["-o", "show", "topology"]))?,
            associations: told(commands.scontrol(&["-o", "show", "assoc_mgr", "flags=assoc,qos"]))?,
            jobs: jobs_of(commands)?,
        })
    }

    /// Asks again for what changes by itself: nodes, reservations and jobs.
    ///
    /// # Errors
    /// As [`Answers::ask`].
    pub fn refresh(&mut self, commands: &Commands) -> Result<(), SlurmError> {
        self.nodes = nodes_of(commands)?;
        self.reservations = reservations_of(commands)?;
        self.jobs = jobs_of(commands)?;
        Ok(())
    }
}

const NODES: [&str; 4] = ["-o", "--all", "show", "node"];
const RESERVATIONS: [&str; 3] = ["-o", "show", "reservation"];
const JOBS: [&str; 2] = ["--all", "--json"];

fn nodes_of(commands: &Commands) -> Result<String, SlurmError> {
    let asked = || commands.scontrol(&NODES);
    commands.rest().map_or_else(asked, |rest| rest.or_else(Rest::nodes, asked))
}

fn reservations_of(commands: &Commands) -> Result<String, SlurmError> {
    let asked = || commands.scontrol(&RESERVATIONS);
    commands.rest().map_or_else(asked, |rest| rest.or_else(Rest::reservations, asked))
}

fn jobs_of(commands: &Commands) -> Result<Vec<u8>, SlurmError> {
    let asked = || commands.squeue(&JOBS);
    commands.rest().map_or_else(asked, |rest| rest.or_else(Rest::jobs, asked))
}

/// Nothing, where the command itself says that it cannot tell.
fn told(answer: Result<String, SlurmError>) -> Result<String, SlurmError> {
    match answer {
        Err(SlurmError::Failed { .. }) => Ok(String::new()),
        answer => answer,
    }
}

/// What the answers say.
///
/// # Errors
/// [`SlurmError::Answer`] with the record and the field that cannot be read, and
/// [`SlurmError::Failed`] where the answer about jobs says that it is none.
pub fn understand(answers: &Answers, now: Timestamp) -> Result<Cluster, SlurmError> {
    let config = Config::of(&answers.config);
    let nodes = nodes::all(&answers.nodes).map_err(wrong("scontrol show node"))?;
    let partitions =
        partitions::all(&answers.partitions).map_err(wrong("scontrol show partition"))?;
    let reservations =
        reservations::all(&answers.reservations).map_err(wrong("scontrol show reservation"))?;
    let licences: Vec<Licence> =
        licences::all(&answers.licences).map_err(wrong("scontrol show licenses"))?;
    let jobs = jobs::all(&answers.jobs, "squeue --json")?;
    let nodes: Vec<Node> = nodes;
    let topology =
        topology::of(&answers.topology, &config).map_err(wrong("scontrol show topology"))?;
    let associations =
        associations::of(&answers.associations).map_err(wrong("scontrol show assoc_mgr"))?;
    Ok(Cluster {
        now,
        config,
        nodes,
        partitions,
        groups: answers.groups.clone(),
        reservations,
        licences,
        topology,
        associations,
        jobs,
        comments: stamp::comments(&answers.nodes),
        order: Order::Slurm,
    })
}

fn wrong(command: &'static str) -> impl Fn(String) -> SlurmError {
    move |what| SlurmError::Answer { command: command.to_owned(), what }
}
