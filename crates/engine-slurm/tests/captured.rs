//! Answers of real commands (folder `captured`), read without a Slurm.
//!
//! 22.05: as a Slurm of four nodes gave them, with other names. 24.11: written by hand after the
//! shapes of data_parser 0.0.42, untested against a real one.

use muster_engine_slurm::SlurmError;
use muster_engine_slurm::read::{Answers, Cluster, understand};
use muster_model::{
    CpuSet, Exclusive, GpuScope, Hold, Job, JobId, JobState, MemoryRequest, Mib, NodeCount, NodeId,
    Seconds, State, TimeLimit, Timestamp,
};
use std::sync::Arc;

const NOW: Timestamp = Timestamp::from_secs(1_796_158_420);

fn answers(jobs: &str) -> Answers {
    Answers {
        config: include_str!("captured/22.05/config.txt").to_owned(),
        nodes: include_str!("captured/22.05/nodes.txt").to_owned(),
        partitions: include_str!("captured/22.05/partitions.txt").to_owned(),
        reservations: include_str!("captured/22.05/reservations.txt").to_owned(),
        licences: include_str!("captured/22.05/licences.txt").to_owned(),
        topology: include_str!("captured/22.05/topology.txt").to_owned(),
        associations: include_str!("captured/22.05/assoc_mgr.txt").to_owned(),
        jobs: jobs.as_bytes().to_vec(),
        ..Answers::default()
    }
}

fn old() -> Cluster {
    understand(&answers(include_str!("captured/22.05/jobs.json")), NOW).expect("understood")
}

fn state(cluster: &Cluster) -> State {
    let (state, left_out) = cluster.state().expect("a state");
    assert!(left_out.is_empty(), "{left_out:?}");
    state
}

fn job(state: &State, id: u32) -> &Arc<Job> {
    state.jobs.get(&JobId(id)).unwrap_or_else(|| panic!("no job {id}"))
}

#[test]
fn nodes_have_their_gpus_features_and_sockets() {
    let cluster = old();
    assert_eq!(cluster.config.version, "22.05.8");
    assert!(cluster.config.counts_memory);
    let names: Vec<&str> = cluster.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["n1", "n2", "n3", "n4"]);
    let (n1, n3) = (&cluster.nodes[0], &cluster.nodes[2]);
    assert_eq!((n1.devices.len(), n1.devices[3].model.as_str(), n1.weight), (4, "h100", 10));
    assert!(n1.features.contains("rack1") && n1.is_usable());
    assert_eq!((n3.cpus.len(), n3.sockets(), n3.threads_per_core), (16, 2, 2));
    assert_eq!(n3.memory, Mib(8000));
}

#[test]
fn partitions_reservations_and_licences_are_read() {
    let state = state(&old());
    let main = state.partitions.get("main").expect("main");
    assert!(main.default && main.nodes.len() == 4);
    assert_eq!(main.default_memory_per_cpu, Some(Mib(100)));
    assert_eq!(main.default_time, Some(TimeLimit::Of(Seconds(3600))));
    let short = state.partitions.get("short").expect("short");
    assert_eq!((short.max_time, short.tier), (TimeLimit::Of(Seconds(1800)), 10));
    assert!(short.allow_accounts.contains("ml"));
    let maint = state.reservations.get("maint").expect("maint");
    assert_eq!(maint.nodes.iter().map(|n| n.node).collect::<Vec<_>>(), [NodeId(0), NodeId(1)]);
    assert_eq!(maint.window.end.since(maint.window.start), Seconds(7200));
    assert!(maint.access.users.names.contains("ada"));
    let weekly = state.reservations.get("weekly").expect("weekly");
    assert_eq!(weekly.licences.get("matlab"), Some(&1));
    assert_eq!(state.licences.get("ansys").map(|l| l.total), Some(4));
}

