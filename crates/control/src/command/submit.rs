//! Submission: defaults filled in, everything named looked up, the impossible refused.

use super::limits::{self, bad};
use super::shapes::Shapes;
use super::{CommandError, Meaning, Principal, Reply, Submission, feasible};
use muster_model::{
    Account, DependencyKind, DependencyTarget, EventKind, JobId, JobSpec, Partition, State,
    TimeLimit, Timestamp, nearest,
};
use muster_store::Blob;
use std::sync::Arc;

/// The account of jobs that name none, where no account is theirs by default.
pub(super) const DEFAULT_ACCOUNT: &str = "default";
/// The QOS of jobs that name none.
pub(super) const DEFAULT_QOS: &str = "normal";

/// Takes a job.
pub(super) fn submit(
    state: &State,
    shapes: &mut Shapes,
    at: Timestamp,
    principal: &Principal,
    submission: &Submission,
) -> Result<Meaning, CommandError> {
    let mut specs = check_with(state, shapes, at, principal, submission)?;
    let bytes = serde_json::to_vec(&submission.payload)
        .map_err(|error| CommandError::Fault { why: error.to_string() })?;
    let blob = Blob::new(bytes);
    for spec in &mut specs {
        spec.payload = blob.id().clone();
    }
    let count = ids_taken(&specs);
    let id = JobId(state.last_job.0 + 1);
    // Collected in place, the list would keep the room of whole specs as long as the event is kept.
    let mut shared = Vec::with_capacity(specs.len());
    shared.extend(specs.into_iter().map(Arc::new));
    let specs = shared;
    Ok(Meaning {
        events: vec![EventKind::JobSubmitted { first: id, specs }],
        blobs: vec![blob],
        reply: Reply::Submitted { id, count },
    })
}

/// Checks a submission without taking it (`--test-only`), and gives its specs with the defaults
/// filled in.
///
/// # Errors
/// Why it would be refused.
pub fn check_submission(
    state: &State,
    at: Timestamp,
    principal: &Principal,
    submission: &Submission,
) -> Result<Vec<JobSpec>, CommandError> {
    check_with(state, &mut Shapes::default(), at, principal, submission)
}

fn check_with(
    state: &State,
    shapes: &mut Shapes,
    at: Timestamp,
    principal: &Principal,
    submission: &Submission,
) -> Result<Vec<JobSpec>, CommandError> {
    limits::check(submission)?;
    check_array(state, &submission.specs)?;
    check_gang(state, &submission.specs)?;
    let specs = submission
        .specs
        .iter()
        .map(|spec| complete(state, principal, spec))
        .collect::<Result<Vec<_>, _>>()?;
    for spec in &specs {
        check_spec(state, shapes, at, principal, spec)?;
    }
    check_room(state, ids_taken(&specs))?;
    check_limits(state, at, &specs)?;
    Ok(specs)
}

/// Checks one spec whose defaults are filled in, new or changed.
pub(super) fn check_spec(
    state: &State,
    shapes: &mut Shapes,
    at: Timestamp,
    principal: &Principal,
    spec: &JobSpec,
) -> Result<(), CommandError> {
    check_account(state, spec)?;
    let partitions = partitions_of(state, spec)?;
    check_dependency(state, spec)?;
    check_times(at, spec)?;
    shapes.refresh(state);
    check_names(state, shapes, spec)?;
    if spec.nice < 0 {
        super::admins_only(principal, "raise a priority with a negative nice")?;
    }
    if spec.priority.is_some_and(|p| p > 0) {
        super::admins_only(principal, "set a priority")?;
    }
    if state.policy.enforce_partition_limits {
        within_some(&partitions, spec)?;
    }
    feasible::check(shapes, spec, &state.policy.devices, &partitions)?;
    super::nearness::check(state, spec, &partitions)
}

fn ids_taken(specs: &[JobSpec]) -> u32 {
    match specs {
        [only] => only.array.as_ref().map_or(1, |array| array.indices.len()),
        many => many.len() as u32,
    }
}

