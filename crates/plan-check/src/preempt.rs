//! Is each eviction permitted, useful, no larger than it must be, and is its room kept?
//!
//! The rules are worked out from the state alone: a copy of it in which the victims are gone (or
//! stand still) must have the room, and one in which one of them stays must not.

use crate::beside::Beside;
use crate::fit::{When, lies_on, room};
use crate::keys::Keys;
use crate::{
    Rule, Violation, affinity, elastic, layout, limits, order, promise, starts, usage, waiting,
};
use muster_model::{
    Account, Amounts, Decision, EndCause, Event, EventKind, ExitReport, ExitStatus, Job, JobId,
    JobKind, JobState, Node, NodeId, Plan, Preempt, PreemptMode, QuotaAmount, Reservation, Start,
    State, Timestamp, Usage, Victim,
};
use std::collections::{BTreeMap, BTreeSet};

/// Up to so many accounts above each other.
const DEPTH_MAX: usize = 64;

pub(crate) fn preempts(plan: &Plan) -> impl Iterator<Item = &Preempt> {
    plan.decisions.iter().filter_map(|d| match d {
        Decision::Preempt(preempt) => Some(preempt.as_ref()),
        _ => None,
    })
}

/// The claims whose victims have not all made their room, as the starts that they will be.
pub(crate) fn live_claims(state: &State, plan: &Plan) -> Vec<(Start, Vec<Victim>)> {
    let started: BTreeSet<JobId> = starts(plan).iter().map(|s| s.job).collect();
    state
        .index
        .claimants
        .iter()
        .filter(|id| !started.contains(id))
        .filter_map(|id| state.jobs.get(id))
        .filter_map(|job| {
            let claim = job.claim.as_ref()?;
            let usable = |id: &NodeId| state.nodes.get(id).is_some_and(|n| n.is_usable());
            let holds = claim.placement.nodes.iter().all(|share| usable(&share.node))
                && claim.victims.iter().any(|v| still_has_it(state, v));
            holds.then(|| {
                let start = Start {
                    job: job.id,
                    attempt: job.attempt.saturating_add(1),
                    placement: claim.placement.clone(),
                    time_limit: claim.time_limit,
                    turn: None,
                };
                (start, claim.victims.clone())
            })
        })
        .collect()
}

fn still_has_it(state: &State, victim: &Victim) -> bool {
    state.jobs.get(&victim.job).is_some_and(|job| victim.is_awaited(job) && !job.yields_cpus())
}

/// The state once these have made their room.
fn without(state: &State, now: Timestamp, victims: &[(&Victim, JobId)]) -> State {
    let mut after = state.clone();
    for (victim, by) in victims {
        let (job, attempt) = (victim.job, victim.attempt);
        let told = EventKind::JobPreempted { victim: Victim::clone(victim), by: *by };
        let gone = |cause| EventKind::JobExited { job, attempt, report: end(now, cause) };
        let kinds = match victim.mode {
            PreemptMode::Suspend => vec![
                told,
                EventKind::JobStarted { job, attempt },
                EventKind::JobSuspended { job, attempt, suspended: true },
            ],
            PreemptMode::Shrink => vec![told, EventKind::JobResized { job, attempt }],
            // One that starts again on what it keeps waits for that.
            PreemptMode::Checkpoint if victim.keeps.is_some() => {
                vec![told, gone(EndCause::Exited)]
            }
            _ if victim.keeps.is_some() => vec![told, gone(EndCause::Stopped)],
            _ => vec![gone(EndCause::Stopped)],
        };
        for kind in kinds {
            // One that is not there or does not run is told by a rule of its own.
            let _ = after.apply(&Event { at: now, kind });
        }
    }
    after
}

fn end(now: Timestamp, cause: EndCause) -> ExitReport {
    ExitReport {
        status: ExitStatus::default(),
        cause,
        started: None,
        ended: now,
        usage: Usage::default(),
        message: String::new(),
        steps: Vec::new(),
    }
}