#[test]
fn switches_accounts_and_qos_are_read_as_scontrol_tells_them() {
    let mut cluster = old();
    assert_eq!(cluster.topology.levels.len(), 2);
    assert!(cluster.topology.domains["leaf1"].nodes.contains("n3"));
    let ada = cluster.associations.rows.iter().find(|row| row.user.as_deref() == Some("nobody"));
    let ada = ada.expect("a user");
    assert_eq!((ada.account.as_str(), ada.factor_milli), ("ml", 1000));
    let research = cluster.associations.rows.iter().find(|row| row.account == "research");
    let research = research.expect("an account");
    assert_eq!(research.in_use.get(&"gres/gpu".parse().expect("a kind")), 11);
    // Without AccountingStorageEnforce=limits no limit holds.
    assert!(state(&cluster).qos.is_empty());
    cluster.config.enforces_limits = true;
    let state = state(&cluster);
    assert_eq!(state.accounts["ml"].parent.as_deref(), Some("research"));
    assert_eq!(state.qos["high"].limits.max_jobs_per_user, Some(20));
}

#[test]
fn what_runs_holds_what_slurm_gave_it() {
    let state = state(&old());
    // sbatch --exclusive: all of n3, alone.
    let whole = job(&state, 1);
    assert_eq!(whole.state, JobState::Running);
    let share = &whole.placement.as_ref().expect("placed").nodes[0];
    assert_eq!((share.node, share.cpus.len(), share.exclusive), (NodeId(2), 16, true));
    // sbatch --gres=gpu:h100:2 -c4 --mem=2G: cores 0 to 3 and GPUs 0 and 1 of n1.
    let part = job(&state, 2);
    let share = &part.placement.as_ref().expect("placed").nodes[0];
    assert_eq!((share.node, share.memory), (NodeId(0), Mib(2048)));
    assert_eq!(share.cpus, CpuSet::first(4));
    assert_eq!(share.devices.iter().map(|d| d.index).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(part.started, Some(Timestamp::from_secs(1_796_158_397)));
    assert_eq!(part.ends_at_latest(), Some(Timestamp::from_secs(1_796_158_397 + 7200)));
}

#[test]
fn what_waits_asks_for_what_its_user_asked() {
    let state = state(&old());
    // -N2 -n4 -C 'fast|rack2' --mem-per-cpu=200 -t 1-0 -L ansys:2
    let spec = &job(&state, 3).spec;
    assert_eq!(spec.request.nodes, Some(NodeCount::exactly(2)));
    assert_eq!(spec.request.tasks, Some(4));
    assert_eq!(spec.request.memory, MemoryRequest::PerCpu(Mib(200)));
    assert_eq!(spec.time_limit, Some(TimeLimit::Of(Seconds(86_400))));
    assert!(spec.request.constraint.is_some());
    assert_eq!(spec.request.licences[0].count, 2);
    // --array=0-2 -N4 --exclusive: one record, a task on each of four nodes of its own.
    let array = job(&state, 5);
    assert_eq!(array.spec.request.exclusive, Exclusive::Node);
    assert_eq!(array.spec.request.nodes, Some(NodeCount::exactly(4)));
    assert_eq!(array.spec.request.tasks, None);
    // --hold -N3 --gpus-per-node=2 --begin=now+1hour
    let held = job(&state, 6);
    assert_eq!((&held.hold, held.eligible), (&Some(Hold::User), None));
    assert_eq!(
        (held.spec.request.gpus[0].count, held.spec.request.gpus[0].scope),
        (2, GpuScope::Node)
    );
    assert!(held.spec.begin.is_some_and(|at| at > NOW));
    // -d afterok:1 -w n3,n4 -x n1 --time-min=10: waits for job 1, which runs.
    let dependent = job(&state, 7);
    assert_eq!(dependent.eligible, None);
    assert_eq!(dependent.spec.request.node_list.len(), 2);
    assert!(dependent.spec.request.exclude.contains("n1"));
    assert_eq!(dependent.spec.time_min, Some(Seconds(600)));
    // -N1-3 -n 20 --ntasks-per-node=8 --mem=0
    let wide = job(&state, 9);
    assert_eq!(wide.spec.request.nodes, Some(NodeCount::Range { min: 1, max: 3 }));
    assert_eq!((wide.spec.request.tasks, wide.spec.request.tasks_per_node), (Some(20), Some(8)));
    assert_eq!(wide.spec.request.memory, MemoryRequest::WholeNode);
}

#[test]
fn slurms_priorities_order_the_queue() {
    let state = state(&old());
    let priority = |id: u32| job(&state, id).spec.priority;
    assert!(priority(3) > priority(5) && priority(5) > priority(9));
}

#[test]
fn newer_shapes_say_the_same() {
    let text = include_str!("captured/24.11/jobs.json");
    let cluster = understand(&answers(text), NOW).expect("understood");
    assert_eq!(cluster.counts(), (1, 1));
    let array = cluster.jobs.iter().find(|j| j.id() == JobId(21)).expect("21");
    assert_eq!(array.waiting_tasks(), Some("0-99%10"));
    assert_eq!(array.slurm_reason(), Some("Resources"));
    let state = state(&cluster);
    let share = &job(&state, 20).placement.as_ref().expect("placed").nodes[0];
    assert_eq!(share.cpus, CpuSet::from_iter([2, 5]));
    assert_eq!(share.devices.iter().map(|d| d.index).collect::<Vec<_>>(), [1, 3]);
    let waiting = job(&state, 21);
    assert_eq!(waiting.spec.partitions, ["main", "short"]);
    assert_eq!(waiting.time_limit, TimeLimit::Unlimited);
    assert_eq!(waiting.spec.request.exclusive, Exclusive::Node);
    assert!(!state.jobs.contains_key(&JobId(19)), "what is over is not read");
}

#[test]
fn a_job_that_cannot_be_said_is_left_out_with_the_reason() {
    let text = r#"{"jobs":[
        {"job_id":5,"job_state":"PENDING","partition":"main","features":"[a&"},
        {"job_id":6,"job_state":"RUNNING","partition":"main","nodes":"n9","cpus":1},
        {"job_id":7,"job_state":"PENDING","partition":"main","priority":1}]}"#;
    let cluster = understand(&answers(text), NOW).expect("understood");
    let (state, left_out) = cluster.state().expect("a state");
    assert_eq!(left_out.iter().map(|l| l.job.0).collect::<Vec<_>>(), [5, 6]);
    assert!(left_out[1].why.contains("n9"), "{left_out:?}");
    assert!(state.jobs.contains_key(&JobId(7)));
}

