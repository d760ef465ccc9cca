//! The part of a Slurm that muster drives: the waiting jobs of partitions that were handed over.
//!
//! A partition is handed over behind a reservation of its nodes, the *lease*: plain jobs wait, and
//! one that is moved into it with a required node list starts there. Or jobs are *held*, and one is
//! released with a required node list. What a job's own node list was stands as a [`Mark`] in its
//! administrator's comment, so that nothing is lost with muster.

use super::Cluster;
use super::jobs::{JobRecord, JobStanding};
use super::json::{Number, Words};
use super::mark::{Mark, NodeRange};
use super::spec::hosts;
use muster_model::JobId;
use muster_slurm_syntax::array;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeFrom;

/// How the reservations begin by which partitions are handed over.
pub const LEASE_PREFIX: &str = "muster_";

/// Tasks of an array that are planned at once are numbered from here on, above any of Slurm's own
/// numbers.
const TASKS_FROM: u32 = 1 << 30;

/// So many jobs at most are released before there is room for them.
pub const AHEAD_MAX: usize = 256;

/// The name of a partition's lease.
pub fn lease_name(partition: &str) -> String {
    format!("{LEASE_PREFIX}{partition}")
}

/// A waiting job of a partition that was handed over, as Slurm is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name in an update: `12`, or `12_3` for a task of an array.
    pub name: String,
    /// The partition that it would be started in.
    pub partition: String,
    /// Its user.
    pub user: String,
    /// The priority that Slurm gave it, or had given it before muster held it.
    pub priority: u32,
    /// What it asked for itself.
    pub mark: Mark,
    /// Its mark stands in Slurm.
    pub marked: bool,
    /// The nodes that are required of it now.
    pub required: BTreeSet<String>,
    /// It is in the lease, or not held any more: Slurm may start it any moment.
    pub released: bool,
    /// Muster holds it.
    pub held: bool,
    /// All of an array that waits in an update, itself otherwise.
    pub all: String,
    /// It is in the lease without nodes of muster's: Slurm starts it wherever it fits, in its turn.
    pub ahead: bool,
    /// Other nodes are required of it than it asked for.
    pub placed: bool,
    /// The record that stands for it and other waiting tasks of its array.
    pub rest: Option<Remainder>,
    /// The first component of a heterogeneous job: `scontrol` can exclude nodes for it only.
    pub leads: bool,
    /// A component of a heterogeneous job: only backfill starts those.
    pub heterogeneous: bool,
    /// Slurm's word for why it waits.
    pub word: String,
}

/// The waiting tasks of an array that are one record still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remainder {
    /// The array.
    pub array: u32,
    /// All of them in an update: `12_[3-9]`, by which they stay one record.
    pub name: String,
    /// No more of them may run at a time than the user said.
    pub throttled: bool,
}

impl Target {
    /// The record that stands for it and others, where there is one; else itself.
    #[must_use]
    pub fn whole(&self) -> Self {
        let name = self.rest.as_ref().map_or(&self.all, |rest| &rest.name).clone();
        Self { name, ..self.clone() }
    }

    /// What [`JobRecord::name`] says of its record.
    pub fn record(&self) -> String {
        self.rest.as_ref().map_or_else(|| self.name.clone(), |rest| rest.array.to_string())
    }
}

/// What is to be planned.
#[derive(Clone, Debug)]
pub struct Driven {
    /// The cluster without leases, and without the waiting jobs that are not muster's to start.
    pub cluster: Cluster,
    /// The jobs that wait, by their number in that.
    pub targets: BTreeMap<JobId, Target>,
    /// Jobs outside the lease that have a mark: what a lapsed lease left.
    pub left: Vec<Target>,
}

impl Cluster {
    /// The same without muster's own leases: nodes in one are not kept from anybody, and jobs in
    /// one are as others.
    #[must_use]
    pub fn without_leases(&self) -> Self {
        let mut bare = self.clone();
        bare.reservations.retain(|r| !r.reservation.name.starts_with(LEASE_PREFIX));
        for job in &mut bare.jobs {
            if job.lease().is_some() {
                job.resv_name = Words::default();
            }
        }
        bare
    }