/// The state with every claim's and every decision's room made, and the starts that use it.
pub(crate) fn made(state: &State, plan: &Plan) -> (State, Vec<Start>) {
    let claims = live_claims(state, plan);
    let first =
        |job: JobId| state.jobs.get(&job).and_then(|j| j.het).map_or(job, |part| part.leader);
    let mut victims: Vec<(&Victim, JobId)> = Vec::new();
    for (start, made_by) in &claims {
        victims.extend(made_by.iter().map(|victim| (victim, first(start.job))));
    }
    // Jobs that start together all name who made room for them, and that is one all the same.
    let mut named = BTreeSet::new();
    victims.retain(|(victim, _)| named.insert((victim.job, victim.attempt)));
    for preempt in preempts(plan) {
        victims.extend(preempt.victims.iter().map(|victim| (victim, leader(preempt))));
    }
    let growing = elastic::growing(state);
    let grows = elastic::grows(plan);
    victims.extend(growing.iter().chain(grows).map(|victim| (victim, victim.job)));
    let after = without(state, plan.now, &victims);
    let mut held: Vec<Start> = claims.iter().map(|(start, _)| start.clone()).collect();
    // An elastic job starts again at once on what it keeps.
    held.extend(victims.iter().filter_map(|(victim, _)| elastic::again(&after, victim)));
    held.extend(preempts(plan).flat_map(|p| p.starts.iter().cloned()));
    (after, held)
}

/// Jobs that wait for room that is theirs already.
pub(crate) fn claimants(state: &State, plan: &Plan) -> BTreeSet<JobId> {
    live_claims(state, plan).into_iter().map(|(start, _)| start.job).collect()
}

/// Nodes on which room is made, or somebody stands still: what is free there may be spoken for.
pub(crate) fn touched(state: &State, plan: &Plan) -> BTreeSet<NodeId> {
    let claims = live_claims(state, plan);
    let held = claims.iter().map(|(start, _)| start);
    let new = preempts(plan).flat_map(|p| &p.starts);
    let mut nodes: BTreeSet<NodeId> =
        held.chain(new).flat_map(|s| s.placement.nodes.iter().map(|n| n.node)).collect();
    let evicted = state
        .index
        .evicted
        .iter()
        .chain(preempts(plan).flat_map(|p| &p.victims).map(|victim| &victim.job));
    for job in evicted.filter_map(|id| state.jobs.get(id)) {
        let keeps = job.eviction.as_ref().and_then(|eviction| eviction.keeps.as_ref());
        let all = job.placement.iter().chain(keeps);
        nodes.extend(all.flat_map(|placement| &placement.nodes).map(|share| share.node));
    }
    nodes
}

pub(crate) fn check(state: &State, plan: &Plan, found: &mut Vec<Violation>) {
    let (after, held) = made(state, plan);
    if !held.is_empty() {
        let all: Vec<&Start> = starts(plan).into_iter().chain(&held).collect();
        let before = found.len();
        usage::check_starts(&after, &all, found);
        for violation in &mut found[before..] {
            // What is held is nobody else's; a start that needs it takes it.
            violation.rule = Rule::ClaimTaken;
        }
    }
    let mut chosen = BTreeSet::new();
    for preempt in preempts(plan) {
        affinity::check(&after, &preempt.starts.iter().collect::<Vec<_>>(), found);
        for start in &preempt.starts {
            layout::check(&after, plan.now, start, found);
        }
        for victim in &preempt.victims {
            if !chosen.insert(victim.job) {
                let detail = format!("makes room twice, also for job {}", leader(preempt));
                found.push(Violation::of(Rule::VictimLeaving, victim.job, detail));
            }
        }
        victims(state, plan, preempt, found);
        needless(state, plan, preempt, found);
    }
    elastic::check(state, plan, found);
    resumes(state, plan, found);
}

fn leader(preempt: &Preempt) -> JobId {
    preempt.starts.first().map_or(JobId(0), |start| start.job)
}

