//! What muster would do with the queue of a running Slurm, without touching it.
//!
//! [`look`] takes a Slurm as it was read and tells of every waiting job why it waits, when it is
//! expected to start and, of some, the smallest changes that would start it now. [`Early`] is a job
//! that muster would start now while Slurm lets it wait, with the word of plan-check on it.

mod log;

pub use log::{Could, Earlier, Entry, Report, Started, entry, report};

use muster_engine_slurm::SlurmError;
use muster_engine_slurm::read::{Cluster, JobStanding, LeftOut};
use muster_model::{Decision, Job, JobId, Plan, Promise, Reason, Start, State, Timestamp};
use muster_planner::{Budget, Planner};
use muster_slurm_syntax::hostlist;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Without a list of jobs so many at the head of the queue are explained in full.
pub const EXPLAINED_MAX: usize = 20;

/// A Slurm's queue as muster sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Look {
    /// When it was read, milliseconds since 1970.
    pub at_ms: Timestamp,
    /// The cluster's name.
    pub cluster: String,
    /// Slurm's version.
    pub version: String,
    /// Jobs that have resources.
    pub running: usize,
    /// Jobs that wait, in the order in which they would be tried.
    pub waiting: Vec<Waiting>,
    /// Jobs that muster would start now and Slurm has not started.
    pub early: Vec<Early>,
    /// Jobs that cannot be said, with the reason; the plan is one without them.
    pub left_out: Vec<Unsaid>,
}

/// A job that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Waiting {
    /// Its number; an array's waiting tasks stand as one, `4_[0-9%2]`.
    pub job: String,
    /// Its number alone.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its user.
    pub user: String,
    /// Its partitions.
    pub partition: String,
    /// The priority that Slurm gave it.
    pub priority: u32,
    /// Slurm's word for why it waits.
    pub slurm_reason: String,
    /// When Slurm expects it to start, where it says so.
    pub slurm_start_ms: Option<Timestamp>,
    /// Why it waits, the binding reason first; only that one where it is not explained in full.
    pub reasons: Vec<Why>,
    /// When it is expected to start if every job takes its whole limit.
    pub start_ms: Option<Timestamp>,
    /// A bound: not before this, unless jobs end before their limits; where it is explained in full.
    pub not_before_ms: Option<Timestamp>,
    /// The nodes that it would start on.
    pub nodes: String,
    /// The smallest changes that would start it now, each tried by planning with it.
    pub changes: Vec<String>,
}

/// A reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Why {
    /// Its stable code.
    pub code: String,
    /// One sentence.
    pub text: String,
}

/// A job that muster would start now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Early {
    /// Its number.
    pub id: u32,
    /// Where.
    pub nodes: String,
    /// What plan-check has against it; empty where it agrees.
    pub violations: Vec<String>,
    /// Slurm's word where that names a rule that only Slurm can judge; then it is no claim that
    /// Slurm could have started it.
    pub slurm_rule: Option<String>,
}

impl Early {
    /// True where plan-check and Slurm's own word both let it start.
    pub fn could(&self) -> bool {
        self.violations.is_empty() && self.slurm_rule.is_none()
    }
}

/// A job that cannot be said in muster's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unsaid {
    /// Its number.
    pub id: u32,
    /// What of it.
    pub why: String,
}

/// Looks at a Slurm as it was read. `jobs` are explained in full, or the head of the queue where
/// there are none.
///
/// # Errors
/// [`SlurmError::Answer`] where its records contradict each other.
pub fn look(cluster: &Cluster, jobs: &[JobId]) -> Result<Look, SlurmError> {
    let (state, left_out) = cluster.without_leases().state()?;
    let now = cluster.now;
    let mut planner = Planner::new(&state);
    let plan = planner.plan(&state, now, Budget::UNLIMITED);
    let starts = planner.outlook(&state, now).starts;
    let reasons = planner.reasons(&state, now);
    let mut waiting: Vec<Waiting> = cluster
        .jobs
        .iter()
        .filter(|record| record.standing() == JobStanding::Waiting)
        .filter_map(|record| {
            let job = state.jobs.get(&record.id())?;
            let mut row = waiting(&state, job, reasons.get(&job.id), starts.get(&job.id));
            if let Some(tasks) = record.waiting_tasks() {
                row.job = format!("{}_[{tasks}]", row.job);
            }
            record.slurm_reason().unwrap_or("None").clone_into(&mut row.slurm_reason);
            row.slurm_start_ms = record.expected();
            row.priority = record.priority();
            Some(row)
        })
        .collect();
    let place: BTreeMap<JobId, usize> =
        muster_planner::queue(&state, now).into_iter().zip(0..).collect();
    waiting.sort_by_key(|row| (place.get(&JobId(row.id)).copied(), row.id));
    let named: BTreeSet<u32> = jobs.iter().map(|job| job.0).collect();
    if !named.is_empty() {
        waiting.retain(|row| named.contains(&row.id));
    }
    for row in waiting.iter_mut().take(EXPLAINED_MAX.max(named.len())) {
        explain(&mut planner, &state, now, row);
    }
    let words: BTreeMap<JobId, &str> = cluster
        .jobs
        .iter()
        .filter_map(|record| Some((record.id(), record.slurm_reason()?)))
        .collect();
    Ok(Look {
        at_ms: now,
        cluster: cluster.config.cluster.clone(),
        version: cluster.config.version.clone(),
        running: cluster.counts().1,
        waiting,
        early: early(&state, &plan, &words),
        left_out: left_out.into_iter().map(unsaid).collect(),
    })
}