    /// What muster drives of it: the waiting jobs of these partitions but those of `barred` names,
    /// tasks of arrays each for itself, as many as could start at once.
    pub fn driven(&self, partitions: &BTreeSet<String>, barred: &BTreeSet<String>) -> Driven {
        let mut cluster = self.without_leases();
        let bare = std::mem::take(&mut cluster.jobs);
        let mut found = Driven { cluster, targets: BTreeMap::new(), left: Vec::new() };
        let cpus: usize = self.nodes.iter().map(|node| node.cpus.len() as usize).sum();
        let cpus = cpus + AHEAD_MAX;
        let running = running_tasks(&self.jobs);
        let mut fresh = TASKS_FROM..;
        for (told, mut job) in self.jobs.iter().zip(bare) {
            match told.standing() {
                JobStanding::Over => {}
                JobStanding::Holding => found.cluster.jobs.push(job),
                JobStanding::Waiting => {
                    let Some(target) = told.target(partitions) else { continue };
                    job.partition = words(&target.partition);
                    if target.held {
                        job.required_nodes = words(&target.mark.required);
                        job.excluded_nodes = words(&target.mark.excluded);
                        job.hold = false;
                        job.priority = Number::Of(u64::from(target.mark.held.unwrap_or(1)).max(1));
                    } else if target.marked && !target.released {
                        job.required_nodes = words(&target.mark.required);
                        job.excluded_nodes = words(&target.mark.excluded);
                        found.left.push(target.whole());
                        // What its range was is seen once it has it again.
                        if target.mark.range.is_some() {
                            continue;
                        }
                    }
                    let most = told.array_max_tasks.some().map_or(cpus, |most| most as usize);
                    let started = running.get(&told.job_id).copied().unwrap_or(0);
                    let most = most.saturating_sub(started).min(cpus);
                    for (job, target) in one_by_one(job, target, most, &mut fresh) {
                        found.take(job, target, barred);
                    }
                }
            }
        }
        found.level();
        found
    }
}

impl Driven {
    /// Plans no start of a job on these nodes.
    pub fn keep_off(&mut self, job: JobId, nodes: &BTreeSet<String>) {
        let records = self.cluster.jobs.iter_mut().filter(|record| record.id() == job);
        records.for_each(|record| record.excluded_nodes.0.extend(nodes.iter().cloned()));
    }

    /// Tasks of an array stand alike: Slurm ages the record of each that was split off and the
    /// record of the rest for itself, and no task is to be taken back for another one.
    fn level(&mut self) {
        let planned = |job: &JobRecord| {
            let placed = self.targets.get(&job.id()).is_none_or(|t| t.released && !t.ahead);
            job.array_job_id.some().filter(|_| !placed && !job.is_held())
        };
        let mut most: BTreeMap<u32, u64> = BTreeMap::new();
        for job in &self.cluster.jobs {
            if let (Some(array), Some(priority)) = (planned(job), job.priority.get()) {
                let own = most.entry(array).or_default();
                *own = priority.max(*own);
            }
        }
        for at in 0..self.cluster.jobs.len() {
            let own = planned(&self.cluster.jobs[at]).and_then(|array| most.get(&array));
            if let Some(own) = own {
                self.cluster.jobs[at].priority = Number::Of(*own);
            }
        }
    }

    /// A waiting job is planned, unless it is barred or kept by a rule that only Slurm can judge.
    fn take(&mut self, mut job: JobRecord, target: Target, barred: &BTreeSet<String>) {
        // A user's hold counts also for one that was released already.
        let barred = barred.contains(&target.name)
            || barred.contains(&target.record())
            || (target.released && job.is_held())
            // Slurm's word for one that is held tells no more than that.
            || (target.held && !job.dependency.joined().is_empty());
        if target.released && !target.ahead {
            // Its room is given away already; a barred one is known, to be taken back.
            job.priority = Number::Of(u64::from(u32::MAX) - 1);
        } else if !target.released
            && !target.held
            && (barred || !is_for_the_scheduler(&target.word))
        {
            return;
        }
        self.targets.insert(job.id(), target);
        if !barred {
            self.cluster.jobs.push(job);
        }
    }
}

/// A job itself, or `most` of the waiting tasks of an array: the first with the number of the
/// record that stands for all.
fn one_by_one(
    job: JobRecord,
    target: Target,
    most: usize,
    fresh: &mut RangeFrom<u32>,
) -> Vec<(JobRecord, Target)> {
    let Some(tasks) = job.waiting_tasks() else { return vec![(job, target)] };
    let indices = indices(tasks);
    let one = |(at, index): (usize, u32)| {
        let fresh = if at == 0 { Some(job.job_id) } else { fresh.next() };
        let name = format!("{}_{index}", job.job_id);
        let array_task_string = Words::default();
        let task = JobRecord { job_id: fresh?, array_task_string, ..job.clone() };
        Some((task, Target { name, ..target.clone() }))
    };
    indices.into_iter().take(most).enumerate().filter_map(one).collect()
}