#[test]
fn the_components_of_a_heterogeneous_job_stay_together() {
    let text = r#"{"jobs":[
        {"job_id":8,"job_state":"PENDING","partition":"main","priority":1,"het_job_id":8},
        {"job_id":9,"job_state":"PENDING","partition":"main","priority":1,"het_job_id":8,
         "het_job_offset":1}]}"#;
    let cluster = understand(&answers(text), NOW).expect("understood");
    let state = state(&cluster);
    let part = job(&state, 9).het.expect("a component");
    assert_eq!((part.leader, part.offset, part.size), (JobId(8), 1, 2));
}

#[test]
fn an_answer_of_something_else_is_refused_with_the_command() {
    for (jobs, what) in [("slurm_load_jobs error", "squeue"), ("{}", "jobs")] {
        let error: SlurmError = understand(&answers(jobs), NOW).expect_err(jobs);
        assert_eq!(error.code(), "E_SLURM_ANSWER");
        assert!(error.to_string().contains(what), "{error}");
    }
    let mut bad = answers("{\"jobs\":[]}");
    bad.nodes = "NodeName=n1 CPUTot=many".to_owned();
    let error = understand(&bad, NOW).expect_err("many").to_string();
    assert!(error.contains("node n1: CPUTot=many"), "{error}");
}
