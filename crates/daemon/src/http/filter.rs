//! Which jobs a query means.

use super::error::Refusal;
use muster_api::{JobFilter, JobRef, QueueQuery};
use muster_model::{Job, JobId, JobState, State};
use std::collections::BTreeSet;

/// The most names in one list of a query.
const NAMES_MAX: usize = 10_000;

/// A filter over jobs, read once and asked for each.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    jobs: Option<Vec<JobRef>>,
    users: Vec<String>,
    states: States,
    partitions: Vec<String>,
    accounts: Vec<String>,
    names: Vec<String>,
    qos: Vec<String>,
    nodes: Vec<String>,
    reservations: Vec<String>,
}

/// Which states.
#[derive(Debug, Default)]
enum States {
    /// Those of jobs that are not over.
    #[default]
    Live,
    All,
    These(BTreeSet<String>),
}

impl Filter {
    /// The filter of a queue query.
    pub(crate) fn of_query(query: &QueueQuery) -> Result<Self, Refusal> {
        let states = match list(query.states.as_ref())? {
            words if words.is_empty() => States::Live,
            words if words.iter().any(|w| w == "all") => States::All,
            words => States::These(state_words(words)?),
        };
        Ok(Self {
            jobs: job_refs(query.jobs.as_ref())?,
            users: list(query.users.as_ref())?,
            states,
            partitions: list(query.partitions.as_ref())?,
            accounts: list(query.accounts.as_ref())?,
            names: list(query.names.as_ref())?,
            qos: list(query.qos.as_ref())?,
            nodes: list(query.nodes.as_ref())?,
            reservations: Vec::new(),
        })
    }

    /// The filter of an action: live jobs only.
    pub(crate) fn of_action(filter: &JobFilter) -> Result<Self, Refusal> {
        let words = filter.states.clone();
        Ok(Self {
            jobs: None,
            users: filter.users.clone(),
            states: if words.is_empty() {
                States::Live
            } else {
                States::These(state_words(words)?)
            },
            partitions: filter.partitions.clone(),
            accounts: filter.accounts.clone(),
            names: filter.names.clone(),
            qos: filter.qos.clone(),
            nodes: filter.nodes.clone(),
            reservations: filter.reservations.clone(),
        })
    }

    /// The ids to look at, ascending, after `after`: those that were named, those on the named
    /// nodes, or all.
    pub(crate) fn candidates<'a>(
        &'a self,
        state: &'a State,
        after: JobId,
    ) -> Box<dyn Iterator<Item = JobId> + 'a> {
        if let Some(jobs) = &self.jobs {
            let ids: BTreeSet<JobId> = jobs.iter().flat_map(|job| job.resolve(state)).collect();
            return Box::new(ids.into_iter().filter(move |id| *id > after));
        }
        if !self.nodes.is_empty() {
            let nodes = self.nodes.iter().filter_map(|name| state.node_named(name));
            let on = nodes.filter_map(|node| state.index.on_node.get(&node.id)).flatten();
            let ids: BTreeSet<JobId> = on.copied().collect();
            return Box::new(ids.into_iter().filter(move |id| *id > after));
        }
        if matches!(self.states, States::Live) && !state.index.ended.is_empty() {
            let pending = state.index.pending.range(JobId(after.0.saturating_add(1))..);
            let active = state.index.active.range(JobId(after.0.saturating_add(1))..);
            return Box::new(merge(pending.copied(), active.copied()));
        }
        let from = JobId(after.0.saturating_add(1));
        Box::new(state.jobs.range(from..).map(|(id, _)| *id))
    }

    /// True where the job is meant. The ids of [`Filter::candidates`] are not looked at again.
    pub(crate) fn admits(&self, job: &Job) -> bool {
        let any = |list: &[String], value: &str| list.is_empty() || list.iter().any(|x| x == value);
        let spec = &job.spec;
        let running = job.placement.as_ref().filter(|_| !job.is_pending());
        self.state_fits(job.state)
            && (self.users.is_empty()
                || any(&self.users, &spec.owner.user)
                || any(&self.users, &spec.owner.uid.to_string()))
            && any(&self.accounts, &spec.account)
            && any(&self.names, &spec.name)
            && any(&self.qos, &spec.qos)
            && (self.partitions.is_empty()
                || match running {
                    Some(placement) => any(&self.partitions, &placement.partition),
                    None => spec.partitions.iter().any(|p| self.partitions.contains(p)),
                })
            && (self.reservations.is_empty()
                || spec.request.reservation.as_ref().is_some_and(|r| self.reservations.contains(r)))
    }

    fn state_fits(&self, state: JobState) -> bool {
        match &self.states {
            States::Live => !state.is_over(),
            States::All => true,
            States::These(words) => words.contains(muster_api::job::state_word(state)),
        }
    }

    /// The first named job that is not there.
    pub(crate) fn missing(&self, state: &State) -> Option<&JobRef> {
        self.jobs.as_ref()?.iter().find(|job| job.resolve(state).is_empty())
    }
}