fn victims(state: &State, plan: &Plan, preempt: &Preempt, found: &mut Vec<Violation>) {
    let by: Vec<(&Job, Option<&Reservation>)> = preempt
        .starts
        .iter()
        .filter_map(|s| {
            let own =
                s.placement.reservation.as_ref().and_then(|name| state.reservations.get(name));
            Some((state.jobs.get(&s.job)?.as_ref(), own.map(AsRef::as_ref)))
        })
        .collect();
    let tier = preempt
        .starts
        .iter()
        .filter_map(|s| state.partitions.get(&s.placement.partition))
        .map(|p| p.tier)
        .min()
        .unwrap_or(0);
    let more = preempt.starts.iter().map(|s| Amounts::of(&s.placement));
    let more = more.fold(Amounts::default(), Amounts::plus);
    let present: BTreeSet<JobId> = preempt.victims.iter().map(|v| v.job).collect();
    for victim in &preempt.victims {
        let mut say = |rule: Rule, detail: String| {
            let jobs = std::iter::once(leader(preempt)).chain([victim.job]).collect();
            found.push(Violation { rule, jobs, node: None, detail });
        };
        let runs = state.jobs.get(&victim.job).filter(|job| {
            job.attempt == victim.attempt
                && matches!(job.state, JobState::Starting | JobState::Running | JobState::Suspended)
                && job.eviction.is_none()
                && job.stop.is_none()
        });
        let Some(job) = runs else {
            say(Rule::VictimLeaving, "has nothing to give up, or gives it up already".to_owned());
            continue;
        };
        if !started_with(state, job).iter().all(|id| present.contains(id)) {
            say(Rule::VictimGang, "is preempted without the rest of its gang".to_owned());
        }
        let right = |own: Option<&Reservation>| in_the_way(state, plan.now, own, job);
        let judge =
            |(by, own): &(&Job, _)| protected(state, by, (tier, right(*own)), job, victim, more);
        if let Some(keeps) = &victim.keeps {
            if let Some(why) = elastic::wrong_shrink(job, victim, keeps) {
                say(Rule::ShrinkWrong, why);
            }
        } else if let Some(why) = by.iter().find_map(judge) {
            say(Rule::VictimProtected, why);
        }
        let exempt = exempt(state, job);
        if plan.now < exempt {
            say(Rule::VictimExempt, format!("is exempt until {exempt}"));
        }
    }
}

/// Those that it started with and that still have something: het components, a gang's members.
///
/// Who takes turns goes with all who share: what one gives up the others still have.
fn started_with(state: &State, job: &Job) -> BTreeSet<JobId> {
    if job.turn.is_some() {
        return state.sharing_with(job);
    }
    let same = |other: &&std::sync::Arc<Job>| {
        let het = job.het.is_some() && other.het.map(|p| p.leader) == job.het.map(|p| p.leader);
        let company = job.spec.leaves_with.is_some()
            && other.spec.leaves_with == job.spec.leaves_with
            && other.spec.owner.uid == job.spec.owner.uid;
        let gang = job.spec.gang.is_some()
            && other.spec.gang == job.spec.gang
            && other.spec.owner.uid == job.spec.owner.uid
            && other.placed == job.placed;
        other.state.holds_resources() && (other.id == job.id || het || gang || company)
    };
    state.jobs.values().filter(same).map(|other| other.id).collect()
}

fn exempt(state: &State, job: &Job) -> Timestamp {
    let qos = state.qos.get(&job.spec.qos).and_then(|q| q.preempt.exempt);
    let partition = partition(state, job).and_then(|p| p.preempt.exempt);
    let exempt = qos.or(partition).unwrap_or(state.policy.preemption.exempt);
    job.started.or(job.placed).unwrap_or_default().plus(exempt)
}

fn partition<'a>(state: &'a State, job: &Job) -> Option<&'a muster_model::Partition> {
    let placement = job.placement.as_ref()?;
    state.partitions.get(&placement.partition).map(AsRef::as_ref)
}

/// True where the site lets who is in a reservation preempt who is on its nodes and not in it, and
/// the job is such a one.
fn in_the_way(state: &State, now: Timestamp, own: Option<&Reservation>, job: &Job) -> bool {
    let (Some(own), Some(placement)) = (own, &job.placement) else { return false };
    let inside = placement.reservation.as_ref();
    let theirs = inside.and_then(|name| state.reservations.get(name)).map(AsRef::as_ref);
    state.policy.preemption.reservations
        && own.is_active(now)
        && inside != Some(&own.name)
        && placement.nodes.iter().any(|share| {
            crate::reservation::takes_of(own, job, share)
                && !theirs.is_some_and(|other| crate::reservation::takes_of(other, job, share))
        })
}

