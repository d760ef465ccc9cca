//! The commands of a scenario.

use crate::error::{Fault, Read, ScenarioError};
use crate::lab::Lab;
use crate::text::{
    Word, count_or_none, fields, limit, memory, named, names, node_id, number, words,
};
use crate::{ask, dependency, fixture, print, tell};
use muster_model::{
    ApplyError, Availability, Drain, EventKind, ForeignUse, Hold, JobId, JobUpdate, LicenceHold,
    NodeTally, Plan, Reason, State, Timestamp,
};
use std::sync::Arc;

/// What a scenario is run against.
pub trait Scheduler {
    /// Plans one round.
    fn plan(&mut self, state: &State, now: Timestamp) -> Plan;
    /// Why a job waits: the binding reason first.
    fn reasons(&mut self, state: &State, now: Timestamp, job: JobId) -> Vec<Reason>;
    /// Why each waiting job waits, in order of number.
    fn queue(&mut self, state: &State, now: Timestamp) -> Vec<(JobId, Reason)>;
    /// What would help a job, a sentence each.
    fn suggestions(&mut self, state: &State, now: Timestamp, job: JobId) -> Vec<String>;
    /// What keeps a job from each node, counted.
    fn tally(&mut self, state: &State, now: Timestamp, job: JobId) -> Vec<NodeTally>;
    /// Rules that a plan breaks, a sentence each.
    fn violations(&mut self, state: &State, plan: &Plan) -> Vec<String>;
    /// The earliest and the latest start of a job, where they can be foreseen.
    fn window(
        &mut self,
        state: &State,
        now: Timestamp,
        job: JobId,
    ) -> Option<(Timestamp, Option<Timestamp>)>;
    /// Whose expected start changes would move: before and after.
    ///
    /// # Errors
    /// A change does not fit the state.
    fn whatif(
        &mut self,
        state: &State,
        now: Timestamp,
        changes: &[EventKind],
    ) -> Result<Vec<Moved>, ApplyError>;
    /// Plans a round, saves it, reads it back and plans it again.
    ///
    /// # Errors
    /// It cannot be saved or read.
    fn replay(
        &mut self,
        state: &State,
        now: Timestamp,
        without_names: bool,
    ) -> Result<Replayed, String>;
}

/// A job, and its expected start without and with a change.
pub type Moved = (JobId, Option<Timestamp>, Option<Timestamp>);

/// A saved round planned again.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Its state.
    pub state: State,
    /// The plan that came out.
    pub plan: Plan,
    /// It is the plan that was saved.
    pub same: bool,
}

/// Commands beside the lines that describe the site.
pub const COMMANDS: &[&str] = &[
    "submit",
    "submit-het",
    "plan",
    "at",
    "exit",
    "lose",
    "cancel",
    "hold",
    "hold-admin",
    "release",
    "suspend",
    "resume-job",
    "update",
    "checkpointed",
    "take-back",
    "saturated",
    "drain",
    "resume",
    "down",
    "up",
    "foreign",
    "queue",
    "why",
    "help",
    "tally",
    "when",
    "whatif",
    "check",
    "replay",
    "where",
    "show",
    "priority",
    "share",
];

/// Carries one command out; gives what it prints.
///
/// # Errors
/// It cannot be read, or not be carried out now.
pub fn obey(lab: &mut Lab, scheduler: &mut dyn Scheduler, command: &str) -> Read<Vec<String>> {
    let words = words(command)?;
    if lab.site_line(&words)? {
        return Ok(Vec::new());
    }
    let (verb, rest) = named(&words, "a command after the >")?;
    match verb {
        "submit" | "submit-het" => {
            let first = lab.submit_words(rest)?;
            return Ok(vec![print::submitted(&lab.state, first)]);
        }
        "at" => {
            let (minute, _) = named(rest, "at MINUTE")?;
            lab.at_minute(number(minute).map_err(|error| error.at(&rest[0]))?)?;
        }
        "plan" => return plan(lab, scheduler),
        "priority" => return Ok(print::priority(&lab.state, lab.now)),
        "share" => return Ok(print::share(&lab.state, lab.now)),
        "queue" => {
            let line = |(id, reason): (JobId, Reason)| {
                format!("{} {}", print::title(&lab.state, id), reason.slurm_word())
            };
            return Ok(scheduler.queue(&lab.state, lab.now).into_iter().map(line).collect());
        }
        "foreign" => foreign(lab, rest)?,
        "saturated" => saturated(lab, rest)?,
        "drain" | "resume" | "down" | "up" => of_nodes(lab, verb, rest)?,
        "why" | "help" | "tally" | "when" | "check" | "where" | "show" => {
            return ask::of_job(lab, scheduler, verb, rest);
        }
        "whatif" => return ask::whatif(lab, scheduler, rest),
        "replay" => return ask::replay(lab, scheduler, rest),
        _ => of_job(lab, &words[0], rest)?,
    }
    Ok(Vec::new())
}