fn unsaid(left_out: LeftOut) -> Unsaid {
    Unsaid { id: left_out.job.0, why: left_out.why }
}

fn why(reason: &Reason) -> Why {
    Why { code: reason.code().to_owned(), text: reason.to_string() }
}

fn waiting(
    state: &State,
    job: &Job,
    reason: Option<&Reason>,
    promise: Option<&Promise>,
) -> Waiting {
    let nodes = promise.map_or(&[][..], |promise| promise.nodes.as_slice());
    Waiting {
        job: job.display_id(),
        id: job.id.0,
        name: job.spec.name.clone(),
        user: job.spec.owner.user.clone(),
        partition: job.spec.partitions.join(","),
        priority: 0,
        slurm_reason: String::new(),
        slurm_start_ms: None,
        reasons: reason.into_iter().map(why).collect(),
        start_ms: promise.map(|promise| promise.start),
        not_before_ms: None,
        nodes: fold(state, nodes.iter().copied()),
        changes: Vec::new(),
    }
}

fn fold(state: &State, nodes: impl Iterator<Item = muster_model::NodeId>) -> String {
    let names: Vec<&str> =
        nodes.filter_map(|id| state.nodes.get(&id)).map(|node| node.name.as_str()).collect();
    hostlist::fold(&names)
}

fn explain(planner: &mut Planner, state: &State, now: Timestamp, row: &mut Waiting) {
    let told = planner.explain(state, JobId(row.id), now);
    if !told.reasons.is_empty() {
        row.reasons = told.reasons.iter().map(why).collect();
    }
    row.not_before_ms = told.start.map(|window| window.not_before);
    row.changes = told.suggestions.iter().map(ToString::to_string).collect();
}

/// What the plan starts, held against the checker's rules and Slurm's words.
fn early(state: &State, plan: &Plan, words: &BTreeMap<JobId, &str>) -> Vec<Early> {
    let broken = muster_plan_check::check_full(state, plan);
    let starts = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Start(starts) => Some(starts),
        _ => None,
    });
    let one = |start: &Start| Early {
        id: start.job.0,
        nodes: fold(state, start.placement.nodes.iter().map(|share| share.node)),
        violations: broken
            .iter()
            .filter(|violation| violation.jobs.contains(&start.job))
            .map(ToString::to_string)
            .collect(),
        slurm_rule: words
            .get(&start.job)
            .filter(|word| !is_for_the_scheduler(word))
            .map(|word| (*word).to_owned()),
    };
    starts.flatten().map(one).collect()
}

