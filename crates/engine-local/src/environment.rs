//! The variables a job's script and its step's tasks see, as sbatch and srun set them.
//!
//! Names and meanings are those of the sbatch and srun manuals (output environment variables);
//! torchrun's are those of its manual. All nodes of this engine are this machine, so addresses are
//! the loopback's.

use std::collections::BTreeMap;

use muster_api::step::{SOCKET_VARIABLE, fold_hosts};

use crate::spec::{ArrayFacts, GpuPart, GpuShare, GpuVendor, LaunchSpec, NodeShare, Program};

mod step;

pub(crate) use step::{TaskFacts, task_environment};

/// Variables by name.
pub(crate) type Variables = BTreeMap<String, String>;

/// First of the ports given to `MASTER_PORT`: below what the kernel hands out by itself.
const MASTER_PORT_FIRST: u64 = 12_000;
/// How many ports `MASTER_PORT` is chosen from.
const MASTER_PORT_COUNT: u64 = 16_000;

/// What is known of a job only once it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunFacts<'a> {
    /// When it started, UTC milliseconds.
    pub(crate) start_ms: u64,
    /// Its step socket's path.
    pub(crate) socket: &'a str,
    /// Whether a job can open its own GPUs only, which are then numbered from 0.
    pub(crate) gpus_fenced: bool,
}

/// The batch script's whole environment but for `SLURM_TASK_PID`, which only its process knows.
pub(crate) fn batch_environment(spec: &LaunchSpec, run: RunFacts<'_>) -> Variables {
    let mut variables: Variables = spec.environment.iter().cloned().collect();
    for (name, value) in [("HOME", &spec.user.home), ("SHELL", &spec.user.shell)] {
        if !value.is_empty() {
            variables.entry(name.to_owned()).or_insert_with(|| value.clone());
        }
    }
    variables.entry("USER".to_owned()).or_insert_with(|| spec.user.name.clone());
    variables.entry("PATH".to_owned()).or_insert_with(|| {
        "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin".to_owned()
    });
    path_first(&mut variables, spec);
    variables.extend(allocation_variables(spec, run));
    mpi_variables(&mut variables, spec);
    if let Some(first) = spec.nodes.first() {
        variables.extend(node_variables(first, run.gpus_fenced));
    }
    let is_batch = matches!(spec.program, Program::Script { .. } | Program::Command { .. });
    if is_batch {
        for (name, value) in [
            ("ENVIRONMENT", "BATCH"),
            ("SLURM_PROCID", "0"),
            ("SLURM_LOCALID", "0"),
            ("SLURM_NODEID", "0"),
            ("SLURM_GTIDS", "0"),
            ("SLURM_PRIO_PROCESS", "0"),
        ] {
            variables.insert(name.to_owned(), value.to_owned());
        }
    }
    variables.entry("MASTER_ADDR".to_owned()).or_insert_with(|| spec.meeting_place(0));
    variables.entry("MASTER_PORT".to_owned()).or_insert_with(|| master_port(spec, 0).to_string());
    variables.extend(spec.variables.iter().cloned());
    variables
}

/// Puts Slurm's names as links to muster first in `PATH`: inside a job `srun` is muster's, also
/// where a real Slurm stands beside it.
fn path_first(variables: &mut Variables, spec: &LaunchSpec) {
    let Some(first) = &spec.path_first else { return };
    let path = variables.entry("PATH".to_owned()).or_default();
    if path.split(':').next() != Some(first) {
        *path = if path.is_empty() { first.clone() } else { format!("{first}:{path}") };
    }
}

