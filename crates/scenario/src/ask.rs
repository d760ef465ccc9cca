//! Commands that ask and change nothing.

use crate::command::{Replayed, Scheduler, changes, job};
use crate::error::{Fault, Read, ScenarioError};
use crate::lab::Lab;
use crate::print;
use crate::text::{Word, count, fields, memory, named, node_id};
use muster_model::{
    CpuSet, Decision, DeviceGrant, DeviceMilli, JobId, Node, NodeShare, Placement, Plan, Start,
};
use std::sync::Arc;

/// Commands about one job.
pub(crate) fn of_job(
    lab: &Lab,
    scheduler: &mut dyn Scheduler,
    verb: &str,
    words: &[Word],
) -> Read<Vec<String>> {
    let (id, rest) = job(lab, verb, words)?;
    let (state, now, record) = (&lab.state, lab.now, lab.job(id)?);
    match verb {
        "where" => return Ok(print::whereabouts(state, record)),
        "show" => return Ok(vec![print::standing(record, &print::title(state, id), now)]),
        _ if !record.is_pending() => {
            let message = format!("job {id} does not wait");
            return Err(ScenarioError::new(Fault::Order, message).at(&words[0]));
        }
        _ => {}
    }
    Ok(match verb {
        "why" => scheduler.reasons(state, now, id).iter().map(print::reason).collect(),
        "help" => scheduler.suggestions(state, now, id),
        "when" => vec![match scheduler.window(state, now, id) {
            None => "cannot be foreseen".to_owned(),
            Some((from, None)) => format!("from {}", print::time(from)),
            Some((from, Some(to))) if from == to => print::time(from),
            Some((from, Some(to))) => format!("{} to {}", print::time(from), print::time(to)),
        }],
        "check" => check(lab, scheduler, id, rest)?,
        _ => {
            let rows = scheduler.tally(state, now, id);
            rows.iter().map(|row| print::tally(state, row)).collect()
        }
    })
}

/// `whatif drain n1`, `whatif submit NAME ...`, `whatif reservation ...`: whose expected start it
/// moves.
pub(crate) fn whatif(
    lab: &Lab,
    scheduler: &mut dyn Scheduler,
    words: &[Word],
) -> Read<Vec<String>> {
    let changes = changes(lab, words)?;
    let moved = scheduler.whatif(&lab.state, lab.now, &changes)?;
    if moved.is_empty() {
        return Ok(vec!["nobody starts at another time".to_owned()]);
    }
    let when = |at: Option<_>| at.map_or("no known time".to_owned(), print::time);
    let line = |(id, before, after)| {
        format!("{}: {} instead of {}", print::title(&lab.state, id), when(after), when(before))
    };
    Ok(moved.into_iter().map(line).collect())
}

/// `replay`, `replay without-names`: a round saved, read back and planned again.
pub(crate) fn replay(
    lab: &Lab,
    scheduler: &mut dyn Scheduler,
    words: &[Word],
) -> Read<Vec<String>> {
    let mut without_names = false;
    fields(words, |key, _| match key {
        "without-names" => {
            without_names = true;
            Ok(())
        }
        _ => Err(ScenarioError::option("replay", key, &["without-names"])),
    })?;
    let found = scheduler.replay(&lab.state, lab.now, without_names);
    let Replayed { state, plan, same } =
        found.map_err(|why| ScenarioError::new(Fault::Order, why))?;
    let mut lines = vec![match same {
        true => "planned again: the same plan".to_owned(),
        false => "planned again: ANOTHER PLAN".to_owned(),
    }];
    lines.extend(print::plan(&state, &plan));
    Ok(lines)
}

/// `check JOB node=n1 cpus=0-3 gpus=0,1 mem=4G tasks=2 node=n2 ...`: what the checker says of a start
/// there, which nobody planned.
fn check(lab: &Lab, scheduler: &mut dyn Scheduler, id: JobId, words: &[Word]) -> Read<Vec<String>> {
    let record = lab.job(id)?;
    let request = &record.spec.request;
    let mut nodes: Vec<NodeShare> = Vec::new();
    fields(words, |key, value| {
        if key == "node" {
            let node = node_id(&lab.state, value)?;
            let gres = request.gres.clone();
            nodes.push(NodeShare { node, tasks: 1, gres, ..NodeShare::default() });
            return Ok(());
        }
        let Some(share) = nodes.last_mut() else {
            return Err(ScenarioError::new(Fault::Command, "the node is missing")
                .hint("write node=NAME before what is taken of it"));
        };
        match key {
            "cpus" => share.cpus = set(value)?,
            "mem" => share.memory = memory(value)?,
            "tasks" => share.tasks = count(value)?,
            "gpus" => {
                let node = lab.state.nodes.get(&share.node).map(AsRef::as_ref);
                share.devices =
                    set(value)?.iter().map(|index| whole(node, index)).collect::<Read<_>>()?;
            }
            _ => {
                let known = ["node", "cpus", "gpus", "mem", "tasks"];
                return Err(ScenarioError::option("a start", key, &known));
            }
        }
        Ok(())
    })?;
    if nodes.is_empty() {
        named(&[], "check JOB node=NAME cpus=0-3 ...")?;
    }
    let licences = request.licences.iter().map(|l| (l.name.clone(), l.count)).collect();
    let partition = record.spec.partitions.first().cloned().unwrap_or_default();
    let reservation = request.reservation.clone();
    let start = Start {
        job: id,
        attempt: record.attempt + 1,
        placement: Arc::new(Placement { partition, nodes, licences, reservation }),
        time_limit: record.time_limit,
        turn: None,
    };
    let decisions = vec![Decision::Start(vec![start])];
    let plan = Plan { now: lab.now, seq: lab.state.seq, decisions, ..Plan::default() };
    let found = scheduler.violations(&lab.state, &plan);
    Ok(if found.is_empty() { vec!["breaks no rule".to_owned()] } else { found })
}

fn set(text: &str) -> Read<CpuSet> {
    CpuSet::parse(text)
        .map_err(|_| ScenarioError::value(text, "a set of numbers").hint("write 0-3 or 0,2"))
}

/// The whole of a node's GPU.
fn whole(node: Option<&Node>, index: u32) -> Read<DeviceGrant> {
    let device = node.and_then(|node| node.devices.get(index as usize));
    let missing = || ScenarioError::value(&index.to_string(), "a GPU of this node");
    let memory = device.ok_or_else(missing)?.memory;
    Ok(DeviceGrant { index, share: DeviceMilli::WHOLE, memory, mig: None })
}
