//! Whose turn it is.

use super::Taken;
use muster_model::turn::{slice_begin, slice_end};
use muster_model::{Job, JobId, JobState, Placement, State, Timestamp, Turn, TurnChange};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A look into the future ends after so many slices.
const SLICES_MAX: usize = 256;
/// Changes of turns take at most this part of the time.
const CHANGES_PART: u64 = 16;
/// At most so many jobs are named.
const NAMED_MAX: usize = 8;

/// A job's part in turns, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnView {
    /// It is its turn.
    pub runs: bool,
    /// With whom it takes turns, at most eight.
    pub with: Vec<JobId>,
    /// When its turn comes, or where it runs, when it is over, if no job ends before; `None` where
    /// nobody waits for it, or that is too far off.
    pub next: Option<Timestamp>,
}

/// One that takes turns.
#[derive(Clone, Copy)]
struct Sharer<'a> {
    id: JobId,
    runs: bool,
    since: Timestamp,
    placement: &'a Placement,
}

/// The jobs of a partition that may share, with what those have that are at their end.
struct Company<'a> {
    jobs: Vec<&'a Arc<Job>>,
    sharers: Vec<Sharer<'a>>,
    busy: Taken,
}

impl<'a> Company<'a> {
    fn of(state: &'a State, partition: &str, leaving: &BTreeSet<JobId>) -> Self {
        let mut company = Self { jobs: Vec::new(), sharers: Vec::new(), busy: Taken::default() };
        for job in state.index.active.iter().filter_map(|id| state.jobs.get(id)) {
            let Some(placement) = &job.placement else { continue };
            if placement.partition != partition || !job.may_take_turns() {
                continue;
            }
            let ends = job.state == JobState::Completing
                || job.eviction.is_some()
                || leaving.contains(&job.id);
            if ends {
                company.busy.add(placement);
                continue;
            }
            company.jobs.push(job);
            // Whoever an admin suspended neither runs nor waits for a turn.
            if job.is_to_run() || job.waits_for_turn() {
                let since = job.turn.map(|turn| turn.since).or(job.placed).unwrap_or_default();
                let runs = job.is_to_run();
                company.sharers.push(Sharer { id: job.id, runs, since, placement });
            }
        }
        company
    }
}

/// Who runs from here on, in the order of the sharers.
fn pick(sharers: &[Sharer<'_>], busy: &Taken, begin: Timestamp) -> Vec<bool> {
    let mut order: Vec<usize> = (0..sharers.len()).collect();
    let rank = |sharer: &Sharer<'_>| match (sharer.runs, sharer.since >= begin) {
        (true, true) => 0,
        (false, _) => 1,
        (true, false) => 2,
    };
    order.sort_by_key(|at| {
        let sharer = &sharers[*at];
        (rank(sharer), sharer.since, sharer.id)
    });
    let mut taken = Taken::default();
    let mut runs = vec![false; sharers.len()];
    for at in order {
        let sharer = &sharers[at];
        let is_free = !taken.meets(sharer.placement);
        if is_free && (sharer.runs || !busy.meets(sharer.placement)) {
            taken.add(sharer.placement);
            runs[at] = true;
        }
    }
    runs
}

/// The number that stands for a group, from any of its members.
fn root(group: &mut [usize], mut at: usize) -> usize {
    while group[at] != at {
        group[at] = group[group[at]];
        at = group[at];
    }
    at
}

/// For each of these placements the number of its group: those that have a CPU or GPU in common,
/// directly or through others.
pub(super) fn groups(placements: &[&Placement]) -> Vec<usize> {
    let mut group: Vec<usize> = (0..placements.len()).collect();
    let mut first: BTreeMap<(muster_model::NodeId, bool, u32), usize> = BTreeMap::new();
    for (at, placement) in placements.iter().enumerate() {
        for share in &placement.nodes {
            let cpus = share.cpus.iter().map(|cpu| (share.node, false, cpu));
            let devices = super::whole(share).map(|index| (share.node, true, index));
            for key in cpus.chain(devices) {
                let other = *first.entry(key).or_insert(at);
                let (a, b) = (root(&mut group, at), root(&mut group, other));
                let (low, high) = (a.min(b), a.max(b));
                group[high] = low;
            }
        }
    }
    (0..placements.len()).map(|at| root(&mut group, at)).collect()
}

