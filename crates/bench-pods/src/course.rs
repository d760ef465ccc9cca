//! One run: a queue, a contestant, and how long it took.

use crate::queue::{NAMESPACE, Queue};
use crate::{READY, used};
use muster_engine_k8s::mirror::{Change, Kind};
use muster_engine_k8s::{Cluster, K8sError};
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// A contestant that binds nothing for so long is given up.
const STALL: Duration = Duration::from_mins(1);

/// Pods of a run are gone within this time after they are deleted.
const CLEARED: Duration = Duration::from_mins(3);

/// Changes that wait to be counted.
const HEARD: usize = 4096;

/// A run.
#[derive(clap::Args)]
pub(crate) struct Course {
    #[command(flatten)]
    queue: Queue,
    /// The contestant: a program with its words. Its time begins when it prints `ready`, or, where it
    /// never does, with its first binding
    #[arg(last = true, required = true)]
    contestant: Vec<String>,
}

/// What came of it.
#[derive(Serialize)]
struct Outcome {
    /// Pods that were bound.
    pods: u32,
    /// From the contestant's being ready to the last binding.
    seconds: f64,
    /// Bindings a second.
    rate: f64,
    /// CPU of the contestant for a pod, from its start, in milliseconds.
    cpu_ms: f64,
    /// The most memory that it had, in MiB.
    peak_mib: f64,
    /// The most pods on a node.
    fullest: usize,
}

impl Course {
    pub(crate) async fn run(&self, cluster: &Cluster) -> Result<(), K8sError> {
        self.queue.make(cluster).await?;
        let mut tally = Tally::new(cluster).await?;
        let outcome = self.compete(&mut tally).await;
        self.queue.clear(cluster).await?;
        tally.cleared().await?;
        println!("{}", serde_json::to_string(&outcome?).unwrap_or_default());
        Ok(())
    }

    async fn compete(&self, tally: &mut Tally) -> Result<Outcome, K8sError> {
        let mut child = self.start().map_err(|error| stalled(error.to_string()))?;
        let begun = tally.all_bound(self.queue.pods, &mut child).await?;
        let seconds = begun.elapsed().as_secs_f64();
        let used = child.id().map(used::of).unwrap_or_default();
        child.kill().await.map_err(|error| stalled(error.to_string()))?;
        let pods = f64::from(self.queue.pods);
        Ok(Outcome {
            pods: self.queue.pods,
            seconds,
            rate: pods / seconds,
            cpu_ms: used.cpu_s * 1000.0 / pods,
            peak_mib: used.peak_mib,
            fullest: tally.fullest(),
        })
    }

    fn start(&self) -> std::io::Result<Child> {
        let (program, words) = self.contestant.split_first().ok_or(std::io::ErrorKind::NotFound)?;
        Command::new(program).args(words).stdout(Stdio::piped()).kill_on_drop(true).spawn()
    }
}

fn stalled(why: String) -> K8sError {
    K8sError::Unreachable { why }
}

/// Counts what is bound, by a watch of its own.
struct Tally {
    changes: mpsc::Receiver<Change>,
    /// The pods of the run with their nodes.
    nodes: BTreeMap<String, Option<String>>,
    bound: u32,
}

impl Tally {
    /// Knows every pod that is there.
    async fn new(cluster: &Cluster) -> Result<Self, K8sError> {
        let (to, changes) = mpsc::channel(HEARD);
        let mut awaited = cluster.watch(to).await?;
        let mut tally = Self { changes, nodes: BTreeMap::new(), bound: 0 };
        while !awaited.is_empty() {
            let change = tally.changes.recv().await;
            if let Some(Change::Listed(kind, _)) = &change {
                awaited.remove(kind);
            }
            tally.take(change);
        }
        Ok(tally)
    }

    fn take(&mut self, change: Option<Change>) {
        match change {
            Some(Change::Pod(pod)) if pod.metadata.namespace.as_deref() == Some(NAMESPACE) => {
                let node = pod.spec.and_then(|spec| spec.node_name);
                let newly = u32::from(node.is_some());
                let known = self.nodes.insert(pod.metadata.name.unwrap_or_default(), node);
                self.bound += newly - u32::from(known.flatten().is_some());
            }
            Some(Change::Gone(Kind::Pod, namespace, name)) if namespace == NAMESPACE => {
                let known = self.nodes.remove(&name);
                self.bound -= u32::from(known.flatten().is_some());
            }
            _ => {}
        }
    }

    /// Waits until so many are bound; gives when the contestant began.
    async fn all_bound(&mut self, pods: u32, child: &mut Child) -> Result<Instant, K8sError> {
        let mut lines = child.stdout.take().map(|out| BufReader::new(out).lines());
        let (mut begun, mut first) = (None, None);
        while self.bound < pods {
            tokio::select! {
                line = next(&mut lines) => match line {
                    Some(line) if line == READY => begun = Some(Instant::now()),
                    Some(_) => {}
                    None => lines = None,
                },
                change = timeout(STALL, self.changes.recv()) => {
                    let change = change.map_err(|_| stalled(format!(
                        "{} of {pods} pods were bound, and nothing for {} s",
                        self.bound, STALL.as_secs())))?;
                    self.take(change);
                    if self.bound > 0 && first.is_none() {
                        first = Some(Instant::now());
                    }
                }
            }
        }
        begun.or(first).ok_or_else(|| stalled("nothing was to be bound".to_owned()))
    }

    async fn cleared(&mut self) -> Result<(), K8sError> {
        let gone = async {
            while !self.nodes.is_empty() {
                let change = self.changes.recv().await;
                self.take(change);
            }
        };
        timeout(CLEARED, gone).await.map_err(|_| stalled("pods are not gone".to_owned()))
    }

    fn fullest(&self) -> usize {
        let mut by_node: BTreeMap<&str, usize> = BTreeMap::new();
        for node in self.nodes.values().flatten() {
            *by_node.entry(node).or_default() += 1;
        }
        by_node.into_values().max().unwrap_or(0)
    }
}

/// The next line; never where there is nobody to print one.
async fn next<R: tokio::io::AsyncBufRead + Unpin>(
    lines: &mut Option<tokio::io::Lines<R>>,
) -> Option<String> {
    match lines {
        Some(lines) => lines.next_line().await.ok().flatten(),
        None => std::future::pending().await,
    }
}