/// The job that a command names, and the words after it.
pub(crate) fn job<'a>(lab: &Lab, verb: &str, words: &'a [Word]) -> Read<(JobId, &'a [Word])> {
    let (name, rest) = named(words, &format!("{verb} JOB"))?;
    let found = lab.find(name).and_then(|id| lab.job(id).map(|job| job.id));
    Ok((found.map_err(|error| error.at(&words[0]))?, rest))
}

/// Commands that do something to a job.
fn of_job(lab: &mut Lab, verb: &Word, words: &[Word]) -> Read<()> {
    if !COMMANDS.contains(&verb.text.as_str()) {
        let known: Vec<&str> = [COMMANDS, fixture::WORDS].concat();
        let mut error = ScenarioError::option("a scenario", &verb.text, &known).at(verb);
        error.fault = Fault::Command;
        return Err(error);
    }
    let (id, rest) = job(lab, &verb.text, words)?;
    match verb.text.as_str() {
        "exit" => {
            let code =
                rest.first().map_or(Ok(0), |word| number(&word.text).map_err(|e| e.at(word)));
            lab.exit(id, code?)
        }
        "lose" => lab.lose(id),
        "cancel" => lab.cancel(id),
        "hold" => lab.event(EventKind::JobHeld { job: id, hold: Hold::User }),
        "hold-admin" => lab.event(EventKind::JobHeld { job: id, hold: Hold::Admin }),
        "release" => lab.event(EventKind::JobReleased { job: id }),
        "suspend" => lab.suspend_by_hand(id, true),
        "resume-job" => lab.suspend_by_hand(id, false),
        "checkpointed" => {
            let attempt = lab.job(id)?.attempt;
            let checkpointed = EventKind::JobCheckpointed { job: id, attempt };
            lab.obeyed(&format!("checkpointed {id}"), checkpointed)
        }
        "take-back" => lab.take_back(id),
        _ => update(lab, id, rest),
    }
    .map_err(|error| error.at(&words[0]))
}

/// Plans, checks and carries out; prints what is broken, starts, rejections and promises.
fn plan(lab: &mut Lab, scheduler: &mut dyn Scheduler) -> Read<Vec<String>> {
    let plan = scheduler.plan(&lab.state, lab.now);
    let mut lines = scheduler.violations(&lab.state, &plan);
    let broken = !lines.is_empty();
    lines.extend(print::plan(&lab.state, &plan));
    // A plan that breaks a rule is not carried out.
    if !broken {
        lab.carry_out(&plan)?;
    }
    Ok(lines)
}

/// `foreign NODE gpu=0:4G mem=1G`: what is not ours takes memory of a GPU or of the node; without
/// more, it lets go.
fn foreign(lab: &mut Lab, words: &[Word]) -> Read<()> {
    let (name, uses) = named(words, "foreign NODE gpu=INDEX:MEMORY")?;
    let node = node_id(&lab.state, name).map_err(|error| error.at(&words[0]))?;
    let devices = lab.state.nodes.get(&node).map_or(0, |node| node.devices.len());
    let mut foreign = Vec::new();
    fields(uses, |key, value| {
        let (device, amount) = match key {
            "gpu" => {
                let (index, memory) = value.split_once(':').unwrap_or((value, "0"));
                let index = count_or_none(index)?;
                if index as usize >= devices {
                    return Err(ScenarioError::value(value, "a GPU of this node"));
                }
                (Some(index), memory)
            }
            "mem" => (None, value),
            _ => return Err(ScenarioError::option("foreign use", key, &["gpu", "mem"])),
        };
        foreign.push(ForeignUse {
            device,
            memory: memory(amount)?,
            owner: "someone".to_owned(),
            what: "1 python".to_owned(),
            ..ForeignUse::default()
        });
        Ok(())
    })?;
    lab.event(EventKind::NodeForeign { node, foreign })
}

