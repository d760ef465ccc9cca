//! What `muster why` tells people to do can be done.

use crate::place::{Place, said, until};
use muster_model::{GpuScope, Mib, Seconds};
use muster_planner::Change;
use std::collections::BTreeSet;

/// A name for each kind of change; a new kind has to be put here, and then below.
const fn kind(change: &Change) -> &'static str {
    match change {
        Change::TimeLimit(_) => "time",
        Change::Gpus { .. } => "gpus",
        Change::GpuModel { .. } => "model",
        Change::GpuMemory(_) => "gpu memory",
        Change::Nodes(_) => "nodes",
        Change::CpusPerTask(_) => "cpus",
        Change::Memory(_) => "memory",
        Change::Partition(_) => "partition",
        Change::NoConstraint => "constraint",
        Change::NoNodeList => "node list",
        Change::Shared => "shared",
        Change::NoExclude => "exclude",
        Change::Tasks(_) => "tasks",
        Change::GpuShare(_) => "gpu share",
        Change::TopologyPreferred(_) => "topology",
        Change::NoReservation => "reservation",
        Change::Account(_) => "account",
        Change::Qos(_) => "qos",
        Change::Both(..) => "both",
    }
}
const KINDS: usize = 19;

/// Changes of every kind, each with a job that they may be suggested for.
fn changes() -> Vec<(Change, &'static [&'static str])> {
    let gpus = |scope, model: Option<&str>| Change::Gpus {
        model: model.map(str::to_owned),
        from: 4,
        to: 2,
        scope,
    };
    let model = |to: Option<&str>| Change::GpuModel {
        from: "h100".to_owned(),
        to: to.map(str::to_owned),
        count: 4,
        scope: GpuScope::Node,
    };
    vec![
        (Change::TimeLimit(Seconds(600)), &["--time=60", "--time-min=30"]),
        (gpus(GpuScope::Node, None), &["--gpus-per-node=4"]),
        (gpus(GpuScope::Node, Some("h100")), &["--gres=gpu:h100:4"]),
        (gpus(GpuScope::Job, None), &["--gpus=4"]),
        (gpus(GpuScope::Task, Some("h100")), &["--ntasks=2", "--gpus-per-task=h100:4"]),
        (gpus(GpuScope::Socket, None), &["--gpus-per-socket=4", "--sockets-per-node=1"]),
        (model(None), &["--gpus-per-node=h100:4"]),
        (model(Some("h100")), &["--gpus-per-node=h100:4"]),
        (Change::GpuMemory(Mib(40_000)), &["--gpus=1", "--gpu-memory=60G"]),
        (Change::Nodes(1), &["--nodes=2"]),
        (Change::CpusPerTask(2), &["--gpus=1", "--cpus-per-gpu=4"]),
        (Change::Memory(Mib(1000)), &["--mem=8G"]),
        (Change::Partition("other".to_owned()), &["--partition=main"]),
        (Change::NoConstraint, &["--constraint=practice"]),
        (Change::NoNodeList, &["--nodelist=node1"]),
        (Change::Shared, &["--exclusive"]),
        (Change::NoExclude, &["--exclude=node1"]),
        (Change::Tasks(2), &["--ntasks=4"]),
        (Change::GpuShare(250), &["--gpus=1"]),
        (Change::TopologyPreferred("leaf".to_owned()), &["--nodes=2", "--topology=required:leaf"]),
        (Change::NoReservation, &[]),
        (Change::Account("other".to_owned()), &[]),
        (Change::Qos("other".to_owned()), &[]),
        (
            Change::Both(
                Box::new(Change::TimeLimit(Seconds(600))),
                Box::new(Change::CpusPerTask(2)),
            ),
            &["--time=60", "--cpus-per-task=4"],
        ),
    ]
}

fn obey(place: &Place, command: &str) {
    let words: Vec<&str> = command.split_whitespace().collect();
    assert_eq!(words.first(), Some(&"scontrol"), "{command}");
    let output = place.slurm("scontrol", &words[1..]);
    assert!(output.status.success() && said(&output).is_empty(), "{command}: {}", said(&output));
}

#[test]
fn every_kind_of_suggestion_is_a_command_that_a_waiting_job_takes() {
    let place = Place::new();
    let file = place.path("muster.toml");
    let text = "[[partition]]\nname = \"main\"\nnodes = [\"all\"]\n\
                [[partition]]\nname = \"other\"\nnodes = [\"all\"]\n\
                [[account]]\nname = \"other\"\n[[qos]]\nname = \"other\"\n\
                [[gpu]]\nnodes = [\"node4\"]\nmode = \"shared\"\n";
    std::fs::write(&file, text).unwrap();
    let words = ["--practice", "4x8", "--config", file.to_str().unwrap()];
    let _daemon = place.try_start(&words, &[]).unwrap_or_else(|| panic!("{}", place.log()));
    let mut seen = BTreeSet::new();
    for (change, options) in changes() {
        let job = place.submit("true", &[&["--hold"], options].concat()).job_id;
        obey(&place, &muster_cli::update_command(&job.to_string(), &change.option()));
        seen.insert(kind(&change));
    }
    assert_eq!(seen.len(), KINDS, "{seen:?}");
}

#[test]
fn a_suggestion_that_is_followed_starts_the_job() {
    let place = Place::new();
    let _daemon = place.start();
    place.submit("exec sleep 600", &["--nodes=4", "--gpus-per-node=4", "--time=60"]);
    until("the first runs", || running(&place, "1").then_some(()));
    place.submit("exec sleep 600", &["--gpus-per-node=6", "--time=60"]);
    let command = until("a suggestion", || {
        let why = said(&place.muster(&["why", "2"]));
        why.lines().map(str::trim).find(|line| line.contains("Gres=")).map(str::to_owned)
    });
    obey(&place, &command);
    until("the second runs", || running(&place, "2").then_some(()));
    assert!(place.muster(&["cancel", "1", "2"]).status.success());
}

fn running(place: &Place, job: &str) -> bool {
    let output = place.slurm("squeue", &["-h", "-o", "%t", "-j", job]);
    String::from_utf8_lossy(&output.stdout).trim() == "R"
}
