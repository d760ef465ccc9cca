//! Preemption: the checker's rules one by one, victims against brute force, and room that is kept.

use muster_model::{Decision, Job, JobId, JobState, Plan, Preempt, PreemptMode, State, Timestamp};
use muster_plan_check::{Rule, check_full};
use muster_planner::Planner;
use muster_test_kit::arbitrary::{Deed, act, cluster, story};
use muster_test_kit::{Lab, proved};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn rules(lab: &Lab, plan: &Plan) -> BTreeSet<Rule> {
    check_full(&lab.state, plan).iter().map(|v| v.rule).collect()
}

fn preempts(plan: &Plan) -> Vec<&Preempt> {
    let all = plan.decisions.iter().filter_map(|d| match d {
        Decision::Preempt(preempt) => Some(preempt.as_ref()),
        _ => None,
    });
    all.collect()
}

fn first(plan: &mut Plan) -> &mut Preempt {
    let found = plan.decisions.iter_mut().find_map(|d| match d {
        Decision::Preempt(preempt) => Some(preempt.as_mut()),
        _ => None,
    });
    found.expect("the plan makes room")
}

fn victims(plan: &Plan) -> BTreeSet<JobId> {
    preempts(plan).iter().flat_map(|p| p.victims.iter().map(|v| v.job)).collect()
}

const SITE: &str = "
    node n[1-3] cpus=4 gpus=2 mem=64G
    qos low preempt=requeue grace=2 exempt=5
    qos high priority=10 preempts=low
";

/// Four running jobs: 1 (low), 2 (normal), a het job 3+4 (low), and 5 (high) that preempts 1.
fn site() -> (Lab, Plan) {
    let mut lab = Lab::new(SITE);
    lab.submit("low qos=low nodes=1 cpus=4 mem=1G time=100");
    lab.submit("other nodes=1 cpus=4 mem=1G time=100");
    lab.submit_het(
        "het qos=low nodes=1 cpus=2 mem=1G time=100 : part qos=low nodes=1 cpus=2 mem=1G time=100",
    );
    let now = lab.unchecked_plan();
    lab.carry_out(&now);
    lab.at_minute(10);
    lab.submit("big qos=high nodes=1 cpus=4 mem=1G time=50");
    let good = lab.unchecked_plan();
    assert_eq!(rules(&lab, &good), BTreeSet::new(), "{good:#?}");
    assert_eq!(victims(&good), BTreeSet::from([JobId(1)]));
    (lab, good)
}

/// What of another job would make it a victim.
fn also(lab: &Lab, plan: &mut Plan, job: u32) {
    let mut victim = first(plan).victims[0].clone();
    victim.job = JobId(job);
    victim.attempt = lab.state.jobs[&JobId(job)].attempt;
    first(plan).victims.push(victim);
}

#[test]
fn each_rule_finds_a_plan_spoiled_in_its_way() {
    let (lab, good) = site();
    let mut gone = good.clone();
    first(&mut gone).victims[0].attempt = 7;
    assert!(rules(&lab, &gone).contains(&Rule::VictimLeaving));

    let mut equal = good.clone();
    also(&lab, &mut equal, 2);
    assert!(rules(&lab, &equal).contains(&Rule::VictimProtected));

    let mut by_other_means = good.clone();
    first(&mut by_other_means).victims[0].mode = PreemptMode::Suspend;
    assert!(rules(&lab, &by_other_means).contains(&Rule::VictimProtected));

    let mut half = good.clone();
    also(&lab, &mut half, 3);
    let found = rules(&lab, &half);
    assert!(found.contains(&Rule::VictimGang), "{found:?}");

    let mut needless = good.clone();
    also(&lab, &mut needless, 3);
    also(&lab, &mut needless, 4);
    assert_eq!(rules(&lab, &needless), BTreeSet::from([Rule::VictimNeedless]));

    let mut useless = good.clone();
    first(&mut useless).victims.clear();
    assert!(rules(&lab, &useless).contains(&Rule::ClaimTaken));
}