/// Why the job may not be preempted so; `None` where it may. `right` is the tier of who preempts,
/// and whether its reservation lets it.
fn protected(
    state: &State,
    by: &Job,
    (tier, by_reservation): (u32, bool),
    job: &Job,
    victim: &Victim,
    more: Amounts,
) -> Option<String> {
    let policy = &state.policy.preemption;
    let own_tier = partition(state, job).map_or(0, |p| p.tier);
    let lists = |a: &Job, b: &Job| {
        state.qos.get(&a.spec.qos).is_some_and(|q| q.preempts.contains(&b.spec.qos))
    };
    let by_tier = policy.tiers && tier != own_tier;
    let outranks = by_reservation || if by_tier { tier > own_tier } else { lists(by, job) };
    let own = |job: &Job| job.spec.priority;
    let first = policy.priorities && own(job).is_some() && own(by) > own(job);
    let outranks =
        (outranks || (first && !(by_tier && tier < own_tier))) && !by.spec.never_preempts;
    let outranked = if by_tier { own_tier > tier } else { lists(job, by) };
    let guaranteed = state.accounts.values().any(|a| a.quota.guarantee.is_some());
    let (mine, theirs) = (owner(state, by), owner(state, job));
    let other_owner = mine.map(|a| &a.name) != theirs.map(|a| &a.name);
    let borrowed = guaranteed && is_borrowed(state, job);
    if guaranteed && !borrowed && other_owner {
        return Some("runs inside its account's guarantee".to_owned());
    }
    let mut reclaimed = false;
    if !outranks {
        let covered = mine.is_some_and(|account| {
            let used = used(state, account).plus(more);
            account.quota.guarantee.is_some_and(|own| own.holds(&used))
        });
        reclaimed = policy.reclaim != PreemptMode::Off && borrowed && other_owner && covered;
        if !reclaimed || outranked {
            return Some(format!("job {} is not above it", by.id));
        }
    }
    let mode = state
        .qos
        .get(&job.spec.qos)
        .and_then(|q| q.preempt.mode)
        .or_else(|| partition(state, job).and_then(|p| p.preempt.mode))
        .unwrap_or(if reclaimed { policy.reclaim } else { policy.mode });
    let anew = job.spec.requeue && job.spec.kind == JobKind::Batch;
    let allowed = match victim.mode {
        PreemptMode::Off | PreemptMode::Shrink => false,
        // What one of a gang cannot do, none of it does.
        PreemptMode::Cancel => {
            let together = job.spec.gang.is_some() || job.spec.leaves_with.is_some();
            mode == PreemptMode::Cancel || !anew || job.het.is_some() || together
        }
        PreemptMode::Requeue => anew && mode != PreemptMode::Cancel,
        PreemptMode::Checkpoint => anew && mode == PreemptMode::Checkpoint,
        PreemptMode::Suspend => mode == PreemptMode::Suspend && !reclaimed,
    };
    (mode == PreemptMode::Off || !allowed)
        .then(|| format!("may not make room by {:?}: its rules say {mode:?}", victim.mode))
}

fn owner<'a>(state: &'a State, job: &Job) -> Option<&'a Account> {
    let mut next = state.accounts.get(&job.spec.account);
    for _ in 0..DEPTH_MAX {
        let account = next?;
        if account.quota.guarantee.is_some() {
            return Some(account);
        }
        next = state.accounts.get(account.parent.as_ref()?);
    }
    None
}

/// The running jobs of an owner in the order of their starts.
fn jobs_of<'a>(state: &'a State, owner_name: &str) -> Vec<&'a Job> {
    let mut jobs: Vec<&Job> = state
        .jobs
        .values()
        .map(AsRef::as_ref)
        .filter(|job| job.state.holds_resources())
        .filter(|job| owner(state, job).is_some_and(|a| a.name == owner_name))
        .collect();
    jobs.sort_by_key(|job| (job.placed, job.id));
    jobs
}

fn used(state: &State, account: &Account) -> Amounts {
    let running = jobs_of(state, &account.name).into_iter().filter_map(|j| j.placement.as_ref());
    running.map(|p| Amounts::of(p)).fold(Amounts::default(), Amounts::plus)
}

fn is_borrowed(state: &State, job: &Job) -> bool {
    let Some(account) = owner(state, job) else { return true };
    let guarantee: QuotaAmount = account.quota.guarantee.unwrap_or_default();
    let mut sum = Amounts::default();
    for other in jobs_of(state, &account.name) {
        if let Some(placement) = &other.placement {
            sum = sum.plus(Amounts::of(placement));
        }
        if other.id == job.id {
            return !guarantee.holds(&sum);
        }
    }
    true
}