fn check_room(state: &State, wanted: u32) -> Result<(), CommandError> {
    let unfinished = (state.index.pending.len() + state.index.active.len()) as u64;
    let limit = state.policy.max_job_count;
    if unfinished + u64::from(wanted) > u64::from(limit) {
        return Err(CommandError::TooManyJobs { unfinished, wanted: u64::from(wanted), limit });
    }
    if state.last_job.0.checked_add(wanted).is_none() {
        return Err(CommandError::Fault { why: "job ids are used up".to_owned() });
    }
    Ok(())
}

/// Limits on how many jobs wait or run, and what a QOS denies outright.
fn check_limits(state: &State, at: Timestamp, specs: &[JobSpec]) -> Result<(), CommandError> {
    let association = |spec: &JobSpec| (spec.account.clone(), spec.owner.uid, spec.qos.clone());
    for spec in specs {
        let alike = specs.iter().filter(|other| association(other) == association(spec)).count();
        let count = if specs.len() == 1 { ids_taken(specs) } else { alike as u32 };
        if let Some(reason) =
            muster_planner::limits::at_submission(state, at, spec, count).into_iter().next()
        {
            return Err(CommandError::LimitBroken { reason: Box::new(reason) });
        }
    }
    Ok(())
}

/// All that join a gang say the same of its size: those that differ would wait for each other.
fn check_gang(state: &State, specs: &[JobSpec]) -> Result<(), CommandError> {
    for spec in specs {
        let Some(gang) = &spec.gang else { continue };
        let members = state.index.gangs.get(&(spec.owner.uid, gang.name.clone()));
        let mut members = members.into_iter().flatten().filter_map(|id| state.jobs.get(id));
        let other = members.find_map(|job| {
            let size = job.spec.gang.as_ref()?.size;
            (size != gang.size).then(|| (job.display_id(), size))
        });
        if let Some((job, size)) = other {
            let (name, own) = (&gang.name, gang.size);
            let why = format!("gang {name} has size {size} by job {job}, not {own}");
            return Err(bad("gang", why));
        }
    }
    Ok(())
}