/// Two ascending sequences as one.
fn merge(
    a: impl Iterator<Item = JobId>,
    b: impl Iterator<Item = JobId>,
) -> impl Iterator<Item = JobId> {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    std::iter::from_fn(move || match (a.peek(), b.peek()) {
        (Some(x), Some(y)) if x < y => a.next(),
        (Some(_), None) => a.next(),
        _ => b.next(),
    })
}

/// A list joined by commas. Commas inside brackets belong to the item.
pub(crate) fn list(text: Option<&String>) -> Result<Vec<String>, Refusal> {
    let mut items = Vec::new();
    let (mut item, mut depth) = (String::new(), 0_u32);
    for c in text.into_iter().flat_map(|t| t.chars()) {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c == ',' && depth == 0 {
            items.push(std::mem::take(&mut item));
        } else {
            item.push(c);
        }
    }
    items.push(item);
    items.retain(|item| !item.is_empty());
    if items.len() > NAMES_MAX {
        let message = format!("a list has {} names; at most {NAMES_MAX} are taken", items.len());
        return Err(Refusal::invalid("E_QUERY_BAD", message));
    }
    Ok(items)
}

/// Jobs as users name them.
pub(crate) fn job_refs(text: Option<&String>) -> Result<Option<Vec<JobRef>>, Refusal> {
    let names = list(text)?;
    if names.is_empty() {
        return Ok(None);
    }
    names.iter().map(|name| job_ref(name)).collect::<Result<_, _>>().map(Some)
}

/// One job as users name it.
pub(crate) fn job_ref(name: &str) -> Result<JobRef, Refusal> {
    name.parse()
        .map_err(|error: muster_api::JobRefError| Refusal::invalid("E_JOB_NAME", error.to_string()))
}

fn state_words(words: Vec<String>) -> Result<BTreeSet<String>, Refusal> {
    for word in &words {
        if state_of(word).is_none() {
            let message = format!("{word} is no state of a job");
            return Err(Refusal::invalid("E_QUERY_BAD", message)
                .hint("states are written in snake case: pending, running, out_of_memory, …"));
        }
    }
    Ok(words.into_iter().collect())
}

/// The state of this word.
pub(crate) fn state_of(word: &str) -> Option<JobState> {
    serde_json::from_value(serde_json::Value::String(word.to_owned())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_inside_brackets_belong_to_the_item() {
        let text = "7,900_[1-3,5],12".to_owned();
        assert_eq!(list(Some(&text)).unwrap(), ["7", "900_[1-3,5]", "12"]);
    }

    #[test]
    fn an_unknown_state_is_refused() {
        assert!(state_words(vec!["pending".to_owned()]).is_ok());
        assert!(state_words(vec!["PD".to_owned()]).is_err());
    }

    #[test]
    fn two_sequences_become_one() {
        let ids = |list: &[u32]| list.iter().map(|i| JobId(*i)).collect::<Vec<_>>();
        let merged: Vec<JobId> =
            merge(ids(&[1, 4, 9]).into_iter(), ids(&[2, 5]).into_iter()).collect();
        assert_eq!(merged, ids(&[1, 2, 4, 5, 9]));
    }
}