/// What all of these have left together, milliseconds; `None` where one has no limit.
fn sum(mut lefts: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    lefts.try_fold(0u64, |sum, left| Some(sum.saturating_add(left?)))
}

/// When all of these are over at the latest where they run one after the other, with what the
/// changes of turns take: so the end that was named once need not be put off later.
pub(super) fn over(now: Timestamp, lefts: impl Iterator<Item = Option<u64>>) -> Timestamp {
    let sum = sum(lefts).map(|sum| sum.saturating_add(sum / CHANGES_PART));
    sum.map_or(Timestamp::NEVER, |sum| now.plus_ms(sum))
}

fn partitions(state: &State) -> BTreeSet<&String> {
    let jobs = state.index.turns.iter().filter_map(|id| state.jobs.get(id));
    jobs.filter_map(|job| Some(&job.placement.as_ref()?.partition)).collect()
}

/// Every change of turns at an instant, by job. `leaving` are jobs that make room for others.
pub(crate) fn changes(
    state: &State,
    now: Timestamp,
    leaving: &BTreeSet<JobId>,
) -> BTreeMap<JobId, TurnChange> {
    let mut changes = BTreeMap::new();
    let begin = slice_begin(now, state.policy.time_slice);
    for partition in partitions(state) {
        let company = Company::of(state, partition, leaving);
        let runs = pick(&company.sharers, &company.busy, begin);
        let will: BTreeMap<JobId, bool> =
            company.sharers.iter().zip(&runs).map(|(sharer, runs)| (sharer.id, *runs)).collect();
        let placements: Vec<&Placement> =
            company.jobs.iter().filter_map(|job| job.placement.as_deref()).collect();
        let groups = groups(&placements);
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        for group in &groups {
            *sizes.entry(*group).or_default() += 1;
        }
        let mut bounds: BTreeMap<usize, (Timestamp, Timestamp)> = BTreeMap::new();
        for (job, group) in company.jobs.iter().zip(&groups) {
            let alone = sizes.get(group).is_none_or(|size| *size < 2);
            let (least, until) = *bounds.entry(*group).or_insert_with(|| {
                let mates = company.jobs.iter().zip(&groups).filter(|(_, other)| *other == group);
                let lefts: Vec<Option<u64>> = mates.map(|(job, _)| job.left_ms(now)).collect();
                let least = sum(lefts.iter().copied());
                let least = least.map_or(Timestamp::NEVER, |sum| now.plus_ms(sum));
                (least, over(now, lefts.into_iter()))
            });
            let until =
                job.turn.map(|turn| turn.until).filter(|end| *end >= least).unwrap_or(until);
            let runs = will.get(&job.id).copied();
            let turn = match next(job, runs, until, now) {
                _ if alone && job.turn.is_none() => continue,
                // Who stood still goes on first: until then its end is the one that was named.
                _ if alone && job.is_to_run() && job.state != JobState::Suspended => None,
                Some(turn) => Some(turn),
                None => continue,
            };
            let (id, attempt) = (job.id, job.attempt);
            changes.insert(id, TurnChange { job: id, attempt, turn });
        }
    }
    changes
}

/// The turn that a job has from here on, where that is another than it has. `runs` is `None` for
/// one that an admin suspended.
fn next(job: &Job, runs: Option<bool>, until: Timestamp, now: Timestamp) -> Option<Turn> {
    let did = job.is_to_run();
    let since = job.turn.map(|turn| turn.since).or(job.placed).unwrap_or(now);
    match runs {
        Some(runs) if runs != did => Some(Turn { runs, since: now, until }),
        _ => {
            let runs = !job.waits_for_turn();
            // The end that was named stands for as long as it can be kept.
            let stale = job.turn.is_none_or(|turn| turn.until != until || turn.runs != runs);
            stale.then_some(Turn { runs, since, until })
        }
    }
}

