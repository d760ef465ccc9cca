//! How fast pods are bound: by muster, by Kubernetes' own scheduler, and by a bare client that
//! decides nothing and makes the same writes.
//!
//! `cargo xtask bench k8s` starts a control plane and runs this for each kind of queue and each
//! contestant, one after the other on the same bed.

mod bare;
mod course;
mod decide;
mod queue;
mod used;

use clap::{Parser, Subcommand};
use muster_engine_k8s::{Cluster, K8sError};
use std::path::PathBuf;
use std::process::ExitCode;

/// The name by which the pods of a run choose muster and the bare client.
const SCHEDULER: &str = "bench";

/// What a contestant prints once it knows the whole cluster and begins to decide.
const READY: &str = "ready";

#[derive(Parser)]
struct Words {
    /// The cluster's file
    #[arg(long, global = true, default_value = "kubeconfig")]
    kubeconfig: PathBuf,
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Makes a queue, lets a contestant bind it, and prints what that took as one line of JSON
    Run(course::Course),
    /// muster's scheduler of pods, until it is ended
    Muster(Many),
    /// Binds each pod to the next node in turn, until it is ended
    Bare(Many),
    /// Plans a queue on made-up nodes without a cluster, and prints what that took as JSON
    Decide(decide::Decide),
}

#[derive(clap::Args)]
struct Many {
    /// So many writes at once
    #[arg(long, default_value_t = 64)]
    connections: usize,
}

fn main() -> ExitCode {
    let words = Words::parse();
    if let Task::Decide(decide) = &words.task {
        return match decide.run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(carry_out(words)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error} [{}]", error.code());
            ExitCode::FAILURE
        }
    }
}

async fn carry_out(words: Words) -> Result<(), K8sError> {
    let cluster = Cluster::find(Some(&words.kubeconfig)).await?;
    match words.task {
        Task::Run(course) => course.run(&cluster).await,
        Task::Muster(many) => muster(cluster, many.connections).await,
        Task::Bare(many) => bare::run(cluster, many.connections).await,
        Task::Decide(_) => Ok(()),
    }
}

async fn muster(cluster: Cluster, connections: usize) -> Result<(), K8sError> {
    let settings = muster_pods::Settings { name: SCHEDULER.to_owned(), lease: None, connections };
    // Whoever started it ends it.
    let (_never, stop) = tokio::sync::watch::channel(false);
    muster_pods::run(cluster, settings, stop, |happened| match happened {
        muster_pods::Happened::Knows { .. } => println!("{READY}"),
        muster_pods::Happened::NotBound(bind, error) => eprintln!("{}: {error}", bind.pod),
        muster_pods::Happened::Broken(rules) => eprintln!("not started: {rules:?}"),
        _ => {}
    })
    .await
}