#[test]
fn an_exempt_job_is_nobodys_victim() {
    let (mut lab, good) = site();
    lab.set_up("qos low preempt=requeue grace=2 exempt=50");
    assert_eq!(rules(&lab, &good), BTreeSet::from([Rule::VictimExempt]));
    assert!(preempts(&lab.unchecked_plan()).is_empty());
}

#[test]
fn a_start_on_room_that_is_held_is_found() {
    let (mut lab, good) = site();
    lab.carry_out(&good);
    lab.submit("thief nodes=1 cpus=1 gpus=1 mem=1G time=5");
    // Everything but the GPUs of the node is claimed: the thief has no CPU there.
    let now = lab.unchecked_plan();
    assert_eq!(rules(&lab, &now), BTreeSet::new());
    let node = preempts(&good)[0].starts[0].placement.nodes[0].clone();
    let job = JobId(6);
    let time_limit = lab.state.jobs[&job].time_limit;
    let mut placement = muster_model::Placement::clone(&preempts(&good)[0].starts[0].placement);
    placement.nodes = vec![muster_model::NodeShare { tasks: 1, ..node }];
    let start = muster_model::Start {
        job,
        attempt: 1,
        placement: Arc::new(placement),
        time_limit,
        turn: None,
    };
    let stolen = Plan { now: lab.now, decisions: vec![Decision::Start(vec![start])], ..now };
    assert!(rules(&lab, &stolen).contains(&Rule::ClaimTaken));
}

#[test]
fn who_stands_still_goes_on_only_where_nobody_runs() {
    let mut lab = Lab::new(
        "node n1 cpus=4 mem=8G\nqos low preempt=suspend\nqos high priority=5 preempts=low",
    );
    let low = lab.submit("low qos=low cpus=4 mem=1G time=100");
    let now = lab.unchecked_plan();
    lab.carry_out(&now);
    lab.at_minute(1);
    let high = lab.submit("high qos=high cpus=2 mem=1G time=10");
    for _ in 0..2 {
        let now = lab.unchecked_plan();
        assert_eq!(rules(&lab, &now), BTreeSet::new());
        lab.carry_out(&now);
    }
    assert_eq!(lab.state_of(low), JobState::Suspended);
    assert_eq!(lab.state_of(high), JobState::Running);
    let early =
        Plan { now: lab.now, decisions: vec![Decision::Resume { job: low }], ..Plan::default() };
    assert!(rules(&lab, &early).contains(&Rule::ResumeInUse));
    lab.exit(high, 0);
    let now = lab.unchecked_plan();
    assert_eq!(now.decisions, [Decision::Resume { job: low }]);
    lab.carry_out(&now);
    assert_eq!(lab.state_of(low), JobState::Running);
}

#[test]
fn two_preemptors_do_not_count_on_the_same_victim() {
    // Case C-18: eight are needed, one victim frees six.
    let mut lab = Lab::new(
        "node n1 cpus=12 mem=64G\nqos low preempt=cancel\nqos high priority=5 preempts=low",
    );
    lab.submit("a1 qos=low cpus=6 mem=1G time=100");
    lab.submit("a2 qos=low cpus=6 mem=1G time=100");
    let now = lab.unchecked_plan();
    lab.carry_out(&now);
    lab.at_minute(1);
    lab.submit("b1 qos=high cpus=4 mem=1G time=10");
    lab.submit("b2 qos=high cpus=4 mem=1G time=10");
    let now = lab.unchecked_plan();
    assert_eq!(rules(&lab, &now), BTreeSet::new());
    assert_eq!(victims(&now).len(), 2, "{now:#?}");
}

