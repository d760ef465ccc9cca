//! Starting a waiting job where it was planned, and taking that back.

use super::words;
use crate::read::{NodeRange, Target, lease_name};
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
    /// It was held, in place of a lease that it is moved into.
    pub by_hold: bool,
}

/// Moves a job into the lease, with its nodes: Slurm starts it there.
///
/// `scontrol` cannot require nodes of the first component of a heterogeneous job (it takes its
/// number for all of them): the other nodes are excluded for it, which holds for all components
/// until each has its own; so it goes before the others.
pub fn release(release: &Release<'_>) -> Vec<String> {
    let Release { target, nodes, all, limit, by_hold } = release;
    let list = |names: &BTreeSet<String>| hostlist::fold(&names.iter().collect::<Vec<_>>());
    let mut act = update(target);
    if !by_hold {
        act.push(format!("ReservationName={}", lease_name(&target.partition)));
    }
    if nodes.is_empty() {
        // Its own nodes are required, if any.
    } else if target.leads {
        let others: BTreeSet<String> = all.difference(nodes).cloned().collect();
        act.push(format!("ExcNodeList={}", list(&others)));
    } else {
        act.push(format!("ReqNodeList={}", list(nodes)));
        // Else Slurm takes more where it finds them free.
        if target.mark.range.is_some() {
            act.push(format!("NumNodes={0}-{0}", nodes.len()));
        }
        if target.heterogeneous {
            act.push(format!("ExcNodeList={}", target.mark.excluded));
        }
    }
    act.extend(limit.map(|minutes| format!("TimeLimit={minutes}")));
    act.push(format!("AdminComment={}", target.mark.comment()));
    act
}

/// Holds a job, and keeps in its mark what it asked for itself: with [`let_go`] it waits as before.
pub fn hold(target: &Target) -> Vec<String> {
    let mut act = update(target);
    act.push("Priority=0".to_owned());
    if target.marked {
        own_nodes(target, &mut act);
    }
    act.push(format!("AdminComment={}", target.mark.comment()));
    act
}

/// Ends muster's hold of a job.
pub fn let_go(target: &Target) -> Vec<String> {
    words(&["release", &target.name])
}

/// Gives a job back what it asked for itself. What is as it asked is left out: without a node list
/// `scontrol` takes several tasks of an array in one update.
pub fn give_back(target: &Target) -> Vec<String> {
    let mut act = update(target);
    if target.released && target.mark.held.is_none() {
        act.push("ReservationName=".to_owned());
    }
    own_nodes(target, &mut act);
    act.push(format!("AdminComment={}", target.mark.beside));
    act
}

/// Nodes as it asked for them itself.
fn own_nodes(target: &Target, act: &mut Vec<String>) {
    if !target.leads && target.placed {
        act.push(format!("ReqNodeList={}", target.mark.required));
        if let Some(NodeRange { least, most, cpus }) = target.mark.range {
            act.push(format!("NumNodes={least}-{most}"));
            act.push(format!("NumCPUs={cpus}"));
        }
    }
    if target.heterogeneous {
        act.push(format!("ExcNodeList={}", target.mark.excluded));
    }
}

fn update(target: &Target) -> Vec<String> {
    words(&["update", &format!("JobId={}", target.name)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Mark;

    fn target(placed: bool, released: bool) -> Target {
        let range = Some(NodeRange { least: 2, most: 4, cpus: 2 });
        Target {
            name: "12".to_owned(),
            partition: "p".to_owned(),
            user: "ada".to_owned(),
            priority: 0,
            mark: Mark { range, ..Mark::default() },
            marked: true,
            required: BTreeSet::new(),
            released,
            held: false,
            all: "12".to_owned(),
            ahead: released && !placed,
            placed,
            rest: None,
            leads: false,
            heterogeneous: false,
            word: String::new(),
        }
    }

    #[test]
    fn a_job_with_a_range_of_nodes_gets_as_many_as_planned_and_its_range_back() {
        let nodes: BTreeSet<String> = ["n1", "n2", "n3"].map(str::to_owned).into();
        let fresh = target(false, false);
        let (target, limit) = (&fresh, None);
        let (nodes, all, by_hold) = (&nodes, &nodes, false);
        let act = release(&Release { target, nodes, all, limit, by_hold });
        let told = act[2..].join(" ");
        let right = "ReservationName=muster_p ReqNodeList=n[1-3] NumNodes=3-3 \
            AdminComment=muster://2-4/2";
        assert_eq!(told, right.split_whitespace().collect::<Vec<_>>().join(" "));
        let back = give_back(&self::target(true, true))[2..].join(" ");
        let right = "ReservationName= ReqNodeList= NumNodes=2-4 NumCPUs=2 AdminComment=";
        assert_eq!(back, right);
    }

    #[test]
    fn what_stands_as_it_was_asked_is_not_told() {
        let back = give_back(&target(false, true))[2..].join(" ");
        assert_eq!(back, "ReservationName= AdminComment=");
    }
}
