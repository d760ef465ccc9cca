//! Partitions of a running Slurm, decided by muster and run by Slurm.
//!
//! A partition is handed over behind a lease: a short reservation of its nodes that [`Drive`] keeps
//! extending. Plain jobs wait behind it. Each [`Drive::turn`] reads Slurm, plans, and moves the jobs
//! that are to start now into the lease, with their nodes required; Slurm starts them. Everything
//! that has to outlast muster stands in Slurm (module `read::driven` of the engine), so a muster
//! that was killed goes on where it was, and without one the lease lapses and Slurm schedules by
//! itself. Where a site cannot reserve, jobs are held in place of that ([`By::Hold`]), and
//! [`give_back_lapsed`] releases them once nobody drives. [`hand_back`] ends it at once; running jobs go on.

mod ahead;
mod drive;
mod error;
mod lease;
mod steps;
mod watch;

pub use drive::{Drive, Settings, Turn};
pub use error::DriveError;
pub use lease::{By, Lapse, give_back_lapsed, hand_back, leases};
pub use steps::{Step, Steps, steps};

use serde::Serialize;

/// What came of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Happened {
    /// A job is held until it is to start.
    Held {
        /// The job.
        job: String,
    },
    /// A job was moved into the lease, or released.
    Released {
        /// The job.
        job: String,
        /// Where it is to start.
        nodes: String,
    },
    /// Slurm started it where it was meant to.
    Started {
        /// The job.
        job: String,
        /// Where.
        nodes: String,
    },
    /// Slurm started it elsewhere.
    Elsewhere {
        /// The job.
        job: String,
        /// Where.
        nodes: String,
        /// Where it was meant to start.
        meant: String,
    },
    /// Slurm does not start it; it is taken back and let be for a while.
    NotStarted {
        /// The job.
        job: String,
        /// Slurm's word.
        why: String,
    },
    /// It has again what it asked for itself: its room is gone, or its lease had lapsed.
    TakenBack {
        /// The job.
        job: String,
    },
    /// Its start would break a rule of plan-check.
    Broken {
        /// The job.
        job: String,
        /// The rule.
        rule: String,
    },
    /// A partition is not driven any more; the others are.
    Lost {
        /// The partition.
        partition: String,
        /// The code of why.
        code: &'static str,
        /// Why.
        why: String,
    },
    /// Slurm refused something.
    Refused {
        /// What it said.
        said: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_engine_slurm::read::{Answers, Cluster, understand};
    use muster_model::Timestamp;
    use std::collections::BTreeSet;

    /// Two nodes of four CPUs in a partition that is handed over, with these jobs.
    pub(crate) fn cluster(jobs: &str, now: i64) -> Cluster {
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
        understand(&answers, Timestamp::from_secs(now)).expect("understood")
    }

    /// A job of `p` that wants one node whole, with these fields beside or instead.
    pub(crate) fn waiting(id: u32, more: &str) -> String {
        let word = if more.contains("state_reason") { "" } else { r#","state_reason":"None""# };
        format!(
            r#"{{"job_id":{id},"job_state":"PENDING","partition":"p","priority":{},
            "node_count":1,"tasks":1,"time_limit":10,"user_name":"ada","shared":"none",
            "submit_time":900,"eligible_time":900,"tres_req_str":"cpu=4,node=1"{word}{more}}}"#,
            100 - id
        )
    }

    fn planned(jobs: &[String], barred: &[&str]) -> (Vec<(String, String)>, Vec<String>) {
        let barred = barred.iter().map(ToString::to_string).collect();
        let cluster = cluster(&jobs.join(","), 1000);
        let driven = cluster.driven(&BTreeSet::from(["p".to_owned()]), &barred);
        let steps = steps(&driven, By::Lease).expect("planned");
        assert!(steps.broken.is_empty(), "{steps:?}");
        let name = |job| driven.targets[job].name.clone();
        let nodes = |step: &Step| step.nodes.iter().cloned().collect::<Vec<_>>().join(",");
        (
            steps.release.iter().map(|step| (name(&step.job), nodes(step))).collect(),
            steps.take_back.iter().map(name).collect(),
        )
    }

    const RELEASED: &str = r#","resv_name":"muster_p","admin_comment":"muster:/""#;

    fn on(node: &str) -> String {
        format!(r#"{RELEASED},"required_nodes":"{node}""#)
    }

    #[test]
    fn the_head_of_the_queue_is_released_to_nodes_that_are_free() {
        let (release, back) = planned(&[waiting(3, ""), waiting(2, ""), waiting(1, "")], &[]);
        let pair = |job: &str, nodes: &str| (job.to_owned(), nodes.to_owned());
        assert_eq!(release, [pair("1", "n1"), pair("2", "n2")]);
        assert!(back.is_empty());
    }

    #[test]
    fn a_released_job_keeps_its_room_and_nothing_is_said_twice() {
        let (release, back) =
            planned(&[waiting(1, ""), waiting(2, ""), waiting(9, &on("n2"))], &[]);
        assert_eq!(release, [("1".to_owned(), "n1".to_owned())]);
        assert!(back.is_empty());
    }

    #[test]
    fn a_released_job_whose_room_is_gone_is_taken_back() {
        let running = r#"{"job_id":4,"job_state":"RUNNING","partition":"p","nodes":"n2","cpus":4,
            "node_count":1,"tasks":1,"time_limit":60,"start_time":990,"user_name":"bob",
            "tres_req_str":"cpu=4,node=1"}"#;
        let (release, back) = planned(&[running.to_owned(), waiting(9, &on("n2"))], &[]);
        assert!(release.is_empty());
        assert_eq!(back, ["9"]);
    }

    #[test]
    fn a_released_job_that_is_barred_or_held_by_its_user_is_taken_back() {
        assert_eq!(planned(&[waiting(9, &on("n2"))], &["9"]).1, ["9"]);
        let held = waiting(9, &on("n2")).replace(r#""priority":91"#, r#""priority":0"#);
        assert_eq!(planned(&[held], &[]).1, ["9"]);
    }

    #[test]
    fn small_jobs_at_the_head_are_released_ahead_and_none_past_a_large_one() {
        let small = |id: u32, more: &str| {
            waiting(id, more)
                .replace(r#","shared":"none""#, "")
                .replace(r#""cpu=4,node=1""#, r#""cpu=1,node=1""#)
        };
        let full = |node: &str, id: u32| {
            format!(
                r#"{{"job_id":{id},"job_state":"RUNNING","partition":"p","nodes":"{node}",
                "cpus":4,"node_count":1,"tasks":1,"time_limit":60,"start_time":990,
                "user_name":"bob","tres_req_str":"cpu=4,node=1"}}"#
            )
        };
        let busy = [full("n1", 90), full("n2", 91)];
        let queue = [small(1, ""), small(2, RELEASED), waiting(3, ""), small(4, RELEASED)];
        let (release, back) = planned(&[&busy[..], &queue[..]].concat(), &[]);
        assert_eq!(release, [("1".to_owned(), String::new())]);
        assert_eq!(back, ["4"], "a job that came to stand behind a large one waits for it");
    }

    fn array(id: u32, tasks: &str, more: &str) -> String {
        waiting(id, &format!(r#","array_job_id":{id},"array_task_string":"{tasks}"{more}"#))
            .replace(r#","shared":"none""#, "")
            .replace(r#""cpu=4,node=1""#, r#""cpu=1,node=1""#)
    }

    fn whole(jobs: &[String]) -> (Vec<String>, Vec<String>) {
        let driven = cluster(&jobs.join(","), 1000)
            .driven(&BTreeSet::from(["p".to_owned()]), &BTreeSet::new());
        let steps = steps(&driven, By::Lease).expect("planned");
        let name = |job| driven.targets[job].whole().name;
        (
            steps.release.iter().filter(|step| step.whole).map(|step| name(&step.job)).collect(),
            steps.take_back.iter().map(name).collect(),
        )
    }

    #[test]
    fn an_array_of_which_more_waits_than_starts_stays_one_record() {
        // Eight CPUs, twenty tasks: all of them in one act, and nothing more once that is told.
        assert_eq!(whole(&[array(3, "1-20", "")]), (vec!["3_[1-20]".to_owned()], vec![]));
        assert_eq!(planned(&[array(3, "1-20", "")], &[]).0.len(), 1);
        assert_eq!(planned(&[array(3, "1-20", RELEASED)], &[]), (vec![], vec![]));
    }

    #[test]
    fn an_array_that_fits_or_is_throttled_is_placed_task_by_task() {
        let (release, _) = planned(&[array(3, "1-3", "")], &[]);
        let tasks: Vec<&str> = release.iter().map(|(task, _)| task.as_str()).collect();
        assert_eq!(tasks, ["3_1", "3_2", "3_3"]);
        assert!(release.iter().all(|(_, nodes)| !nodes.is_empty()), "{release:?}");
        let throttled = array(3, "1-20%2", r#","array_max_tasks":2"#);
        assert_eq!(whole(std::slice::from_ref(&throttled)).0, [""; 0]);
        assert_eq!(planned(&[throttled], &[]).0.len(), 2);
    }

    #[test]
    fn an_array_in_the_lease_is_taken_back_as_one_record_where_a_large_job_comes_before_it() {
        let busy = r#"{"job_id":90,"job_state":"RUNNING","partition":"p","nodes":"n1","cpus":4,
            "node_count":1,"tasks":1,"time_limit":60,"start_time":990,"user_name":"bob",
            "tres_req_str":"cpu=4,node=1"}"#;
        let gang = waiting(1, "")
            .replace(r#""node_count":1"#, r#""node_count":2"#)
            .replace("cpu=4,node=1", "cpu=8,node=2");
        let (release, back) = whole(&[busy.to_owned(), gang, array(3, "1-20", RELEASED)]);
        assert_eq!((release, back), (vec![], vec!["3_[1-20]".to_owned()]));
    }

    #[test]
    fn nothing_is_released_ahead_while_a_heterogeneous_job_is_about_to_start() {
        let part = |id: u32, offset: u32| {
            let more =
                format!(r#","het_job_id":7,"het_job_offset":{offset},"priority":50{RELEASED}"#);
            waiting(id, &more).replace(&format!(r#""priority":{},"#, 100 - id), "")
        };
        let (release, back) = whole(&[part(7, 0), part(8, 1), array(30, "1-20", "")]);
        assert_eq!((release, back), (vec![], vec![]), "its tasks would take the room");
    }

    /// Slurm's backfill keeps a whole node for each component until all of them start.
    #[test]
    fn components_of_a_heterogeneous_job_never_meet_on_a_node() {
        let part = |id: u32, offset: u32| {
            let more = format!(r#","het_job_id":7,"het_job_offset":{offset},"priority":50"#);
            waiting(id, &more)
                .replace(&format!(r#""priority":{},"#, 100 - id), "")
                .replace(r#","shared":"none""#, "")
                .replace(r#""cpu=4,node=1""#, r#""cpu=1,node=1""#)
        };
        let (release, _) = planned(&[part(7, 0), part(8, 1)], &[]);
        let nodes: BTreeSet<&str> = release.iter().map(|(_, nodes)| nodes.as_str()).collect();
        assert_eq!(nodes, BTreeSet::from(["n1", "n2"]));
        let (release, _) = planned(&[part(7, 0), part(8, 1), waiting(1, &on("n1"))], &[]);
        assert!(release.is_empty(), "{release:?}");
    }

    #[test]
    fn components_of_a_heterogeneous_job_are_released_together_or_not_at_all() {
        let part = |id: u32, offset: u32| {
            waiting(id, &format!(r#","het_job_id":7,"het_job_offset":{offset},"priority":50"#))
                .replace(&format!(r#""priority":{},"#, 100 - id), "")
        };
        let (release, _) = planned(&[part(7, 0), part(8, 1)], &[]);
        let jobs: Vec<&str> = release.iter().map(|(job, _)| job.as_str()).collect();
        assert_eq!(jobs, ["7", "8"]);
        let busy = waiting(1, &on("n1"));
        let (release, _) = planned(&[part(7, 0), part(8, 1), busy], &[]);
        assert!(release.is_empty(), "{release:?}");
    }

    #[test]
    fn by_holds_new_jobs_are_held_and_only_one_that_starts_now_is_not() {
        let planned = |jobs: &[String]| {
            let driven = cluster(&jobs.join(","), 1000)
                .driven(&BTreeSet::from(["p".to_owned()]), &BTreeSet::new());
            let steps = steps(&driven, By::Hold).expect("planned");
            let name = |job| driven.targets[job].whole().name;
            let hold: Vec<String> = steps.hold.iter().map(name).collect();
            let back: Vec<String> = steps.take_back.iter().map(name).collect();
            let start = |step: &Step| driven.targets[&step.job].name.clone();
            (hold, steps.release.iter().map(start).collect::<Vec<_>>(), back)
        };
        let of = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let held = |id: u32, mark: &str| {
            let more =
                format!(r#","admin_comment":"muster://{mark}","state_reason":"JobHeldAdmin""#);
            waiting(id, &more).replace(&format!(r#""priority":{}"#, 100 - id), r#""priority":0"#)
        };
        let all = planned(&[waiting(1, ""), waiting(2, ""), waiting(3, "")]);
        assert_eq!(all, (of(&["3"]), of(&["1", "2"]), of(&[])));
        // By the priority that it had, 7 comes before 2.
        let all = planned(&[held(7, "p99"), held(8, "p5"), waiting(2, "")]);
        assert_eq!(all, (of(&[]), of(&["7", "2"]), of(&[])));
        // An array is held as one record before tasks of it are released.
        let all = planned(&[array(3, "1-20", "")]);
        assert_eq!((all.0, all.1.len(), all.2), (of(&["3_[1-20]"]), 8, of(&[])));
        // Its user's hold, and a rule of Slurm's, are left alone.
        let own = held(7, "p99").replace("muster://p99", "").replace("Admin", "User");
        let rule = waiting(2, r#","state_reason":"Dependency""#);
        assert_eq!(planned(&[own, rule]), (of(&[]), of(&[]), of(&[])));
        // Of two that were released one has lost its room.
        let running = r#"{"job_id":4,"job_state":"RUNNING","partition":"p","nodes":"n2","cpus":4,
            "node_count":1,"tasks":1,"time_limit":60,"start_time":990,"user_name":"bob",
            "tres_req_str":"cpu=4,node=1"}"#;
        let released = |id: u32, node: &str| {
            waiting(id, &format!(r#","admin_comment":"muster://p9","required_nodes":"{node}""#))
        };
        let all = planned(&[running.to_owned(), released(5, "n1"), released(6, "n2")]);
        assert_eq!(all, (of(&[]), of(&[]), of(&["6"])));
    }
}