#[test]
fn c18_two_owners_do_not_take_the_same_borrowed_quota_back() {
    // Three accounts have four each of twelve; one runs two jobs of six, the others want theirs.
    let mut lab = Lab::new(
        "node n1 cpus=12 mem=64G\npolicy reclaim=requeue\naccount a guarantee-cpus=4\n\
         account b guarantee-cpus=4\naccount c guarantee-cpus=4",
    );
    lab.submit("a1 account=a cpus=6 mem=1G time=100");
    lab.submit("a2 account=a cpus=6 mem=1G time=100");
    let now = lab.unchecked_plan();
    lab.carry_out(&now);
    lab.at_minute(1);
    lab.submit("b1 account=b cpus=4 mem=1G time=10");
    lab.submit("c1 account=c cpus=4 mem=1G time=10");
    let now = lab.unchecked_plan();
    assert_eq!(rules(&lab, &now), BTreeSet::new());
    // Never one victim for both: each has its own, or one newcomer waits.
    let claims = preempts(&now).iter().map(|p| p.starts.len()).sum::<usize>();
    assert!(victims(&now).len() >= claims, "{now:#?}");
    assert!(claims >= 1);
}

#[test]
fn a_preemption_never_goes_in_a_circle() {
    // By tier one is above the other, by QOS the other is above the one: tier decides.
    let mut lab = Lab::new(
        "node n1 cpus=4 mem=8G\npartition top nodes=n1 tier=9\npolicy preempt=requeue tiers=yes\n\
         qos a preempts=b\nqos b preempts=c",
    );
    lab.submit("one partition=top qos=b cpus=4 mem=1G time=100");
    let now = lab.unchecked_plan();
    lab.carry_out(&now);
    lab.at_minute(1);
    lab.submit("two qos=a cpus=4 mem=1G time=100");
    assert!(preempts(&lab.unchecked_plan()).is_empty());
}

/// What a set of victims costs: jobs, then GPU-seconds, then CPU-seconds.
fn cost(state: &State, now: Timestamp, victims: &BTreeSet<JobId>) -> (usize, u64, u64) {
    let mut lost = (victims.len(), 0, 0);
    for id in victims {
        let job = &state.jobs[id];
        let placement = job.placement.as_ref().expect("it runs");
        let seconds = now.since(job.started.expect("it runs")).0;
        match u64::from(placement.devices()) {
            0 => lost.2 += u64::from(placement.cpus()) * seconds,
            gpus => lost.1 += gpus * seconds,
        }
    }
    lost
}

/// The least cost of any set of permitted victims without whom the job starts, by trying all.
/// `unit` gives who may be one, as the first of those with whom it leaves.
fn brute_force<C: Ord>(
    lab: &Lab,
    job: JobId,
    unit: impl Fn(&Job) -> Option<JobId>,
    cost: impl Fn(&BTreeSet<JobId>) -> C,
) -> Option<C> {
    let mut gangs: BTreeMap<JobId, BTreeSet<JobId>> = BTreeMap::new();
    for id in &lab.state.index.active {
        if let Some(leader) = unit(&lab.state.jobs[id]) {
            gangs.entry(leader).or_default().insert(*id);
        }
    }
    let gangs: Vec<BTreeSet<JobId>> = gangs.into_values().collect();
    let sets = (1u32..1 << gangs.len()).map(|set| {
        let chosen = (0..gangs.len()).filter(|i| set & (1 << i) != 0);
        chosen.flat_map(|i| gangs[i].clone()).collect::<BTreeSet<JobId>>()
    });
    let is_enough = |chosen: &BTreeSet<JobId>| {
        let mut after = lab.clone();
        for id in chosen {
            after.exit(*id, 1);
        }
        let others: Vec<JobId> = after.state.index.pending.iter().copied().collect();
        others.into_iter().filter(|id| *id != job).for_each(|id| after.cancel(id));
        let plan = after.unchecked_plan();
        plan.decisions.iter().any(|d| d.starts().iter().any(|s| s.job == job))
    };
    sets.filter(is_enough).map(|chosen| cost(&chosen)).min()
}