/// Lets Open MPI's ranks on several practice nodes meet: it names shared memory by host, and here
/// all nodes are one host; so they talk over the loopback. What the user set stays.
fn mpi_variables(variables: &mut Variables, spec: &LaunchSpec) {
    if spec.practice && spec.nodes.len() > 1 {
        for (name, value) in
            [("OMPI_MCA_btl", "self,tcp"), ("OMPI_MCA_btl_tcp_if_include", "127.0.0.0/8")]
        {
            variables.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
    }
}

/// The port at which a step's tasks meet; a job's steps differ, and neighbouring jobs do.
pub(crate) fn master_port(spec: &LaunchSpec, step: u32) -> u64 {
    let mixed = u64::from(spec.job) * 7 + u64::from(step);
    MASTER_PORT_FIRST + mixed % MASTER_PORT_COUNT
}

/// What is the same on all nodes and in all steps of a job.
fn allocation_variables(spec: &LaunchSpec, run: RunFacts<'_>) -> Variables {
    let mut set = Setter::default();
    let names: Vec<&str> = spec.nodes.iter().map(|n| n.name.as_str()).collect();
    let nodelist = fold_hosts(&names);
    for name in ["SLURM_JOB_ID", "SLURM_JOBID"] {
        set.put(name, spec.job);
    }
    for name in ["SLURM_JOB_NODELIST", "SLURM_NODELIST"] {
        set.put(name, &nodelist);
    }
    for name in ["SLURM_JOB_NUM_NODES", "SLURM_NNODES"] {
        set.put(name, spec.nodes.len());
    }
    set.put("SLURM_TASKS_PER_NODE", repeat_form(&spec.tasks.per_node));
    let cpus: Vec<u32> = spec.nodes.iter().map(|n| n.cpus).collect();
    set.put("SLURM_JOB_CPUS_PER_NODE", repeat_form(&cpus));
    task_request(&mut set, spec);
    facts(&mut set, spec);
    set.put("SLURM_JOB_UID", spec.user.uid);
    set.put("SLURM_JOB_GID", spec.user.gid);
    set.put("SLURM_JOB_USER", &spec.user.name);
    set.put("SLURM_JOB_START_TIME", run.start_ms / 1_000);
    if let Some(limit_s) = spec.limits.time_s {
        set.put("SLURM_JOB_END_TIME", run.start_ms / 1_000 + limit_s);
    }
    set.put(SOCKET_VARIABLE, run.socket);
    if let Some(array) = &spec.facts.array {
        array_variables(&mut set, array);
    }
    set.variables
}

fn task_request(set: &mut Setter, spec: &LaunchSpec) {
    let tasks = &spec.tasks;
    if tasks.tasks.is_some() || tasks.tasks_per_node.is_some() || tasks.tasks_per_gpu.is_some() {
        let total: u32 = tasks.per_node.iter().sum();
        set.put("SLURM_NTASKS", total);
        set.put("SLURM_NPROCS", total);
    }
    set.maybe("SLURM_NTASKS_PER_NODE", tasks.tasks_per_node);
    set.maybe("SLURM_NTASKS_PER_GPU", tasks.tasks_per_gpu);
    set.maybe("SLURM_NTASKS_PER_SOCKET", tasks.tasks_per_socket);
    set.maybe("SLURM_NTASKS_PER_CORE", tasks.tasks_per_core);
    set.maybe("SLURM_CPUS_PER_TASK", tasks.cpus_per_task);
    set.maybe("SLURM_MEM_PER_CPU", spec.facts.memory_per_cpu_mib);
    set.maybe("SLURM_MEM_PER_GPU", spec.facts.memory_per_gpu_mib);
    set.maybe("SLURM_MEM_PER_NODE", spec.facts.memory_per_node_mib);
    set.maybe("SLURM_GPUS", spec.facts.gpus.as_ref());
    set.maybe("SLURM_GPUS_PER_NODE", spec.facts.gpus_per_node.as_ref());
    set.maybe("SLURM_GPUS_PER_TASK", spec.facts.gpus_per_task.as_ref());
    set.maybe("SLURM_DISTRIBUTION", spec.facts.distribution.as_ref());
    set.maybe("SLURM_DIST_PLANESIZE", spec.facts.plane_size);
    set.maybe("SLURM_GPU_BIND", spec.facts.gpu_bind.as_ref());
}

fn facts(set: &mut Setter, spec: &LaunchSpec) {
    let facts = &spec.facts;
    set.put("SLURM_JOB_NAME", &facts.name);
    set.put("SLURM_CLUSTER_NAME", &facts.cluster);
    set.put("SLURM_JOB_PARTITION", &facts.partition);
    set.put("SLURM_JOB_ACCOUNT", &facts.account);
    set.put("SLURM_JOB_QOS", &facts.qos);
    set.put("SLURM_SUBMIT_DIR", &facts.submit_directory);
    set.put("SLURM_SUBMIT_HOST", &facts.submit_host);
    set.maybe("SLURM_JOB_RESERVATION", facts.reservation.as_ref());
    set.maybe("SLURM_JOB_CONSTRAINTS", facts.constraints.as_ref());
    set.maybe("SLURM_JOB_LICENSES", facts.licenses.as_ref());
    set.maybe("SLURM_EXPORT_ENV", facts.export.as_ref());
    if facts.restarts > 0 {
        set.put("SLURM_RESTART_COUNT", facts.restarts);
    }
}

fn array_variables(set: &mut Setter, array: &ArrayFacts) {
    set.put("SLURM_ARRAY_JOB_ID", array.job);
    set.put("SLURM_ARRAY_TASK_ID", array.task);
    set.put("SLURM_ARRAY_TASK_COUNT", array.count);
    set.put("SLURM_ARRAY_TASK_MIN", array.min);
    set.put("SLURM_ARRAY_TASK_MAX", array.max);
    set.put("SLURM_ARRAY_TASK_STEP", array.step);
}

/// What differs from node to node.
fn node_variables(node: &NodeShare, gpus_fenced: bool) -> Variables {
    let mut set = Setter::default();
    set.put("SLURMD_NODENAME", &node.name);
    set.put("SLURM_TOPOLOGY_ADDR", &node.name);
    set.put("SLURM_TOPOLOGY_ADDR_PATTERN", "node");
    set.put("SLURM_CPUS_ON_NODE", node.cpus);
    if !node.gpus.is_empty() {
        let mut indices: Vec<u32> = node.gpus.iter().map(|g| g.index).collect();
        indices.sort_unstable();
        set.put("SLURM_GPUS_ON_NODE", indices.len());
        set.put("SLURM_JOB_GPUS", join(&indices));
    }
    let seen: Vec<usize> = (0..node.gpus.len()).collect();
    set.variables.extend(visible_gpus(node, &seen, gpus_fenced));
    set.variables
}

/// The variables that show a process its GPUs; `seen` are positions in the node's share.
///
/// Without GPUs they are set too, to nothing: a program must not take what is not the job's.
fn visible_gpus(node: &NodeShare, seen: &[usize], gpus_fenced: bool) -> Variables {
    let mut own: Vec<u32> = node.gpus.iter().map(|g| g.index).collect();
    own.sort_unstable();
    own.dedup();
    let number = |index: u32| {
        // Behind a fence the job's own devices are counted from 0, in the order of their numbers.
        let fenced = own.iter().position(|i| *i == index).unwrap_or_default() as u32;
        if gpus_fenced { fenced } else { index }
    };
    let seen: Vec<&GpuShare> = seen.iter().filter_map(|at| node.gpus.get(*at)).collect();
    let names: Vec<String> = seen
        .iter()
        .map(|g| g.instance.clone().unwrap_or_else(|| number(g.index).to_string()))
        .collect();
    let value = names.join(",");
    let amd = node.gpus.first().is_some_and(|g| g.vendor == GpuVendor::Amd);
    let names: &[&str] = if amd {
        &["ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"]
    } else {
        &["CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"]
    };
    let mut variables: Variables =
        names.iter().map(|name| ((*name).to_owned(), value.clone())).collect();
    variables.extend(part_variables(&seen));
    // One card for each GPU in their order, or nothing: a shorter list would say who has which.
    let nics: Option<Vec<&str>> = seen.iter().map(|g| g.nic.as_deref()).collect();
    if let Some(nics) = nics.filter(|nics| !nics.is_empty()) {
        variables.insert("MUSTER_GPU_NICS".to_owned(), nics.join(","));
    }
    variables
}

/// What tells a process how much of its shared GPUs is its own. Under MPS the driver holds it to
/// that (CUDA_MPS_*: NVIDIA's MPS manual); elsewhere it is for the program to keep.
fn part_variables(seen: &[&GpuShare]) -> Variables {
    let mut set = Setter::default();
    let parts: Vec<GpuPart> = seen.iter().filter_map(|g| g.part).collect();
    let Some(least) = parts.iter().map(|p| p.milli).min() else { return set.variables };
    set.put("MUSTER_GPU_SHARE", format!("{}.{:03}", least / 1000, least % 1000));
    let memory: Vec<String> = parts.iter().map(|p| p.memory_mib.to_string()).collect();
    set.put("MUSTER_GPU_MEMORY_MIB", memory.join(","));
    if parts.iter().all(|p| p.mps) {
        set.put("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", (least / 10).max(1));
        // Devices are counted as the process sees them.
        let limits = parts.iter().enumerate().map(|(at, p)| format!("{at}={}M", p.memory_mib));
        set.put("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", limits.collect::<Vec<_>>().join(","));
    }
    set.variables
}

/// `2,2,2,1` as `2(x3),1`: only neighbours are joined.
pub(crate) fn repeat_form(counts: &[u32]) -> String {
    let mut groups: Vec<(u32, usize)> = Vec::new();
    for count in counts {
        match groups.last_mut() {
            Some((last, times)) if last == count => *times += 1,
            _ => groups.push((*count, 1)),
        }
    }
    let texts: Vec<String> = groups
        .iter()
        .map(
            |(count, times)| {
                if *times == 1 { count.to_string() } else { format!("{count}(x{times})") }
            },
        )
        .collect();
    texts.join(",")
}

fn join(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[derive(Default)]
struct Setter {
    variables: Variables,
}

impl Setter {
    fn put(&mut self, name: &str, value: impl std::fmt::Display) {
        self.variables.insert(name.to_owned(), value.to_string());
    }

    fn maybe(&mut self, name: &str, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RunFacts, batch_environment, repeat_form};
    use crate::spec::{GpuPart, GpuShare, LaunchSpec, NodeShare, Program, TaskLayout};

    #[test]
    fn counts_repeat_only_between_neighbours() {
        assert_eq!(repeat_form(&[2, 2, 2, 1]), "2(x3),1");
        assert_eq!(repeat_form(&[1, 2, 1]), "1,2,1");
        assert_eq!(repeat_form(&[72, 72, 36]), "72(x2),36");
    }

    fn job() -> LaunchSpec {
        let node = |name: &str| NodeShare {
            name: name.to_owned(),
            cpus: 4,
            gpus: vec![
                GpuShare { index: 2, ..GpuShare::default() },
                GpuShare { index: 5, ..GpuShare::default() },
            ],
            ..NodeShare::default()
        };
        LaunchSpec {
            job: 12,
            attempt: 1,
            program: Program::Script { text: "#!/bin/sh\n".to_owned(), arguments: Vec::new() },
            environment: vec![
                ("LR".to_owned(), "0.1".to_owned()),
                ("SLURM_JOB_ID".to_owned(), "3".to_owned()),
            ],
            nodes: vec![node("n1"), node("n2")],
            tasks: TaskLayout { per_node: vec![3, 2], tasks: Some(5), ..TaskLayout::default() },
            ..LaunchSpec::default()
        }
    }

    #[test]
    fn a_batch_script_sees_what_sbatch_would_set() {
        let run = RunFacts { start_ms: 5_000, socket: "/s", gpus_fenced: false };
        let seen = batch_environment(&job(), run);
        for (name, value) in [
            ("LR", "0.1"),
            ("SLURM_JOB_ID", "12"),
            ("SLURM_JOB_NODELIST", "n[1-2]"),
            ("SLURM_NNODES", "2"),
            ("SLURM_NTASKS", "5"),
            ("SLURM_TASKS_PER_NODE", "3,2"),
            ("SLURM_JOB_CPUS_PER_NODE", "4(x2)"),
            ("SLURM_CPUS_ON_NODE", "4"),
            ("SLURM_JOB_GPUS", "2,5"),
            ("CUDA_VISIBLE_DEVICES", "2,5"),
            ("SLURM_PROCID", "0"),
            ("SLURM_JOB_START_TIME", "5"),
            ("MASTER_ADDR", "127.0.0.1"),
        ] {
            assert_eq!(seen.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(!seen.contains_key("SLURM_CPUS_PER_TASK"));
    }

    #[test]
    fn links_come_first_in_the_path_once() {
        let mut spec = job();
        spec.path_first = Some("/links".to_owned());
        spec.environment = vec![("PATH".to_owned(), "/bin".to_owned())];
        let run = RunFacts { start_ms: 0, socket: "/s", gpus_fenced: false };
        assert_eq!(batch_environment(&spec, run)["PATH"], "/links:/bin");
        spec.environment = vec![("PATH".to_owned(), "/links:/bin".to_owned())];
        assert_eq!(batch_environment(&spec, run)["PATH"], "/links:/bin");
    }

    #[test]
    fn fenced_gpus_are_numbered_from_zero() {
        let run = RunFacts { start_ms: 0, socket: "/s", gpus_fenced: true };
        let seen = batch_environment(&job(), run);
        assert_eq!(seen["CUDA_VISIBLE_DEVICES"], "0,1");
        assert_eq!(seen["SLURM_JOB_GPUS"], "2,5");
    }

    #[test]
    fn a_job_without_gpus_sees_none() {
        let mut spec = job();
        spec.nodes[0].gpus.clear();
        let run = RunFacts { start_ms: 0, socket: "/s", gpus_fenced: false };
        assert_eq!(batch_environment(&spec, run)["CUDA_VISIBLE_DEVICES"], "");
    }

    fn seen_with(gpus: Vec<GpuShare>, gpus_fenced: bool) -> super::Variables {
        let mut spec = job();
        spec.nodes[0].gpus = gpus;
        batch_environment(&spec, RunFacts { start_ms: 0, socket: "/s", gpus_fenced })
    }

    #[test]
    fn a_part_under_mps_is_bounded_by_the_driver() {
        let part = |mps| Some(GpuPart { milli: 250, memory_mib: 20_480, mps });
        let gpu = |mps| GpuShare { index: 3, part: part(mps), ..GpuShare::default() };
        let seen = seen_with(vec![gpu(true)], false);
        for (name, value) in [
            ("CUDA_VISIBLE_DEVICES", "3"),
            ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25"),
            ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=20480M"),
            ("MUSTER_GPU_SHARE", "0.250"),
        ] {
            assert_eq!(seen.get(name).map(String::as_str), Some(value), "{name}");
        }
        let seen = seen_with(vec![gpu(false)], false);
        assert!(!seen.contains_key("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"));
        assert_eq!(seen["MUSTER_GPU_MEMORY_MIB"], "20480");
    }

    #[test]
    fn t17_cards_are_named_in_the_order_of_the_gpus() {
        let gpu = |index, nic: Option<&str>| GpuShare {
            index,
            nic: nic.map(str::to_owned),
            ..GpuShare::default()
        };
        let seen = seen_with(vec![gpu(2, Some("k4")), gpu(3, Some("k5"))], true);
        assert_eq!(seen["MUSTER_GPU_NICS"], "k4,k5");
        let seen = seen_with(vec![gpu(2, Some("k4")), gpu(3, None)], true);
        assert!(!seen.contains_key("MUSTER_GPU_NICS"));
    }

    #[test]
    fn binding_and_distribution_are_told_to_the_job() {
        let mut spec = job();
        spec.tasks.tasks_per_gpu = Some(2);
        spec.facts.distribution = Some("plane".to_owned());
        spec.facts.plane_size = Some(4);
        spec.facts.gpu_bind = Some("single:2".to_owned());
        let run = RunFacts { start_ms: 0, socket: "/s", gpus_fenced: false };
        let seen = batch_environment(&spec, run);
        for (name, value) in [
            ("SLURM_NTASKS_PER_GPU", "2"),
            ("SLURM_DISTRIBUTION", "plane"),
            ("SLURM_DIST_PLANESIZE", "4"),
            ("SLURM_GPU_BIND", "single:2"),
        ] {
            assert_eq!(seen.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    #[test]
    fn instances_are_shown_by_their_names_and_ranks_keep_their_order() {
        let gpu = |index, instance: Option<&str>| GpuShare {
            index,
            instance: instance.map(str::to_owned),
            ..GpuShare::default()
        };
        let seen = seen_with(vec![gpu(1, Some("MIG-a")), gpu(1, Some("MIG-b"))], true);
        assert_eq!(seen["CUDA_VISIBLE_DEVICES"], "MIG-a,MIG-b");
        // A ring 2, 7, 5 of three devices that are counted 0, 1, 2 behind the fence.
        let ring = || vec![gpu(2, None), gpu(7, None), gpu(5, None)];
        assert_eq!(seen_with(ring(), true)["CUDA_VISIBLE_DEVICES"], "0,2,1");
        assert_eq!(seen_with(ring(), false)["CUDA_VISIBLE_DEVICES"], "2,7,5");
        assert_eq!(seen_with(ring(), false)["SLURM_JOB_GPUS"], "2,5,7");
    }
}
