//! What one task of a step sees.

use std::collections::BTreeMap;

use muster_api::step::{CpuBind, Distribution};

use super::{
    RunFacts, Setter, Variables, allocation_variables, join, master_port, mpi_variables,
    repeat_form, visible_gpus,
};
use crate::spec::LaunchSpec;

/// Where a task stands in its step.
#[derive(Clone, Debug)]
pub(crate) struct TaskFacts<'a> {
    /// The step's number.
    pub(crate) step: u32,
    /// The task's number in the step.
    pub(crate) procid: u32,
    /// Its number on its node.
    pub(crate) localid: u32,
    /// The position of its node among the step's nodes.
    pub(crate) nodeid: u32,
    /// The position of its node in the allocation.
    pub(crate) share: usize,
    /// The share of the node with the step's first task.
    pub(crate) first_share: usize,
    /// The step's nodes, folded.
    pub(crate) nodelist: &'a str,
    /// Tasks on each of the step's nodes.
    pub(crate) per_node: &'a [u32],
    /// All tasks on its node, by number.
    pub(crate) neighbours: &'a str,
    /// CPUs the step has on its node.
    pub(crate) cpus_on_node: u32,
    /// CPUs of each task, where asked for.
    pub(crate) cpus_per_task: Option<u32>,
    /// How tasks lie over nodes and CPUs.
    pub(crate) distribution: Distribution,
    /// How they are bound to CPUs, where asked for.
    pub(crate) cpu_bind: Option<&'a CpuBind>,
    /// Positions, in the node's share, of the GPUs the step has there.
    pub(crate) step_gpus: &'a [usize],
    /// Positions of those this task may see.
    pub(crate) task_gpus: &'a [usize],
}

/// The environment of one task: the client's, the job's, and the step's over both.
pub(crate) fn task_environment(
    spec: &LaunchSpec,
    run: RunFacts<'_>,
    client: &[(String, String)],
    task: &TaskFacts<'_>,
) -> Variables {
    let mut variables: Variables = client.iter().cloned().collect();
    let nested = variables.contains_key("SLURM_STEP_ID");
    variables.extend(allocation_variables(spec, run));
    mpi_variables(&mut variables, spec);
    variables.extend(spec.variables.iter().cloned());
    variables.remove("ENVIRONMENT");
    variables.extend(step_variables(task));
    let Some(node) = spec.nodes.get(task.share) else { return variables };
    let mut set = Setter::default();
    set.put("SLURMD_NODENAME", &node.name);
    set.put("SLURM_TOPOLOGY_ADDR", &node.name);
    set.put("SLURM_TOPOLOGY_ADDR_PATTERN", "node");
    set.put("SLURM_CPUS_ON_NODE", task.cpus_on_node);
    let index = |at: &usize| node.gpus.get(*at).map(|g| g.index);
    if !node.gpus.is_empty() {
        let job: Vec<u32> = node.gpus.iter().map(|g| g.index).collect();
        let step: Vec<u32> = task.step_gpus.iter().filter_map(index).collect();
        set.put("SLURM_JOB_GPUS", join(&job));
        set.put("SLURM_STEP_GPUS", join(&step));
        set.put("SLURM_GPUS_ON_NODE", step.len());
    }
    variables.extend(set.variables);
    variables.extend(visible_gpus(node, task.task_gpus, run.gpus_fenced));
    variables.extend(torchrun_variables(task));
    if nested || !variables.contains_key("MASTER_PORT") {
        variables.insert("MASTER_PORT".to_owned(), master_port(spec, task.step + 1).to_string());
    }
    // What the script has is where the job's first node is; this step may begin on another.
    let (of_job, own) = (spec.meeting_place(0), spec.meeting_place(task.first_share));
    let meets = variables.entry("MASTER_ADDR".to_owned()).or_insert_with(|| own.clone());
    if *meets == of_job {
        *meets = own;
    }
    variables
}

fn step_variables(task: &TaskFacts<'_>) -> Variables {
    let mut set = Setter::default();
    let tasks: u32 = task.per_node.iter().sum();
    for name in ["SLURM_STEP_ID", "SLURM_STEPID"] {
        set.put(name, task.step);
    }
    for name in ["SLURM_STEP_NODELIST", "SLURM_NODELIST"] {
        set.put(name, task.nodelist);
    }
    for name in ["SLURM_STEP_NUM_NODES", "SLURM_NNODES"] {
        set.put(name, task.per_node.len());
    }
    for name in ["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"] {
        set.put(name, tasks);
    }
    for name in ["SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"] {
        set.put(name, repeat_form(task.per_node));
    }
    set.put("SLURM_PROCID", task.procid);
    set.put("SLURM_LOCALID", task.localid);
    set.put("SLURM_NODEID", task.nodeid);
    set.put("SLURM_GTIDS", task.neighbours);
    set.put("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1");
    set.put("SLURM_SRUN_COMM_HOST", "127.0.0.1");
    set.put("SRUN_DEBUG", 3);
    if let Some(cpus) = task.cpus_per_task {
        set.put("SLURM_CPUS_PER_TASK", cpus);
    }
    if task.distribution != Distribution::default() {
        set.put("SLURM_DISTRIBUTION", task.distribution.variable());
        set.maybe("SLURM_DIST_PLANESIZE", task.distribution.plane());
    }
    if let Some(bind) = task.cpu_bind {
        set.put(
            "SLURM_CPU_BIND",
            format!("{},{}{}", bind.loudness(), bind.type_word(), bind.list()),
        );
        set.put("SLURM_CPU_BIND_VERBOSE", bind.loudness());
        set.put("SLURM_CPU_BIND_TYPE", bind.type_word());
        set.put("SLURM_CPU_BIND_LIST", bind.list());
    }
    set.variables
}

/// What a program started by torchrun would see, so that it also runs under `srun` alone.
fn torchrun_variables(task: &TaskFacts<'_>) -> BTreeMap<String, String> {
    let mut set = Setter::default();
    let tasks: u32 = task.per_node.iter().sum();
    set.put("RANK", task.procid);
    set.put("LOCAL_RANK", task.localid);
    set.put("WORLD_SIZE", tasks);
    set.put("LOCAL_WORLD_SIZE", task.per_node.get(task.nodeid as usize).copied().unwrap_or(1));
    set.put("NODE_RANK", task.nodeid);
    set.put("GROUP_RANK", task.nodeid);
    set.variables
}