/// Jobs beyond what the budgets allow, then the highest priority.
fn harm(state: &State, victims: &BTreeSet<JobId>) -> (usize, Option<u32>) {
    let specs = || victims.iter().map(|id| &state.jobs[id].spec);
    let beyond = state.budgets.values().map(|budget| {
        let counted = specs().filter(|spec| budget.counts(spec)).count();
        counted.saturating_sub(budget.allowed as usize)
    });
    (beyond.sum(), specs().filter_map(|spec| spec.priority).max())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(200),
        max_global_rejects: 100_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// On small clusters the victims are those of the best set there is, and there are some exactly
    /// where any set would do.
    #[test]
    fn victims_are_the_best_set_there_is(
        nodes in prop::collection::vec((1u32..=4, 0u32..=3), 1..=4),
        running in prop::collection::vec((0usize..3, 1u32..=2, 1u32..=3, 0u32..=2), 1..7),
        wanted in (1u32..=2, 1u32..=3, 0u32..=2),
    ) {
        let mut lab = Lab::new("qos low preempt=cancel\nqos high priority=10 preempts=low");
        proved(&mut lab, |lab| {
            for (i, (cpus, gpus)) in nodes.iter().enumerate() {
                lab.set_up(&format!("node n{} cpus={cpus} gpus={gpus} mem=8G", i + 1));
            }
            for (minute, (qos, nodes, cpus, gpus)) in running.iter().enumerate() {
                lab.at_minute(minute as u64);
                let qos = ["low", "low", "normal"][*qos];
                let part = format!("qos={qos} cpus={cpus} gpus-per-node={gpus} mem=64M time=1000");
                match nodes {
                    1 => lab.submit(&format!("r {part}")),
                    _ => lab.submit_het(&format!("r {part} : p {part}")),
                };
                let now = lab.unchecked_plan();
                lab.carry_out(&now);
            }
            for id in lab.state.index.pending.clone() {
                lab.cancel(id);
            }
            lab.at_minute(30);
            let (nodes, cpus, gpus) = wanted;
            let line = format!("big qos=high nodes={nodes} cpus={cpus} gpus-per-node={gpus} mem=64M time=10");
            let job = lab.submit(&line);
            let now = lab.unchecked_plan();
            let found = check_full(&lab.state, &now);
            prop_assert!(found.is_empty(), "{:#?}\n{:#?}", found, now);
            prop_assume!(now.decisions.iter().all(|d| d.starts().is_empty()));
            let victims = victims(&now);
            let own = (!victims.is_empty()).then(|| cost(&lab.state, lab.now, &victims));
            let unit = |job: &Job| {
                let leader = job.het.map_or(job.id, |part| part.leader);
                (job.spec.qos == "low").then_some(leader)
            };
            let best = brute_force(lab, job, unit, |set| cost(&lab.state, lab.now, set));
            prop_assert_eq!(own, best, "{:#?}", now);
            Ok(())
        })?;
    }

    /// The same where own priorities decide: budgets are kept first, then the most important are,
    /// and who leaves together leaves together or not at all.
    #[test]
    fn victims_by_priority_are_the_best_set_there_is(
        nodes in prop::collection::vec((1u32..=4, 0u32..=3), 1..=4),
        running in prop::collection::vec((1u32..=6, 0usize..6, 1u32..=3, 0u32..=2), 1..8),
        allowed in 0u32..=2,
        wanted in (3u32..=6, 1u32..=4, 0u32..=2),
    ) {
        let mut lab = Lab::new("policy preempt=cancel priorities=yes");
        proved(&mut lab, |lab| {
            lab.set_up(&format!("budget web jobs=app=web allowed={allowed}"));
            for (i, (cpus, gpus)) in nodes.iter().enumerate() {
                lab.set_up(&format!("node n{} cpus={cpus} gpus={gpus} mem=8G", i + 1));
            }
            for (minute, (priority, kind, cpus, gpus)) in running.iter().enumerate() {
                lab.at_minute(minute as u64);
                let kind = ["", "label=app:web", "leaves-with=x", "leaves-with=y", "", ""][*kind];
                let part = format!("cpus={cpus} gpus-per-node={gpus} mem=64M time=1000");
                lab.submit(&format!("r priority={priority} {kind} {part}"));
                // What would preempt is none of this test.
                let now = lab.unchecked_plan();
                let starts = now.decisions.iter().filter(|d| !d.starts().is_empty()).cloned();
                lab.carry_out(&Plan { decisions: starts.collect(), ..now });
            }
            for id in lab.state.index.pending.clone() {
                lab.cancel(id);
            }
            lab.at_minute(30);
            let (priority, cpus, gpus) = wanted;
            let part = format!("cpus={cpus} gpus-per-node={gpus} mem=64M time=10");
            let job = lab.submit(&format!("big priority={priority} {part}"));
            let now = lab.unchecked_plan();
            let found = check_full(&lab.state, &now);
            prop_assert!(found.is_empty(), "{:#?}\n{:#?}", found, now);
            prop_assume!(now.decisions.iter().all(|d| d.starts().is_empty()));
            let victims = victims(&now);
            let cost = |set: &BTreeSet<JobId>| (harm(&lab.state, set), cost(&lab.state, lab.now, set));
            let own = (!victims.is_empty()).then(|| cost(&victims));
            let with = |job: &Job| {
                let active = lab.state.index.active.iter().map(|id| &lab.state.jobs[id]);
                let same = active.filter(|j| j.spec.leaves_with == job.spec.leaves_with);
                let all: Vec<&Job> = match job.spec.leaves_with {
                    Some(_) => same.map(AsRef::as_ref).collect(),
                    None => vec![job],
                };
                all.iter().all(|j| j.spec.priority < Some(priority)).then(|| all[0].id)
            };
            prop_assert_eq!(own, brute_force(lab, job, with, cost), "{:#?}", now);
            Ok(())
        })?;
    }

    /// Whoever has room made for it starts when its victims are gone, whatever comes in between;
    /// its victims are told once.
    #[test]
    fn room_that_is_made_is_used_by_whom_it_is_made_for(cluster in cluster(), story in story(30)) {
        let mut lab = Lab::new(&cluster);
        proved(&mut lab, |lab| {
            let mut waiting_for: BTreeMap<JobId, BTreeSet<(JobId, u32)>> = BTreeMap::new();
            for deed in &story {
                // Nodes that fail and jobs that are held or changed give up their room.
                if matches!(deed, Deed::Drain(_) | Deed::Down(_) | Deed::Foreign(_) | Deed::Taint(_)) {
                    continue;
                }
                act(lab, deed);
                let still = lab.state.clone();
                waiting_for.retain(|job, _| still.jobs.get(job).is_some_and(|j| j.claim.is_some()));
                if !matches!(deed, Deed::Plan) {
                    continue;
                }
                let now = lab.unchecked_plan();
                for preempt in preempts(&now) {
                    let new: BTreeSet<(JobId, u32)> =
                        preempt.victims.iter().map(|v| (v.job, v.attempt)).collect();
                    for start in &preempt.starts {
                        let known = waiting_for.insert(start.job, new.clone());
                        prop_assert!(known.is_none(), "job {} has room made twice", start.job);
                    }
                }
                let gone = |(job, attempt): &(JobId, u32)| {
                    lab.state.jobs.get(job).is_none_or(|j| {
                        j.attempt != *attempt || !j.state.holds_resources() || j.yields_cpus()
                    })
                };
                let starting: BTreeSet<JobId> =
                    now.decisions.iter().flat_map(|d| d.starts().iter().map(|s| s.job)).collect();
                for (job, victims) in &waiting_for {
                    let record = &lab.state.jobs[job];
                    let throttled = record.array.is_some();
                    if victims.iter().all(gone) && !throttled && record.claim.is_some() {
                        prop_assert!(starting.contains(job), "job {} did not start: {:#?}", job, now);
                    }
                }
                lab.carry_out(&now);
            }
            Ok(())
        })?;
    }
}