/// `saturated LICENCE FILESYSTEM`: the licence is not given out any more; `none`, it is again.
fn saturated(lab: &mut Lab, words: &[Word]) -> Read<()> {
    let (name, rest) = named(words, "saturated LICENCE FILESYSTEM")?;
    if !lab.state.licences.contains_key(name) {
        let known: Vec<&str> = lab.state.licences.keys().map(String::as_str).collect();
        return Err(ScenarioError::option("a licence", name, &known).at(&words[0]));
    }
    let filesystem = rest.first().map_or("none", |word| word.text.as_str());
    let hold = (filesystem != "none").then(|| LicenceHold {
        filesystem: filesystem.to_owned(),
        figure: "93 % busy, more than 90 %".to_owned(),
        since: lab.now,
    });
    let command = format!("saturated {}", tell::line(words));
    lab.obeyed(&command, EventKind::LicenceHeld { name: name.to_owned(), hold })
}

fn of_nodes(lab: &mut Lab, verb: &str, words: &[Word]) -> Read<()> {
    node_events(lab, verb, words)?.into_iter().try_for_each(|kind| lab.event(kind))
}

/// What happens to each node of a list.
fn node_events(lab: &Lab, verb: &str, words: &[Word]) -> Read<Vec<EventKind>> {
    let (list, _) = named(words, &format!("{verb} NODES"))?;
    let since = lab.now;
    let of = |node| match verb {
        "drain" => EventKind::NodeDrain {
            node,
            drain: Some(Drain { reason: "test".to_owned(), by: "root".to_owned(), since }),
        },
        "resume" => EventKind::NodeDrain { node, drain: None },
        "down" => EventKind::NodeAvailability {
            node,
            availability: Availability::Down { reason: "no answer".to_owned(), since },
        },
        _ => EventKind::NodeAvailability { node, availability: Availability::Up },
    };
    let names = names(list).map_err(|error| error.at(&words[0]))?;
    let events = names.iter().map(|name| node_id(&lab.state, name).map(of));
    events.collect::<Read<_>>().map_err(|error| error.at(&words[0]))
}

/// The events of a change that is only tried.
pub(crate) fn changes(lab: &Lab, words: &[Word]) -> Read<Vec<EventKind>> {
    let (verb, rest) = named(words, "whatif drain NODES, or another change")?;
    match verb {
        "submit" | "submit-het" => Ok(vec![lab.submission(rest)?]),
        "drain" | "resume" | "down" | "up" => node_events(lab, verb, rest),
        _ => fixture::line_events(&lab.state, words)?.ok_or_else(|| {
            let known =
                [&["submit", "submit-het", "drain", "resume", "down", "up"], fixture::WORDS];
            let mut error = ScenarioError::option("whatif", verb, &known.concat()).at(&words[0]);
            error.fault = Fault::Command;
            error
        }),
    }
}

fn update(lab: &mut Lab, job: JobId, words: &[Word]) -> Read<()> {
    let mut update = JobUpdate::default();
    fields(words, |key, value| {
        match key {
            "time" => update.time_limit = Some(limit(value)?),
            "throttle" => {
                update.array_throttle = Some(Some(count_or_none(value)?).filter(|n| *n > 0));
            }
            "depend" => {
                let mut spec = lab.job(job)?.spec.as_ref().clone();
                spec.dependency = Some(dependency::dependency(value, &|name| lab.find(name))?);
                update.spec = Some(Arc::new(spec));
            }
            _ => {
                let known = ["time", "throttle", "depend"];
                return Err(ScenarioError::option("update", key, &known));
            }
        }
        Ok(())
    })?;
    let command = format!("update {job} {}", tell::line(words));
    lab.obeyed(&command, EventKind::JobUpdated { job, update: Box::new(update) })
}
