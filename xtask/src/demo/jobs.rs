//! What the demo sees of its jobs: sacct, read as any client reads it.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

use crate::sh;

/// One line of sacct.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// As shown to users: `12` or `12_3`.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) state: String,
    nodes: String,
}

impl Job {
    /// Whether this is the job, or a task of the array, with that id.
    pub(crate) fn belongs_to(&self, id: u64) -> bool {
        self.id.split('_').next().and_then(|number| number.parse::<u64>().ok()) == Some(id)
    }

    /// Nothing more will happen to it.
    pub(crate) fn ended(&self) -> bool {
        !matches!(
            self.state.as_str(),
            "PENDING" | "CONFIGURING" | "RUNNING" | "COMPLETING" | "SUSPENDED" | "REQUEUED"
        )
    }

    /// It ended in a way that the demo does not expect.
    pub(crate) fn failed(&self) -> bool {
        self.ended() && self.state != "COMPLETED" && self.state != "CANCELLED"
    }

    /// It completed, or is the service, which is cancelled.
    pub(crate) fn ended_well(&self, service: u64) -> bool {
        self.state == "COMPLETED" || (self.belongs_to(service) && self.state == "CANCELLED")
    }
}

/// Every job of the demo.
pub(crate) fn all(mut sacct: Command) -> Result<Vec<Job>, String> {
    let args = ["-X", "--parsable2", "--noheader", "--format=JobID,JobName,State,NodeList"];
    Ok(parse(&sh::read(sacct.args(args))?))
}

fn parse(text: &str) -> Vec<Job> {
    let line = |line: &str| {
        let mut cells = line.split('|').map(str::to_owned);
        let (id, name, state) = (cells.next()?, cells.next()?, cells.next()?);
        // "CANCELLED by 1000" is CANCELLED here.
        let state = state.split(' ').next().unwrap_or_default().to_owned();
        Some(Job { id, name, state, nodes: cells.next().unwrap_or_default() })
    };
    text.lines().filter_map(line).collect()
}

/// What was seen of each job, and when.
pub(crate) struct Watch {
    begin: Instant,
    seen: BTreeMap<String, Seen>,
    order: Vec<String>,
}

struct Seen {
    job: Job,
    first_s: f64,
    started_s: Option<f64>,
    ended_s: Option<f64>,
}

impl Watch {
    /// Times are counted from `begin`.
    pub(crate) fn new(begin: Instant) -> Self {
        Self { begin, seen: BTreeMap::new(), order: Vec::new() }
    }

    /// Prints every change since the last look.
    pub(crate) fn show(&mut self, jobs: &[Job]) {
        let now_s = self.begin.elapsed().as_secs_f64();
        for job in jobs {
            let before = self.seen.get(&job.id).map(|seen| seen.job.state.clone());
            if before.as_deref() == Some(job.state.as_str()) {
                continue;
            }
            let at = if job.nodes.is_empty() || job.nodes.starts_with("None") {
                String::new()
            } else {
                format!(" on {}", job.nodes)
            };
            println!("{now_s:5.1} s  {:8} {:11} {}{at}", job.id, job.name, job.state);
            if before.is_none() {
                self.order.push(job.id.clone());
            }
            let seen = self.seen.entry(job.id.clone()).or_insert_with(|| Seen {
                job: job.clone(),
                first_s: now_s,
                started_s: None,
                ended_s: None,
            });
            seen.job = job.clone();
            if job.state == "RUNNING" || job.ended() {
                seen.started_s.get_or_insert(now_s);
            }
            if job.ended() {
                seen.ended_s.get_or_insert(now_s);
            }
        }
    }

    /// The jobs as last seen, in order of appearance.
    pub(crate) fn jobs(&self) -> Vec<Job> {
        self.order.iter().filter_map(|id| self.seen.get(id)).map(|seen| seen.job.clone()).collect()
    }

    /// When a job was first seen running, in tenths of a second.
    pub(crate) fn start(&self, job: &Job) -> Option<u64> {
        self.seen.get(&job.id)?.started_s.map(|s| (s * 10.0) as u64)
    }

    /// The closing table's rows.
    pub(crate) fn rows(&self) -> Vec<[String; 6]> {
        let between = |from: Option<f64>, to: Option<f64>| match (from, to) {
            (Some(from), Some(to)) => format!("{:.1}", to - from),
            _ => "-".to_owned(),
        };
        let row = |seen: &Seen| {
            [
                seen.job.id.clone(),
                seen.job.name.clone(),
                seen.job.state.clone(),
                between(Some(seen.first_s), seen.started_s),
                between(seen.started_s, seen.ended_s),
                seen.job.nodes.clone(),
            ]
        };
        self.order.iter().filter_map(|id| self.seen.get(id)).map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn reads_sacct() {
        let jobs = parse("7|train|RUNNING|practice[1-2]\n8_3|array|CANCELLED by 0|None assigned\n");
        assert!(jobs[0].belongs_to(7) && !jobs[0].ended());
        assert!(jobs[1].belongs_to(8) && jobs[1].ended() && !jobs[1].failed());
    }
}