#[test]
fn a_victim_that_did_much_is_spared_for_one_that_did_little() {
    let mut lab = Lab::new(
        "node n[1-2] cpus=4 gpus=4 mem=64G\npolicy victims=least-lost\n\
         qos low preempt=cancel\nqos high priority=5 preempts=low",
    );
    let old = lab.submit("old qos=low gpus=4 nodelist=n1 mem=1G time=1000");
    let now = lab.unchecked_plan();
    lab.carry_out(&now);
    lab.at_minute(100);
    // Two young ones lose less than one old one.
    lab.submit("young qos=low gpus=2 nodelist=n2 mem=1G time=1000");
    lab.submit("young qos=low gpus=2 nodelist=n2 mem=1G time=1000");
    let now = lab.unchecked_plan();
    lab.carry_out(&now);
    lab.at_minute(110);
    lab.submit("big qos=high nodes=1 gpus=4 mem=1G time=10");
    let found = victims(&lab.unchecked_plan());
    assert!(!found.contains(&old) && found.len() == 2, "{found:?}");
    // A checkpoint makes the old one cheap.
    lab.event(muster_model::EventKind::JobCheckpointed { job: old, attempt: 1 });
    assert_eq!(victims(&lab.unchecked_plan()), BTreeSet::from([old]));
}