/// Words that say no more than that the scheduler has found no place or has not looked yet; any
/// other is a rule that a start would break, or that muster cannot count.
fn is_for_the_scheduler(word: &str) -> bool {
    ["None", "Priority", "Resources", "Prolog", "Cleaning"].contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_engine_slurm::read::{Answers, Order, understand};

    const NOW: Timestamp = Timestamp::from_secs(1000);

    /// Two nodes of four CPUs; job 1 runs on n1 to 4600, and `waiting` wait.
    fn seen(waiting: &str) -> Look {
        let jobs = format!(
            r#"{{"jobs":[{{"job_id":1,"job_state":"RUNNING","partition":"p","nodes":"n1","cpus":4,
            "node_count":1,"tasks":1,"time_limit":60,"start_time":1000,"user_name":"ada",
            "tres_req_str":"cpu=4,node=1"}}{waiting}]}}"#
        );
        let answers = Answers {
            config: "ClusterName = c\nSLURM_VERSION = 22.05.8\n".to_owned(),
            nodes: "NodeName=n1 CPUTot=4 State=ALLOCATED\nNodeName=n2 CPUTot=4 State=IDLE\n"
                .to_owned(),
            partitions: "PartitionName=p Nodes=n[1-2] State=UP\n".to_owned(),
            jobs: jobs.into_bytes(),
            ..Answers::default()
        };
        look(&understand(&answers, NOW).expect("understood"), &[]).expect("seen")
    }

    fn job(id: u32, nodes: u32, word: &str) -> String {
        format!(
            r#",{{"job_id":{id},"job_state":"PENDING","partition":"p","priority":{},
            "node_count":{nodes},"tasks":{nodes},"time_limit":10,"state_reason":"{word}",
            "submit_time":900,"eligible_time":900,"user_name":"ada",
            "tres_req_str":"cpu={},node={nodes}","cpus_per_task":4}}"#,
            100 - id,
            4 * nodes,
        )
    }

    #[test]
    fn a_job_for_which_there_is_room_is_told_with_its_node() {
        let look = seen(&job(2, 1, "Priority"));
        let [early] = look.early.as_slice() else { panic!("{look:?}") };
        assert_eq!((early.id, early.nodes.as_str(), early.could()), (2, "n2", true));
    }

    /// One node of four CPUs that a job has whole, in a partition with these rules, and job 2.
    fn under(rules: &str) -> Look {
        let jobs = format!(
            r#"{{"jobs":[{{"job_id":1,"job_state":"RUNNING","partition":"p","nodes":"n1","cpus":4,
            "node_count":1,"tasks":1,"time_limit":60,"start_time":1000,"user_name":"ada",
            "tres_req_str":"cpu=4,node=1"}}{}]}}"#,
            job(2, 1, "Resources").replace(r#""state_reason""#, r#""qos":"low","state_reason""#)
        );
        let answers = Answers {
            config: "ClusterName = c\n".to_owned(),
            nodes: "NodeName=n1 CPUTot=4 State=ALLOCATED\n".to_owned(),
            partitions: format!("PartitionName=p Nodes=n1 State=UP {rules}\n"),
            jobs: jobs.into_bytes(),
            ..Answers::default()
        };
        look(&understand(&answers, NOW).expect("understood"), &[]).expect("seen")
    }

    #[test]
    fn jobs_share_cpus_where_the_partition_forces_them_to() {
        assert_eq!(under("OverSubscribe=NO").early, []);
        let look = under("OverSubscribe=FORCE:2");
        let [early] = look.early.as_slice() else { panic!("{look:?}") };
        assert_eq!((early.id, early.nodes.as_str(), early.could()), (2, "n1", true));
    }

    #[test]
    fn a_job_that_its_partition_does_not_let_in_is_named_with_the_rule() {
        let look = under("OverSubscribe=FORCE:2 AllowQos=high");
        assert_eq!((look.early.len(), look.waiting.len()), (0, 0));
        assert_eq!(look.left_out[0].why, "partition p is not for QOS low");
        assert_eq!(under("AllowQos=high,low").waiting.len(), 1);
    }

    #[test]
    fn under_fair_share_who_used_less_by_slurms_records_comes_first() {
        let row = |account: &str, user: &str, parent: &str, used: u32| {
            format!(
                "ClusterName=c Account={account} UserName={user} Partition= \
                 SharesRaw/Norm/Level/Factor=1/0.5/5/0.5 UsageRaw/Norm/Efctv={used}.00/0/0 \
                 ParentAccount={parent}\n"
            )
        };
        let associations = [
            row("root", "", "", 100),
            row("ml", "", "root(1)", 90),
            row("physics", "", "root(1)", 10),
            row("ml", "ada(7)", "", 90),
            row("physics", "bob(8)", "", 10),
        ];
        let of_bob = job(3, 2, "Priority")
            .replace("ada", "bob")
            .replace(r#""state_reason""#, r#""account":"physics","state_reason""#);
        let of_ada =
            job(2, 2, "Priority").replace(r#""state_reason""#, r#""account":"ml","state_reason""#);
        let answers = Answers {
            config: "ClusterName = c\nAccountingStorageEnforce = none\n".to_owned(),
            nodes: "NodeName=n1 CPUTot=4 State=DOWN\nNodeName=n2 CPUTot=4 State=IDLE\n".to_owned(),
            partitions: "PartitionName=p Nodes=n[1-2] State=UP\n".to_owned(),
            associations: associations.concat(),
            jobs: format!(r#"{{"jobs":[{}{of_bob}]}}"#, &of_ada[1..]).into_bytes(),
            ..Answers::default()
        };
        let cluster = understand(&answers, NOW).expect("understood");
        let ids = |order: Order| -> Vec<u32> {
            let look = look(&cluster.clone().ordered(order), &[]).expect("seen");
            look.waiting.iter().map(|row| row.id).collect()
        };
        assert_eq!(ids(Order::Slurm), [2, 3]);
        assert_eq!(ids(Order::FairShare), [3, 2]);
        assert_eq!(ids(Order::Fifo), [2, 3]);
    }

    #[test]
    fn what_slurm_holds_by_a_rule_of_its_own_is_no_claim() {
        let look = seen(&job(2, 1, "AssocGrpCPUMinutesLimit"));
        let [early] = look.early.as_slice() else { panic!("{look:?}") };
        assert!(!early.could());
        assert_eq!(early.slurm_rule.as_deref(), Some("AssocGrpCPUMinutesLimit"));
    }

    #[test]
    fn a_job_that_waits_for_others_has_numbers_a_start_and_what_would_help() {
        let look = seen(&job(2, 2, "Resources"));
        assert_eq!(look.early, []);
        let [row] = look.waiting.as_slice() else { panic!("{look:?}") };
        assert_eq!(row.slurm_reason, "Resources");
        assert_eq!(row.reasons[0].code, "RESOURCES");
        assert_eq!(row.start_ms, Some(Timestamp::from_secs(4600)));
        assert_eq!((row.nodes.as_str(), row.not_before_ms), ("n[1-2]", row.start_ms));
        assert!(!row.changes.is_empty(), "{row:?}");
    }
}