/// `0-2,4-9%2`; a long list ends with `...`, and what that stands for is told once these are gone.
fn indices(tasks: &str) -> Vec<u32> {
    let list = tasks.split('%').next().unwrap_or_default();
    let told: Vec<&str> = list.split(',').filter(|word| !word.contains("...")).collect();
    let parsed = array::parse_indices(&told.join(","), u32::MAX);
    parsed.map(|ranges| ranges.iter().collect()).unwrap_or_default()
}

/// How many tasks of each array run or may start any moment.
fn running_tasks(jobs: &[JobRecord]) -> BTreeMap<u32, usize> {
    let mut running = BTreeMap::new();
    for job in jobs.iter().filter(|job| job.array_task_id.get().is_some()) {
        let released = job.standing() == JobStanding::Waiting && job.lease().is_some();
        if let Some(array) = job.array_job_id.some()
            && (released || job.standing() == JobStanding::Holding)
        {
            *running.entry(array).or_default() += 1;
        }
    }
    running
}

fn words(text: &str) -> Words {
    Words((!text.is_empty()).then(|| text.to_owned()).into_iter().collect())
}

/// Words that say no more than that the scheduler has found no place or has not looked yet, or that
/// the lease keeps it away, or something that is counted here; any other is a rule that a start
/// would break.
fn is_for_the_scheduler(word: &str) -> bool {
    let words = [
        "",
        "None",
        "Priority",
        "Resources",
        "ReqNodeNotAvail",
        "Reservation",
        "Cleaning",
        "JobArrayTaskLimit",
        // Said of a partition that is up again until Slurm looks once more; whether it is, is known.
        "PartitionDown",
        "PartitionInactive",
    ];
    words.contains(&word)
}

impl JobRecord {
    /// The lease that it is in.
    fn lease(&self) -> Option<&str> {
        self.resv_name.0.first().map(String::as_str).filter(|name| name.starts_with(LEASE_PREFIX))
    }

    /// Its name in an update.
    pub fn name(&self) -> String {
        // The first task's number is zero.
        match (self.array_job_id.some(), self.array_task_id.get()) {
            (Some(array), Some(index)) => format!("{array}_{index}"),
            _ => self.job_id.to_string(),
        }
    }

    /// True where Slurm's word for why it waits is a rule of its own, not that there is no room.
    pub fn waits_by_a_rule(&self) -> bool {
        !is_for_the_scheduler(self.slurm_reason().unwrap_or_default())
    }

    /// The nodes that it has.
    pub fn nodes(&self) -> String {
        self.nodes.joined()
    }

    /// Its range of nodes. Those of a heterogeneous job are left: `scontrol` takes the number of
    /// the first component for all of them.
    fn range(&self) -> Option<NodeRange> {
        let least = self.nodes_least();
        let most = self.max_nodes.some().filter(|most| *most > least)?;
        let cpus = self.cpus.some().unwrap_or(least);
        self.het_job_id.some().is_none().then_some(NodeRange { least, most, cpus })
    }

    /// The array that it belongs to.
    pub fn array(&self) -> Option<u32> {
        self.array_job_id.some()
    }

    /// It as the waiting tasks of an array; `None` for any other, and where not all are told.
    fn rest(&self) -> Option<Remainder> {
        let tasks = self.waiting_tasks()?.split('%').next()?;
        let name = format!("{}_[{tasks}]", self.job_id);
        let throttled = self.array_max_tasks.some().is_some();
        (!tasks.contains("...")).then_some(Remainder { array: self.job_id, name, throttled })
    }

    /// Its name in an update of all that it stands for.
    fn name_of_all(&self) -> String {
        if self.waiting_tasks().is_some() { self.job_id.to_string() } else { self.name() }
    }