#[test]
fn who_waits_for_room_or_for_its_gang_is_told_so() {
    let (mut lab, good) = site();
    lab.carry_out(&good);
    let member = lab.submit("member gang=g:2 cpus=1 mem=1G time=5");
    let reasons = lab.reasons();
    assert_eq!(reasons[&JobId(5)].code(), "MAKING_ROOM");
    assert_eq!(reasons[&member].code(), "GANG_INCOMPLETE");
}

/// A reservation of n1 from t=10 on, laid over a running job; the node is full.
fn reserved(policy: &str) -> (Lab, JobId) {
    let mut lab = Lab::new(&format!("node n[1-2] cpus=4 mem=8G\npolicy preempt=requeue {policy}"));
    let there = lab.submit("there nodelist=n1 cpus=4 mem=1G time=100");
    let now = lab.unchecked_plan();
    lab.carry_out(&now);
    lab.set_up("reservation demo start=10 end=200 nodes=n1 flags=IGNORE_JOBS");
    lab.submit("inside reservation=demo cpus=2 mem=1G time=20");
    (lab, there)
}

#[test]
fn who_is_in_a_reservation_preempts_who_is_on_its_nodes_where_the_site_says_so() {
    let (mut lab, there) = reserved("reservations=yes");
    // Before it begins nobody goes for it.
    assert!(preempts(&lab.unchecked_plan()).is_empty());
    lab.at_minute(10);
    let now = lab.unchecked_plan();
    assert_eq!(rules(&lab, &now), BTreeSet::new(), "{now:#?}");
    assert_eq!(victims(&now), BTreeSet::from([there]));
    let found = Planner::new(&lab.state).explain(&lab.state, JobId(2), lab.now);
    assert_eq!(found.reasons[0].code(), "MAKING_ROOM");

    let (mut lab, _) = reserved("");
    lab.at_minute(10);
    assert!(preempts(&lab.unchecked_plan()).is_empty());
    // The checker knows the same rule.
    assert!(rules(&lab, &now).contains(&Rule::VictimProtected));
}