/// No victim (or gang of them) without whom the room would do, as far as a search over few nodes
/// can tell.
fn needless(state: &State, plan: &Plan, preempt: &Preempt, found: &mut Vec<Violation>) {
    let [start] = preempt.starts.as_slice() else { return };
    let Some(job) = state.jobs.get(&start.job) else { return };
    if job.spec.request.switches.is_some() || !job.spec.request.licences.is_empty() {
        return;
    }
    let Some(partition) = state.partitions.get(&start.placement.partition) else { return };
    let mut gangs: BTreeMap<JobId, Vec<&Victim>> = BTreeMap::new();
    for victim in &preempt.victims {
        let with = state.jobs.get(&victim.job).map(|job| started_with(state, job));
        let first = with.and_then(|with| with.first().copied()).unwrap_or(victim.job);
        gangs.entry(first).or_default().push(victim);
    }
    let promised: BTreeSet<NodeId> =
        plan.promises.iter().flat_map(|p| p.nodes.iter().copied()).collect();
    let others = Plan {
        decisions: plan
            .decisions
            .iter()
            .filter(|d| !matches!(d, Decision::Preempt(p) if p.as_ref() == preempt))
            .cloned()
            .collect(),
        ..plan.clone()
    };
    // What it would get elsewhere may be more than its limits let it have.
    if limits::may_hold(state, &others, job, partition, &Keys::new(state, plan.now)) {
        return;
    }
    let spoken_for = touched(state, &others);
    let starts = starts(plan);
    let new = promise::new_starts(state, plan, &starts);
    for spared in gangs.keys() {
        let gone: Vec<(&Victim, JobId)> = gangs
            .iter()
            .filter(|(gang, _)| *gang != spared)
            .flat_map(|(_, victims)| victims.iter().map(|victim| (*victim, job.id)))
            .collect();
        if gone.iter().any(|(v, _)| v.mode == PreemptMode::Suspend) {
            continue;
        }
        let after = without(state, plan.now, &gone);
        let beside = Beside::of(&after, &new);
        let fits = order::may_use(&after, plan, job, partition)
            && waiting::some_set(
                &after,
                job,
                partition,
                |id| {
                    let open = !promised.contains(&id) && !spoken_for.contains(&id);
                    let end = preempt.until.plus_limit(job.time_limit);
                    let open = open && crate::reservation::is_free_of(state, id, plan.now, end);
                    if open { room(&after, plan.now, &new, id, When::Now) } else { None }
                },
                |rooms| {
                    let nodes: Vec<&Node> = rooms.iter().map(|r| r.node).collect();
                    affinity::allows(&beside, &partition.name, job, &nodes)
                        && lies_on(job, partition, rooms) == Some(true)
                },
            );
        if fits {
            let detail = format!("need not make room: job {} fits without that", job.id);
            let jobs = vec![job.id, *spared];
            found.push(Violation { rule: Rule::VictimNeedless, jobs, node: None, detail });
        }
    }
}

fn resumes(state: &State, plan: &Plan, found: &mut Vec<Violation>) {
    let mut gone_on: Vec<&Job> = Vec::new();
    for decision in &plan.decisions {
        let Decision::Resume { job } = decision else { continue };
        let mut say = |detail: String| {
            found.push(Violation::of(Rule::ResumeInUse, *job, detail));
        };
        let Some(record) = state.jobs.get(job).filter(|job| job.yields_cpus() || job.resumes)
        else {
            say("does not stand still for others".to_owned());
            continue;
        };
        let running = state
            .jobs
            .values()
            .filter(|other| other.state.holds_resources())
            .filter(|other| !other.yields_cpus() && !other.lends)
            .map(AsRef::as_ref)
            .chain(gone_on.iter().copied())
            .filter_map(|other| other.placement.as_deref());
        let starting = starts(plan).into_iter().map(|start| start.placement.as_ref());
        for there in running.chain(starting).flat_map(|p| &p.nodes) {
            let own = record.placement.iter().flat_map(|p| &p.nodes);
            if own.clone().any(|s| s.node == there.node && s.cpus.intersects(&there.cpus)) {
                say(format!("goes on although others run on its CPUs {}", there.cpus));
                break;
            }
        }
        gone_on.push(record);
    }
}