/// With whom a job takes turns, and when its turn comes or ends.
pub(crate) fn view(state: &State, job: &Job, now: Timestamp) -> Option<TurnView> {
    job.turn?;
    let partition = &job.placement.as_ref()?.partition;
    let company = Company::of(state, partition, &BTreeSet::new());
    let placements: Vec<&Placement> =
        company.jobs.iter().filter_map(|job| job.placement.as_deref()).collect();
    let groups = groups(&placements);
    let own = company.jobs.iter().position(|other| other.id == job.id)?;
    let with = company.jobs.iter().zip(&groups);
    let with = with.filter(|(other, group)| **group == groups[own] && other.id != job.id);
    let with: Vec<JobId> = with.map(|(other, _)| other.id).take(NAMED_MAX).collect();
    if with.is_empty() {
        return None;
    }
    let slice = state.policy.time_slice;
    let mut sharers = company.sharers.clone();
    let at = sharers.iter().position(|sharer| sharer.id == job.id)?;
    let runs = sharers[at].runs;
    let mut next = None;
    let mut instant = now;
    for _ in 0..SLICES_MAX {
        let will = pick(&sharers, &company.busy, slice_begin(instant, slice));
        if will[at] != runs {
            next = Some(instant);
            break;
        }
        for (sharer, will) in sharers.iter_mut().zip(will) {
            if sharer.runs != will {
                (sharer.runs, sharer.since) = (will, instant);
            }
        }
        instant = slice_end(instant, slice);
    }
    Some(TurnView { runs, with, next })
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::{CpuSet, NodeId, NodeShare, Seconds};

    fn on(cpus: &[(u32, &[u32])]) -> Placement {
        let share = |(node, cpus): &(u32, &[u32])| NodeShare {
            node: NodeId(*node),
            cpus: cpus.iter().copied().collect::<CpuSet>(),
            ..NodeShare::default()
        };
        Placement { nodes: cpus.iter().map(share).collect(), ..Placement::default() }
    }

    /// Runs so many slices; who runs in each, by number.
    fn story(placements: &[Placement], slices: i64) -> Vec<Vec<u32>> {
        let at = |n: i64| Timestamp::from_secs(n * 30);
        let mut sharers: Vec<Sharer<'_>> = placements
            .iter()
            .enumerate()
            .map(|(n, placement)| Sharer {
                id: JobId(n as u32),
                runs: false,
                since: at(0),
                placement,
            })
            .collect();
        let mut all = Vec::new();
        for n in 0..slices {
            let will = pick(&sharers, &Taken::default(), slice_begin(at(n), Seconds(30)));
            for (sharer, will) in sharers.iter_mut().zip(&will) {
                if sharer.runs != *will {
                    (sharer.runs, sharer.since) = (*will, at(n));
                }
            }
            all.push(sharers.iter().filter(|s| s.runs).map(|s| s.id.0).collect());
        }
        all
    }

    #[test]
    fn who_shares_with_nobody_runs_on_while_others_take_turns() {
        // Slurm's second example: 9 and 11 on three nodes, 10 on two others.
        let wide = || on(&[(0, &[0, 1]), (1, &[0, 1]), (2, &[0, 1])]);
        let jobs = [wide(), on(&[(3, &[0, 1]), (4, &[0, 1])]), wide()];
        assert_eq!(story(&jobs, 4), [vec![0, 1], vec![1, 2], vec![0, 1], vec![1, 2]]);
    }

    #[test]
    fn a_wide_job_that_shares_with_several_is_not_starved() {
        let jobs = [on(&[(0, &[0])]), on(&[(1, &[0])]), on(&[(0, &[0]), (1, &[0])])];
        assert_eq!(story(&jobs, 4), [vec![0, 1], vec![2], vec![0, 1], vec![2]]);
    }

    #[test]
    fn groups_reach_through_others() {
        let jobs = [on(&[(0, &[0, 1])]), on(&[(0, &[3])]), on(&[(0, &[1, 2])]), on(&[(0, &[2])])];
        let all: Vec<&Placement> = jobs.iter().collect();
        assert_eq!(groups(&all), [0, 1, 0, 0]);
    }
}