#[test]
fn who_is_in_the_same_reservation_or_off_its_nodes_is_nobodys_victim() {
    let (mut lab, there) = reserved("reservations=yes");
    lab.at_minute(10);
    let now = lab.unchecked_plan();
    lab.carry_out(&now);
    lab.submit("elsewhere nodelist=n2 cpus=4 mem=1G time=100");
    lab.at_minute(11);
    lab.cancel(there);
    let now = lab.unchecked_plan();
    lab.carry_out(&now);
    lab.at_minute(12);
    lab.submit("more reservation=demo cpus=4 mem=1G time=20");
    assert!(preempts(&lab.unchecked_plan()).is_empty());
    let found = Planner::new(&lab.state).explain(&lab.state, JobId(4), lab.now);
    let makers = found.room_makers.expect("its reservation lets it preempt");
    assert!(makers.may.is_empty(), "{makers:?}");
    assert_eq!(makers.kept.len(), 1, "{makers:?}");
    assert_eq!(makers.kept[0].jobs, [JobId(2)]);
}

#[test]
fn borrowed_quota_is_taken_back_from_who_is_furthest_beyond_first() {
    let mut lab = Lab::new(
        "node n[1-3] cpus=8 mem=64G\npolicy reclaim=requeue\naccount a guarantee-cpus=8\n\
         account b guarantee-cpus=4\naccount c guarantee-cpus=4",
    );
    // b has four times its own in small jobs, c twice in one large job.
    for _ in 0..8 {
        lab.submit("b account=b cpus=2 mem=1G time=100");
    }
    lab.submit("c account=c cpus=4 mem=1G time=100");
    lab.submit("c account=c cpus=4 mem=1G time=100");
    let now = lab.unchecked_plan();
    lab.carry_out(&now);
    lab.at_minute(1);
    lab.submit("a account=a nodes=1 cpus=4 mem=1G time=10");
    let now = lab.unchecked_plan();
    assert_eq!(rules(&lab, &now), BTreeSet::new(), "{now:#?}");
    let accounts: Vec<&str> =
        victims(&now).iter().map(|id| lab.state.jobs[id].spec.account.as_str()).collect();
    assert_eq!(accounts, ["b", "b"]);
}

#[test]
fn why_says_who_could_make_room_and_who_is_kept_from_it() {
    let mut lab = Lab::new(
        "node n1 cpus=10 mem=64G\nqos low preempt=requeue exempt=30\nqos kept preempt=off\n\
         qos old preempt=requeue\nqos high priority=10 preempts=low,kept,old\nqos normal",
    );
    for qos in ["low", "kept", "old", "normal"] {
        lab.submit(&format!("r qos={qos} cpus=2 mem=1G time=100"));
    }
    let now = lab.unchecked_plan();
    lab.carry_out(&now);
    lab.at_minute(10);
    let big = lab.submit("big qos=high nodes=1 cpus=10 mem=1G time=10");
    let mut planner = Planner::new(&lab.state);
    let found = planner.explain(&lab.state, big, lab.now).room_makers.expect("it may preempt");
    let rows = |rows: &[muster_planner::RunningJobs]| -> Vec<(String, Vec<JobId>, Option<i64>)> {
        let row = |row: &muster_planner::RunningJobs| {
            let minute = row.until.map(|at| at.secs() / 60);
            (row.what.clone(), row.jobs.clone(), minute)
        };
        rows.iter().map(row).collect()
    };
    let may = "of QOS old, which high may preempt".to_owned();
    assert_eq!(rows(&found.may), [(may, vec![JobId(3)], None)]);
    assert_eq!(
        rows(&found.kept),
        [
            ("in their exempt time".to_owned(), vec![JobId(1)], Some(30)),
            ("protected by QOS kept".to_owned(), vec![JobId(2)], None),
            ("not below it by any rule".to_owned(), vec![JobId(4)], None),
        ]
    );
    assert!(found.in_vain);
    // Nothing is said where nobody may be preempted by it.
    let low = lab.submit("low qos=low nodes=1 cpus=10 mem=1G time=10");
    let mut planner = Planner::new(&lab.state);
    assert!(planner.explain(&lab.state, low, lab.now).room_makers.is_none());
}
