//! Starting a waiting job where it was planned, and taking that back.

use super::words;
use crate::read::{Target, lease_name};
use muster_slurm_syntax::hostlist;
use std::collections::BTreeSet;

/// Where a job is to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release<'a> {
    /// The job.
    pub target: &'a Target,
    /// Its nodes; none where Slurm is to choose them.
    pub nodes: &'a BTreeSet<String>,
    /// All nodes of its partition.
    pub all: &'a BTreeSet<String>,
    /// Its limit in minutes, where the plan cuts that down.
    pub limit: Option<u64>,
}

/// Moves a job into the lease, with its nodes: Slurm starts it there.
///
/// `scontrol` cannot require nodes of the first component of a heterogeneous job (it takes its
/// number for all of them): the other nodes are excluded for it, which holds for all components
/// until each has its own; so it goes before the others.
pub fn release(release: &Release<'_>) -> Vec<String> {
    let Release { target, nodes, all, limit } = release;
    let list = |names: &BTreeSet<String>| hostlist::fold(&names.iter().collect::<Vec<_>>());
    let mut act = update(target);
    act.push(format!("ReservationName={}", lease_name(&target.partition)));
    if nodes.is_empty() {
        // Its own nodes are required, if any.
    } else if target.leads {
        let others: BTreeSet<String> = all.difference(nodes).cloned().collect();
        act.push(format!("ExcNodeList={}", list(&others)));
    } else {
        act.push(format!("ReqNodeList={}", list(nodes)));
        if target.heterogeneous {
            act.push(format!("ExcNodeList={}", target.mark.excluded));
        }
    }
    act.extend(limit.map(|minutes| format!("TimeLimit={minutes}")));
    act.push(format!("AdminComment={}", target.mark.comment()));
    act
}

/// Gives a job back what it asked for itself.
pub fn give_back(target: &Target) -> Vec<String> {
    let mut act = update(target);
    if target.released {
        act.push("ReservationName=".to_owned());
    }
    if !target.leads {
        act.push(format!("ReqNodeList={}", target.mark.required));
    }
    if target.heterogeneous {
        act.push(format!("ExcNodeList={}", target.mark.excluded));
    }
    act.push(format!("AdminComment={}", target.mark.beside));
    act
}

fn update(target: &Target) -> Vec<String> {
    words(&["update", &format!("JobId={}", target.name)])
}