    /// It as one that muster may start; `None` where it is not in these partitions, or in somebody
    /// else's reservation.
    fn target(&self, partitions: &BTreeSet<String>) -> Option<Target> {
        let own = self.partition.joined();
        let partition = own.split(',').find(|name| partitions.contains(*name))?.to_owned();
        let leased = self.lease() == Some(lease_name(&partition).as_str());
        if !leased && !self.resv_name.joined().is_empty() {
            return None;
        }
        let comment = self.admin_comment.joined();
        let found = Mark::find(&comment);
        let marked = found.is_some();
        let mark = found.unwrap_or_else(|| Mark {
            required: self.required_nodes.joined(),
            excluded: self.excluded_nodes.joined(),
            range: self.range(),
            held: None,
            beside: comment,
        });
        let word = self.state_reason.joined();
        let held = mark.held.is_some() && self.is_held() && word == "JobHeldAdmin";
        let released = leased || (mark.held.is_some() && !self.is_held());
        let (leads, required) =
            (self.het_job_id.some() == Some(self.job_id), self.required_nodes.joined());
        let placed = required != mark.required;
        Some(Target {
            name: self.name(),
            partition,
            user: self.user_name.joined(),
            priority: mark.held.unwrap_or_else(|| self.priority()),
            marked,
            ahead: released && !leads && !placed,
            placed,
            rest: self.rest(),
            mark,
            required: hosts(&self.required_nodes).unwrap_or_default(),
            released,
            held,
            all: self.name_of_all(),
            leads,
            heterogeneous: self.het_job_id.some().is_some(),
            word,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{Answers, understand};
    use muster_model::Timestamp;

    fn cluster(jobs: &str) -> Cluster {
        let answers = Answers {
            config: "ClusterName = c\nSLURM_VERSION = 22.05.8\n".to_owned(),
            nodes: "NodeName=n1 CPUTot=4 State=IDLE\nNodeName=n2 CPUTot=4 State=IDLE\n".to_owned(),
            partitions: "PartitionName=p Nodes=n[1-2] State=UP\n".to_owned(),
            reservations: "ReservationName=muster_p StartTime=900 EndTime=1100 Nodes=n[1-2] \
                Users=root Flags=FLEX\n"
                .to_owned(),
            jobs: format!(r#"{{"jobs":[{jobs}]}}"#).into_bytes(),
            ..Answers::default()
        };
        understand(&answers, Timestamp::from_secs(1000)).expect("understood")
    }

    fn driven(jobs: &str, barred: &[&str]) -> Driven {
        let barred = barred.iter().map(ToString::to_string).collect();
        cluster(jobs).driven(&BTreeSet::from(["p".to_owned()]), &barred)
    }

    fn names(driven: &Driven) -> Vec<&str> {
        driven.targets.values().map(|target| target.name.as_str()).collect()
    }

    fn waiting(id: u32, more: &str) -> String {
        format!(
            r#"{{"job_id":{id},"job_state":"PENDING","partition":"p","priority":10,
            "node_count":1,"tasks":1,"time_limit":10,"user_name":"ada",
            "tres_req_str":"cpu=1,node=1","state_reason":"ReqNodeNotAvail"{more}}}"#
        )
    }

    #[test]
    fn tasks_of_an_array_stand_each_for_itself_within_its_throttle() {
        let array = r#","array_job_id":4,"array_task_string":"1-2,7-9%3","array_max_tasks":3"#;
        let split = r#"{"job_id":9,"array_job_id":4,"array_task_id":0,"job_state":"RUNNING",
            "partition":"p","nodes":"n1","cpus":1,"tres_req_str":"cpu=1,node=1"}"#;
        let found = driven(&format!("{},{split}", waiting(4, array)), &[]);
        assert_eq!(names(&found), ["4_1", "4_2"]);
        assert!(found.targets.contains_key(&JobId(4)));
        assert!(found.cluster.state().expect("a state").1.is_empty());
        let long = r#","array_job_id":4,"array_task_string":"0-2,7-..."#;
        let found = driven(&waiting(4, &format!("{long}\"")), &[]);
        assert_eq!(names(&found), ["4_0", "4_1", "4_2"]);
    }

    #[test]
    fn waiting_tasks_that_are_one_record_can_be_told_so() {
        let array = r#","array_job_id":4,"array_task_string":"1-2,7-9%3","array_max_tasks":3"#;
        let found = driven(&waiting(4, array), &[]);
        let rest = found.targets[&JobId(4)].rest.clone().expect("a record");
        assert_eq!((rest.name.as_str(), rest.throttled), ("4_[1-2,7-9]", true));
        assert_eq!(found.targets[&JobId(4)].record(), "4");
        let long = r#","array_job_id":4,"array_task_string":"0-2,7-...""#;
        assert_eq!(driven(&waiting(4, long), &[]).targets[&JobId(4)].rest, None);
        assert!(driven(&waiting(4, array), &["4"]).targets.is_empty(), "barred by its record");
    }

    /// Slurm weighs the record of a task anew when it is updated, that of the rest minutes later.
    #[test]
    fn tasks_of_an_array_have_the_highest_priority_of_its_records() {
        let rest = waiting(4, r#","array_job_id":4,"array_task_string":"1-2""#);
        let split = waiting(9, r#","array_job_id":4,"array_task_id":0"#).replace(":10,", ":30,");
        let found = driven(&format!("{rest},{split}"), &[]);
        let (state, _) = found.cluster.state().expect("a state");
        let all: Vec<_> = state.jobs.values().map(|job| job.spec.priority).collect();
        assert_eq!(all, [Some(30); 3]);
    }

    #[test]
    fn jobs_that_slurm_keeps_by_a_rule_or_others_have_reserved_are_not_musters() {
        let word = waiting(5, "").replace("ReqNodeNotAvail", "AssocGrpCpuLimit");
        let theirs = waiting(6, r#","resv_name":"course""#);
        let elsewhere = waiting(7, "").replace(r#""partition":"p""#, r#""partition":"q""#);
        assert_eq!(names(&driven(&[word, theirs, elsewhere].join(","), &[])), [""; 0]);
    }

    #[test]
    fn a_released_job_comes_first_on_its_nodes_and_a_barred_one_is_known_but_not_planned() {
        let mark = r#","resv_name":"muster_p","required_nodes":"n2","admin_comment":"muster:/""#;
        let found = driven(&waiting(5, mark), &[]);
        let target = &found.targets[&JobId(5)];
        assert!(target.released && target.marked && target.mark.required.is_empty());
        let (state, _) = found.cluster.state().expect("a state");
        let spec = &state.jobs[&JobId(5)].spec;
        assert!(spec.request.node_list.contains("n2") && spec.request.reservation.is_none());
        assert_eq!(spec.priority, Some(u32::MAX - 1));
        let found = driven(&waiting(5, mark), &["5"]);
        assert_eq!((names(&found).len(), found.cluster.jobs.len()), (1, 0));
    }

    #[test]
    fn a_range_of_nodes_is_kept_in_the_mark() {
        let of = |more: &str| {
            let job = waiting(5, more).replace("cpu=1,node=1", "cpu=2,node=2");
            driven(&job, &[]).targets.remove(&JobId(5)).map(|target| target.mark.range)
        };
        let range = NodeRange { least: 2, most: 4, cpus: 2 };
        assert_eq!(of(r#","max_nodes":4,"cpus":2"#), Some(Some(range)));
        assert_eq!(of(r#","max_nodes":2,"cpus":2"#), Some(None));
        let placed = r#","max_nodes":2,"cpus":2,"resv_name":"muster_p","required_nodes":"n[1-2]",
            "admin_comment":"muster://2-4/2""#;
        assert_eq!(of(placed), Some(Some(range)));
        // A lapsed lease left it: it is given its range back before it is planned.
        assert_eq!(of(&placed.replace(r#""resv_name":"muster_p","#, "")), None);
    }

    #[test]
    fn a_job_that_muster_holds_is_planned_with_the_priority_that_it_had() {
        let held = |word: &str, more: &str| {
            let mark = r#","admin_comment":"muster:n1//p30""#;
            waiting(5, &format!("{mark}{more}"))
                .replace(":10,", ":0,")
                .replace("ReqNodeNotAvail", word)
        };
        let found = driven(&held("JobHeldAdmin", ""), &[]);
        let target = &found.targets[&JobId(5)];
        assert!(target.held && !target.released && found.left.is_empty());
        let (state, _) = found.cluster.state().expect("a state");
        let job = &state.jobs[&JobId(5)];
        assert!(job.hold.is_none() && job.spec.request.node_list.contains("n1"));
        assert_eq!(job.spec.priority, Some(30));
        // What it waits for Slurm does not say of one that is held.
        let found = driven(&held("JobHeldAdmin", r#","dependency":"afterok:3(unfulfilled)""#), &[]);
        assert_eq!((found.targets.len(), found.cluster.jobs.len()), (1, 0));
        // Its user's hold is the user's, and what is left of muster's is to be tidied.
        let found = driven(&held("JobHeldUser", ""), &[]);
        assert_eq!((found.targets.len(), found.left.len()), (0, 1));
        let released = waiting(5, r#","admin_comment":"muster://p30","required_nodes":"n2""#);
        assert!(driven(&released, &[]).targets[&JobId(5)].released);
    }

    #[test]
    fn what_a_lapsed_lease_left_is_planned_by_what_the_user_asked() {
        let found =
            driven(&waiting(5, r#","required_nodes":"n2","admin_comment":"muster:/""#), &[]);
        assert_eq!(found.left.len(), 1);
        let (state, _) = found.cluster.state().expect("a state");
        assert!(state.jobs[&JobId(5)].spec.request.node_list.is_empty());
    }
}
