//! Without cgroups: a job is every descendant of its supervisor.
//!
//! The supervisor is a child subreaper, so a process that daemonises is given to it and stays its
//! descendant. Killing stops all of them first, so that none forks while others are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpgid};

use super::kill_all;

/// A set of process trees.
#[derive(Debug)]
pub(crate) struct Tree {
    /// All descendants of this process.
    root: Option<i32>,
    /// Or these processes with their descendants and groups.
    adopted: BTreeSet<i32>,
    /// And orphans of theirs, known by this variable of their environment.
    mark: String,
}

/// Rounds of stopping before killing: each finds only what forked during the one before.
const STOP_ROUNDS_MAX: usize = 16;

/// Rounds of killing the root's own children before the walk.
const CHILD_ROUNDS: usize = 64;

impl Tree {
    pub(super) fn of_this_process() -> Self {
        Self {
            root: Some(std::process::id() as i32),
            adopted: BTreeSet::new(),
            mark: String::new(),
        }
    }

    /// The processes of one step, which all inherit a variable that only it has.
    pub(super) fn of_step(step: u32) -> Self {
        Self { root: None, adopted: BTreeSet::new(), mark: format!("SLURM_STEP_ID={step}") }
    }

    pub(super) fn adopt(&mut self, pid: i32) {
        self.adopted.insert(pid);
    }

    /// Every live process of it.
    pub(super) fn pids(&self) -> Vec<i32> {
        if let Some(root) = self.root {
            return descendants(root);
        }
        let processes = list();
        let mut found: BTreeSet<i32> =
            self.adopted.iter().copied().filter(|pid| processes.contains_key(pid)).collect();
        for pid in &self.adopted {
            found.extend(below(&processes, *pid));
        }
        for pid in processes.keys() {
            if getpgid(Some(Pid::from_raw(*pid))).is_ok_and(|g| self.adopted.contains(&g.as_raw()))
            {
                found.insert(*pid);
            }
        }
        for orphan in children(std::process::id() as i32) {
            if !found.contains(&orphan) && has_variable(orphan, &self.mark) {
                found.insert(orphan);
                found.extend(below(&processes, orphan));
            }
        }
        found.into_iter().collect()
    }

    /// Whether none is left. A subreaper without children has no descendants; a walk over `/proc`
    /// could miss what forks meanwhile. Ended children count until they are collected.
    pub(super) fn is_empty(&self) -> bool {
        if self.root.is_some() { !has_children() } else { self.pids().is_empty() }
    }

    pub(super) fn kill(&self) -> bool {
        if let Some(root) = self.root {
            // What replaces itself for ever lives too short to be found by a walk over /proc. As
            // its parent ends it becomes the subreaper's child, and that list is read in no time.
            let mut killed: BTreeSet<i32> = BTreeSet::new();
            for _ in 0..CHILD_ROUNDS {
                // Once each: there may be ten thousand, and each takes its time to die.
                let mut fresh = children(root);
                fresh.retain(|pid| killed.insert(*pid));
                kill_all(&fresh, Signal::SIGKILL);
            }
        }
        let mut stopped: BTreeSet<i32> = BTreeSet::new();
        for _ in 0..STOP_ROUNDS_MAX {
            let fresh: Vec<i32> =
                self.pids().into_iter().filter(|pid| !stopped.contains(pid)).collect();
            if fresh.is_empty() {
                break;
            }
            kill_all(&fresh, Signal::SIGSTOP);
            stopped.extend(fresh);
        }
        let all: Vec<i32> = stopped.into_iter().collect();
        kill_all(&all, Signal::SIGKILL);
        all.is_empty()
    }
}

/// Whether this process has any child, ended or not.
fn has_children() -> bool {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::All, look) != Err(nix::errno::Errno::ECHILD)
}

/// The children of a process with one thread, ended ones among them.
fn children(pid: i32) -> Vec<i32> {
    fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|child| child.parse().ok())
        .collect()
}

/// Whether a process was started with this variable.
fn has_variable(pid: i32, variable: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|text| text.split(|b| *b == 0).any(|v| v == variable.as_bytes()))
}

/// Every live descendant of a process.
fn descendants(root: i32) -> Vec<i32> {
    below(&list(), root)
}

fn below(processes: &BTreeMap<i32, i32>, root: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (pid, parent) in processes {
        children.entry(*parent).or_default().push(*pid);
    }
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        if let Some(next) = children.remove(&pid) {
            found.extend(&next);
            open.extend(next);
        }
    }
    found
}

/// Every live process with its parent; zombies are left out.
fn list() -> BTreeMap<i32, i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| Some((pid, parent_of(pid)?)))
        .collect()
}

/// The parent of a live process.
pub(crate) fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.next()?.parse().ok()
}
