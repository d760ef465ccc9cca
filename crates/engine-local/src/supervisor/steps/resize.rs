//! The job gives up nodes: tasks there end, and the rest goes on with what is left.
//!
//! As Slurm's (scontrol manual, `NumNodes`): only tasks on the nodes that are given up end, and the
//! steps that they were part of go on. Nothing of the job is there any more once they and whatever
//! they started are gone; then the allocation has the other nodes alone, for steps that come later
//! too.

use std::collections::BTreeSet;
use std::fs;

use nix::sys::signal::Signal;
use nix::unistd::{Pid, getsid};

use super::{Step, Task};
use crate::machine::boot_clock_ms;
use crate::spec::Poke;
use crate::supervisor::{Supervisor, signal_pids};

/// How often it is looked whether what is to end is gone.
const LOOK_MS: u64 = 20;

/// Nodes on their way out.
#[derive(Debug)]
pub(super) struct Leaving {
    /// When KILL follows, on the boot clock.
    kill_at: u64,
    look_at: u64,
}

impl Leaving {
    pub(super) const fn next_look(&self) -> u64 {
        self.look_at
    }
}

impl Step {
    /// Asks the tasks on nodes that are given up to end.
    fn give_up(&mut self, is_given_up: impl Fn(usize) -> bool) {
        for (procid, (part, _)) in self.layout.places.iter().enumerate() {
            if !is_given_up(self.layout.parts[*part].share) {
                continue;
            }
            self.given_up.insert(procid as u32);
            if matches!(self.tasks[procid], Task::Awaited) {
                self.tasks[procid] = Task::Over;
            }
        }
        signal_pids(&self.given_up_pids(), Signal::SIGTERM);
    }

    /// Every process of those tasks: of their sessions, or started with their number.
    fn given_up_pids(&self) -> Vec<i32> {
        if self.given_up.is_empty() {
            return Vec::new();
        }
        let of = |procid: &u32| self.tasks[*procid as usize].pid();
        let leaders: BTreeSet<i32> = self.given_up.iter().filter_map(of).collect();
        let marks: Vec<String> =
            self.given_up.iter().map(|procid| format!("SLURM_PROCID={procid}")).collect();
        let is_theirs = |pid: &i32| {
            let session = getsid(Some(Pid::from_raw(*pid))).map_or(0, Pid::as_raw);
            leaders.contains(pid) || leaders.contains(&session) || has_any(*pid, &marks)
        };
        self.group.pids().into_iter().filter(is_theirs).collect()
    }

    fn has_left(&self) -> bool {
        let over = |procid: &u32| matches!(self.tasks[*procid as usize], Task::Over);
        self.given_up.iter().all(over) && self.given_up_pids().is_empty()
    }
}

fn has_any(pid: i32, variables: &[String]) -> bool {
    let has = |text: &[u8]| variables.iter().any(|v| v.as_bytes() == text);
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|text| text.split(|b| *b == 0).any(has))
}

impl Supervisor<'_> {
    /// Gives up all nodes but these and the first, on which the script runs.
    pub(in crate::supervisor) fn resize(&mut self, keep: &[String], grace_s: u64) {
        let now = boot_clock_ms();
        let nodes = self.spec.nodes.iter().skip(1).zip(self.steps.busy.nodes.iter_mut().skip(1));
        for (share, busy) in nodes {
            busy.given_up |= !keep.contains(&share.name);
        }
        let steps = &mut self.steps;
        for step in &mut steps.running {
            step.give_up(|share| steps.busy.nodes[share].given_up);
        }
        let kill_at = now.saturating_add(grace_s.saturating_mul(1_000));
        // What is repeated leaves the first deadline.
        let kill_at = steps.leaving.as_ref().map_or(kill_at, |old| old.kill_at.min(kill_at));
        steps.leaving = Some(Leaving { kill_at, look_at: now });
    }

    /// Kills what takes too long; once nothing is left there, the nodes are gone.
    pub(super) fn advance_resize(&mut self) {
        let now = boot_clock_ms();
        let Some(leaving) = &mut self.steps.leaving else { return };
        if leaving.look_at > now {
            return;
        }
        leaving.look_at = now + LOOK_MS;
        let kill = leaving.kill_at <= now;
        if !self.steps.running.iter().all(Step::has_left) {
            let steps = self.steps.running.iter().filter(|_| kill);
            steps.for_each(|step| signal_pids(&step.given_up_pids(), Signal::SIGKILL));
            return;
        }
        self.steps.leaving = None;
        self.forget_nodes();
        let nodes = self.spec.nodes.iter().map(|share| share.name.clone()).collect();
        self.tell(&Poke::Resized { key: self.key, nodes });
    }

    /// Takes the nodes that were given up out of the allocation. Steps that had tasks there keep
    /// their parts by number, with nothing in them.
    fn forget_nodes(&mut self) {
        let gone: Vec<bool> = self.steps.busy.nodes.iter().map(|node| node.given_up).collect();
        let at = |share: usize| gone[..share].iter().filter(|gone| !**gone).count();
        for step in &mut self.steps.running {
            for part in &mut step.layout.parts {
                if gone[part.share] {
                    part.cpus.clear();
                    part.gpus.clear();
                    part.share = 0;
                } else {
                    part.share = at(part.share);
                }
            }
        }
        let kept = |at: usize| gone.get(at).is_none_or(|gone| !gone);
        retain_at(&mut self.spec.nodes, kept);
        retain_at(&mut self.spec.tasks.per_node, kept);
        retain_at(&mut self.steps.busy.nodes, kept);
        self.steps.freed = true;
    }
}

/// Keeps the elements at these positions.
fn retain_at<T>(all: &mut Vec<T>, keep: impl Fn(usize) -> bool) {
    let mut at = 0;
    all.retain(|_| {
        at += 1;
        keep(at - 1)
    });
}