fn check_array(state: &State, specs: &[JobSpec]) -> Result<(), CommandError> {
    if specs.len() > 1 && specs.iter().any(|spec| spec.gang.is_some()) {
        let why = "a heterogeneous job starts together by itself and is of no gang";
        return Err(bad("gang", why.to_owned()));
    }
    let max = state.policy.max_array_size;
    for array in specs.iter().filter_map(|spec| spec.array.as_ref()) {
        if specs.len() > 1 {
            return Err(bad("array", "a heterogeneous job cannot be an array".to_owned()));
        }
        match array.indices.last() {
            None => return Err(bad("array", "expected at least one index".to_owned())),
            Some(last) if last >= max => {
                let why =
                    format!("expected indices below {max} (policy.max_array_size), found {last}");
                return Err(bad("array", why));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Fills in what was not asked for.
fn complete(state: &State, principal: &Principal, spec: &JobSpec) -> Result<JobSpec, CommandError> {
    if spec.owner.uid != principal.uid {
        super::admins_only(principal, "submit for another user")?;
    }
    let mut spec = spec.clone();
    if spec.account.is_empty() {
        spec.account = default_account(state, &spec.owner.user);
    }
    if spec.qos.is_empty() {
        DEFAULT_QOS.clone_into(&mut spec.qos);
    }
    if spec.partitions.is_empty() {
        let default = state
            .default_partition()
            .ok_or_else(|| bad("partition", "none is named, and none is the default".to_owned()))?;
        spec.partitions = vec![default.name.clone()];
    }
    Ok(spec)
}

fn default_account(state: &State, user: &str) -> String {
    let own = |account: &&Arc<Account>| account.default_for.contains(user);
    state
        .accounts
        .values()
        .find(own)
        .map_or_else(|| DEFAULT_ACCOUNT.to_owned(), |account| account.name.clone())
}

fn unknown<'a>(
    kind: &'static str,
    name: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> CommandError {
    CommandError::UnknownName {
        kind,
        name: name.to_owned(),
        nearest: nearest(name, names).map(str::to_owned),
    }
}

fn check_account(state: &State, spec: &JobSpec) -> Result<(), CommandError> {
    let user = &spec.owner.user;
    let account = state.accounts.get(&spec.account).ok_or_else(|| {
        unknown("account", &spec.account, state.accounts.keys().map(String::as_str))
    })?;
    if !account.admits(user) {
        let others = state.accounts.values().filter(|a| a.admits(user));
        return Err(CommandError::AccountRefused {
            account: account.name.clone(),
            user: user.clone(),
            others: others.map(|a| a.name.clone()).take(8).collect(),
        });
    }
    if !state.qos.contains_key(&spec.qos) {
        return Err(unknown("qos", &spec.qos, state.qos.keys().map(String::as_str)));
    }
    Ok(())
}

fn partitions_of(state: &State, spec: &JobSpec) -> Result<Vec<Arc<Partition>>, CommandError> {
    let mut found = Vec::with_capacity(spec.partitions.len());
    for name in &spec.partitions {
        let partition = state.partitions.get(name).ok_or_else(|| {
            unknown("partition", name, state.partitions.keys().map(String::as_str))
        })?;
        if !partition.state.takes_jobs() {
            let (partition, state) = (name.clone(), partition.state);
            return Err(CommandError::PartitionClosed { partition, state });
        }
        let open = &partition.allow_accounts;
        if !open.is_empty() && !open.contains(&spec.account) {
            return Err(CommandError::PartitionRefused {
                partition: name.clone(),
                account: spec.account.clone(),
            });
        }
        found.push(Arc::clone(partition));
    }
    Ok(found)
}

/// Success or failure of an unknown job cannot be known, its having ended can be assumed (S-19).
fn check_dependency(state: &State, spec: &JobSpec) -> Result<(), CommandError> {
    for term in spec.dependency.iter().flat_map(|d| &d.terms) {
        let must_be_known = match term.kind {
            DependencyKind::AfterOk | DependencyKind::AfterNotOk | DependencyKind::AfterCorr => {
                true
            }
            DependencyKind::After | DependencyKind::AfterAny | DependencyKind::Singleton => false,
        };
        let unknown = match &term.target {
            None => None,
            Some(DependencyTarget::Job(id)) => {
                let known = state.jobs.contains_key(id) || state.index.arrays.contains_key(id);
                (!known).then(|| id.to_string())
            }
            Some(DependencyTarget::Tasks(array, indices)) => {
                if indices.len() as usize > limits::LIST_MAX {
                    let why = format!("expected at most {} tasks", limits::LIST_MAX);
                    return Err(bad("dependency", why));
                }
                let known = |index: u32| {
                    state.array_task(*array, index).is_some_and(|id| state.jobs.contains_key(&id))
                };
                indices.iter().find(|index| !known(*index)).map(|index| format!("{array}_{index}"))
            }
        };
        if let Some(job) = unknown.filter(|_| must_be_known) {
            return Err(CommandError::UnknownDependency { term: term.to_string(), job });
        }
    }
    Ok(())
}

fn check_times(at: Timestamp, spec: &JobSpec) -> Result<(), CommandError> {
    let limit = spec.time_limit.and_then(TimeLimit::seconds);
    if limit.is_some_and(|limit| limit.0 == 0) {
        return Err(bad("time", "expected at least one second".to_owned()));
    }
    if let (Some(min), Some(limit)) = (spec.time_min, limit)
        && min > limit
    {
        return Err(bad(
            "time-min",
            format!("{} s is above the time limit of {} s", min.0, limit.0),
        ));
    }
    let Some(deadline) = spec.deadline else { return Ok(()) };
    if deadline <= at {
        return Err(bad("deadline", "it is in the past".to_owned()));
    }
    let shortest = spec.time_min.or(limit).unwrap_or_default();
    let begin = spec.begin.unwrap_or(at).max(at);
    if begin.plus(shortest) > deadline {
        let why = format!("no {} s are left between the earliest start and it", shortest.0);
        return Err(bad("deadline", why));
    }
    Ok(())
}

/// Everything that a request names must be somewhere.
fn check_names(state: &State, shapes: &Shapes, spec: &JobSpec) -> Result<(), CommandError> {
    let request = &spec.request;
    for name in request.node_list.iter().chain(&request.exclude) {
        if state.node_named(name).is_none() && !in_some_partition(state, name) {
            let names = state.nodes.values().map(|n| n.name.as_str());
            return Err(unknown("node", name, names));
        }
    }
    if let Some(both) = request.node_list.intersection(&request.exclude).next() {
        return Err(bad("exclude", format!("node {both} is also in the node list")));
    }
    if let Some(constraint) = &request.constraint {
        let known = |name: &&str| shapes.kinds().any(|n| n.features.contains(*name));
        if let Some(name) = constraint.names().iter().find(|name| !known(name)) {
            let features = shapes.kinds().flat_map(|n| &n.features);
            return Err(unknown("feature", name, features.map(String::as_str)));
        }
    }
    for licence in &request.licences {
        let known = state.licences.get(&licence.name).ok_or_else(|| {
            unknown("licence", &licence.name, state.licences.keys().map(String::as_str))
        })?;
        if licence.count == 0 || licence.count > known.total {
            let (count, name, total) = (licence.count, &known.name, known.total);
            return Err(bad("licenses", format!("{count} of {name}; there are {total}")));
        }
    }
    for name in request.reservations() {
        let Some(known) = state.reservations.get(name) else {
            let names = state.reservations.keys().map(String::as_str);
            return Err(unknown("reservation", name, names));
        };
        if !state.may_use(known, &spec.owner, &spec.account) {
            let why = format!("{} ({}) may not use {name}", spec.owner.user, spec.account);
            return Err(bad("reservation", why));
        }
    }
    let devices = || shapes.kinds().flat_map(|n| &n.devices);
    let types = request.gpus.iter().filter(|g| g.count > 0).filter_map(|g| g.model.as_deref());
    // A MIG profile in place of a model, or behind it, is judged with the sizes.
    for model in types.filter_map(|kind| muster_model::mig::split_type(kind).0) {
        if !devices().any(|d| d.model.eq_ignore_ascii_case(model)) && !state.nodes.is_empty() {
            return Err(unknown("GPU model", model, devices().map(|d| d.model.as_str())));
        }
    }
    for name in request.gres.keys() {
        if !shapes.kinds().any(|n| n.gres.contains_key(name)) {
            let names = shapes.kinds().flat_map(|n| n.gres.keys());
            return Err(unknown("gres", name, names.map(String::as_str)));
        }
    }
    Ok(())
}

/// A node that a partition names is known, also before its engine lists it.
fn in_some_partition(state: &State, node: &str) -> bool {
    state.partitions.values().any(|p| p.nodes.contains(node))
}

/// At least one partition's limits admit the job.
fn within_some(partitions: &[Arc<Partition>], spec: &JobSpec) -> Result<(), CommandError> {
    let mut refusal = None;
    for partition in partitions {
        match within(partition, spec) {
            Ok(()) => return Ok(()),
            Err(error) => refusal = Some(error),
        }
    }
    refusal.map_or(Ok(()), Err)
}

fn within(partition: &Partition, spec: &JobSpec) -> Result<(), CommandError> {
    let above = |what, wanted, limit| CommandError::AboveLimit {
        what,
        wanted,
        limit,
        partition: partition.name.clone(),
    };
    if let (TimeLimit::Of(max), Some(asked)) = (partition.max_time, spec.time_limit) {
        // A limit that may be cut down fits where its minimum does.
        let least = spec.time_min.map_or(asked, TimeLimit::Of);
        let minutes = |s: u64| format!("{} minutes", s / 60);
        match least {
            TimeLimit::Unlimited => {
                return Err(above("time limit", "unlimited".to_owned(), minutes(max.0)));
            }
            TimeLimit::Of(s) if s > max => {
                return Err(above("time limit", minutes(s.0), minutes(max.0)));
            }
            TimeLimit::Of(_) => {}
        }
    }
    let nodes = spec.request.nodes_min();
    if let Some(max) = partition.max_nodes
        && nodes > max
    {
        return Err(above("node count", nodes.to_string(), max.to_string()));
    }
    Ok(())
}
