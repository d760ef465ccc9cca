//! From the engine's order to what the supervisor needs, and no choice left open.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use muster_api::step::{SOCKET_NAME, SOCKET_VARIABLE, fold_hosts};
use muster_engine::Launch;
use muster_model::links;
use muster_model::placement::DeviceGrant;
use muster_model::sharing::{DeviceMode, Isolation};
use muster_model::{
    GpuScope, Job, JobKind, JobSpec, MemoryRequest, Node, NodeShare as Share, OpenMode as Asked,
    SignalTarget,
};
use nix::unistd::{Gid, Uid, User};

use crate::environment::repeat_form;
use crate::filename::{NameFacts, expand};
use crate::spec::{
    ArrayFacts, CpuPlace, GpuPart, GpuShare, GpuVendor, JobFacts, JobKey, LaunchSpec, Limits,
    NodeShare, OpenMode, Program, ResourceLimit, StdioSpec, TaskLayout, TerminalSize, UserSpec,
    Warning,
};

/// What is the same for every launch of one daemon.
pub(crate) struct Surroundings<'a> {
    pub(crate) cluster: &'a str,
    pub(crate) jobs: &'a Path,
    /// Slurm's names as links to muster, where they are made.
    pub(crate) slurm_links: Option<&'a Path>,
    pub(crate) users: &'a Users,
    /// Memory of this machine: a limit above it would limit nothing.
    pub(crate) machine_mib: u64,
    /// The core of each of this machine's CPUs ([`crate::nodes::cores`]).
    pub(crate) cores: &'a BTreeMap<u32, u32>,
    /// Where the daemon listens, for muster's commands inside jobs.
    pub(crate) client_socket: Option<&'a Path>,
    /// The command that runs a task on another of a job's nodes; empty where all are this machine.
    pub(crate) reach: &'a [String],
    /// Where jobs on practice nodes say what they use of their invented GPUs.
    pub(crate) practice_use: &'a Path,
}

/// Makes the launch spec of an order; an error is a sentence for the user.
pub(crate) fn launch_spec(
    launch: &Launch,
    around: &Surroundings<'_>,
) -> Result<LaunchSpec, String> {
    let job = &launch.job;
    let placement = job.placement.as_ref().ok_or("the launch order has no placement")?;
    if placement.nodes.len() != launch.nodes.len() || launch.nodes.is_empty() {
        return Err("the launch order does not name the nodes of its placement".to_owned());
    }
    let owner = &job.spec.owner;
    let user = around.users.look_up(owner.uid, owner.gid, &owner.user);
    let pairs = || placement.nodes.iter().zip(&launch.nodes);
    let nodes: Vec<NodeShare> =
        pairs().map(|(share, node)| node_share(share, node, around.cores)).collect();
    let memory_mib = placement.memory().0;
    let limited = memory_mib > 0 && (around.machine_mib == 0 || memory_mib < around.machine_mib);
    let limits = Limits {
        time_s: job.time_limit.seconds().map(|s| s.0),
        grace_s: u32::try_from(launch.kill_wait.0).unwrap_or(u32::MAX),
        warnings: warnings(job),
        memory_mib: limited.then_some(memory_mib),
        processes_max: None,
        resources: resources(&launch.payload.limits),
        denied_gpu_minors: pairs().flat_map(|(share, node)| denied_minors(share, node)).collect(),
    };
    let terminal = matches!(job.spec.kind, JobKind::Terminal).then(TerminalSize::default);
    Ok(LaunchSpec {
        job: job.id.0,
        attempt: job.attempt,
        user,
        cwd: job.spec.cwd.clone(),
        umask: launch.payload.umask,
        program: program(launch),
        login_environment: launch.payload.login_environment,
        environment: launch.payload.environment.clone(),
        stdio: stdio(job, &launch.nodes[0].name),
        terminal,
        nodes,
        tasks: TaskLayout {
            per_node: placement.nodes.iter().map(|n| n.tasks).collect(),
            tasks: job.spec.request.tasks,
            tasks_per_node: job.spec.request.tasks_per_node,
            cpus_per_task: job.spec.request.cpus_per_task,
            tasks_per_gpu: job.spec.request.tasks_per_gpu,
            tasks_per_socket: job.spec.request.tasks_per_socket,
            tasks_per_core: job.spec.request.tasks_per_core,
        },
        limits,
        facts: facts(launch, around.cluster),
        practice: launch.nodes[0].practice,
        path_first: around.slurm_links.map(|path| path.to_string_lossy().into_owned()),
        variables: variables(launch, around),
        reach: around.reach.to_vec(),
    })
}

fn program(launch: &Launch) -> Program {
    let payload = &launch.payload;
    if launch.job.het.is_some_and(|part| part.offset > 0) {
        return Program::Stay;
    }
    match launch.job.spec.kind {
        JobKind::Allocation => Program::Hold,
        JobKind::Batch | JobKind::Terminal if payload.script.is_empty() => {
            Program::Command { argv: payload.args.clone() }
        }
        JobKind::Batch | JobKind::Terminal => {
            Program::Script { text: payload.script.clone(), arguments: payload.args.clone() }
        }
    }
}

fn node_share(share: &Share, node: &Node, cores: &BTreeMap<u32, u32>) -> NodeShare {
    let gpu = |grant: &DeviceGrant| {
        let device = node.devices.get(grant.index as usize);
        let files = device.map(|d| d.files.as_slice()).unwrap_or_default();
        let minor = files.iter().find_map(|f| nvidia_minor(f));
        let vendor = match (minor, files.is_empty()) {
            (Some(_), _) => GpuVendor::Nvidia,
            (None, false) => GpuVendor::Amd,
            (None, true) => GpuVendor::Invented,
        };
        let mps = device.is_some_and(
            |d| matches!(d.mode, DeviceMode::Shared(s) if s.isolation == Isolation::Mps),
        );
        let part = (grant.mig.is_none() && !grant.is_whole()).then_some(GpuPart {
            milli: grant.share.0,
            memory_mib: grant.memory.0,
            mps,
        });
        GpuShare {
            index: grant.index,
            vendor,
            minor,
            instance: instance(node, grant),
            numa: device.and_then(|d| d.numa),
            nic: device.and_then(|d| d.nic.clone()),
            part,
        }
    };
    NodeShare {
        name: node.name.clone(),
        cpus: share.cpus.len(),
        cpu_ids: match node.practice || node.counts_only {
            true => Vec::new(),
            false => share.cpus.iter().collect(),
        },
        places: share.cpus.iter().map(|cpu| cpu_place(node, cpu, cores)).collect(),
        memory_mib: share.memory.0,
        gpus: in_rank_order(node, &share.devices).iter().map(gpu).collect(),
    }
}

/// Where a CPU of a node stands; `cores` are those of this machine, which practice nodes are not.
fn cpu_place(node: &Node, id: u32, cores: &BTreeMap<u32, u32>) -> CpuPlace {
    let domain = node.numa.iter().find(|domain| domain.cpus.contains(id));
    let (socket, numa) = domain.map_or((0, 0), |domain| (domain.socket, domain.id));
    let core = if node.practice { id } else { cores.get(&id).copied().unwrap_or(id) };
    CpuPlace { id, core, socket, numa }
}

/// The driver's id of an instance; one made up where the instance is.
fn instance(node: &Node, grant: &DeviceGrant) -> Option<String> {
    let slot = grant.mig?;
    let device = node.devices.get(grant.index as usize)?;
    let made_up = || format!("MIG-{}-{}-{}", device.uuid, slot.start, slot.size);
    Some(device.instance_uuid(slot).map_or_else(made_up, str::to_owned))
}

/// The devices in the order in which tasks get them: by index, unless a ring in another order has
/// a faster slowest link; then in the order of the best ring, so that neighbouring ranks are near.
fn in_rank_order(node: &Node, devices: &[DeviceGrant]) -> Vec<DeviceGrant> {
    let mut grants = devices.to_vec();
    let indices: Vec<u32> = devices.iter().map(|d| d.index).collect();
    let whole = devices.iter().all(DeviceGrant::is_whole);
    if !whole || indices.len() < 3 {
        return grants;
    }
    let next = indices.iter().cycle().skip(1);
    let as_numbered = indices.iter().zip(next).map(|(a, b)| links::speed(node, *a, *b)).min();
    let (order, slowest) = links::ring(node, &indices);
    if Some(slowest) > as_numbered {
        let place = |grant: &DeviceGrant| order.iter().position(|i| *i == grant.index);
        grants.sort_by_key(place);
    }
    grants
}

fn nvidia_minor(file: &str) -> Option<u32> {
    file.strip_prefix("/dev/nvidia")?.parse().ok()
}

/// Device numbers of the node's real GPUs that the job was not given.
fn denied_minors(share: &Share, node: &Node) -> Vec<u32> {
    node.devices
        .iter()
        .filter(|device| !share.devices.iter().any(|g| g.index == device.index))
        .flat_map(|device| device.files.iter().filter_map(|f| nvidia_minor(f)))
        .collect()
}

/// `--signal`, and a checkpoint's signal at its own time before the limit.
fn warnings(job: &Job) -> Vec<Warning> {
    let asked = job.spec.signal.iter().map(|s| Warning {
        signal: s.signal,
        before_s: s.before.0,
        batch: s.target == SignalTarget::Batch,
    });
    let checkpoint = job.spec.checkpoint.iter().filter_map(|c| {
        Some(Warning { signal: c.signal?, before_s: c.grace.0.max(1), batch: true })
    });
    asked.chain(checkpoint).collect()
}

/// Limits by name, as the shell's `ulimit` of the submitter had them; unknown names are left out.
fn resources(limits: &[(String, u64, u64)]) -> Vec<ResourceLimit> {
    let number = |name: &str| match name {
        "CPU" => Some(libc::RLIMIT_CPU),
        "FSIZE" => Some(libc::RLIMIT_FSIZE),
        "DATA" => Some(libc::RLIMIT_DATA),
        "STACK" => Some(libc::RLIMIT_STACK),
        "CORE" => Some(libc::RLIMIT_CORE),
        "RSS" => Some(libc::RLIMIT_RSS),
        "NPROC" => Some(libc::RLIMIT_NPROC),
        "NOFILE" => Some(libc::RLIMIT_NOFILE),
        "MEMLOCK" => Some(libc::RLIMIT_MEMLOCK),
        "AS" => Some(libc::RLIMIT_AS),
        _ => None,
    };
    let bound = |value: u64| (value != u64::MAX).then_some(value);
    limits
        .iter()
        .filter_map(|(name, soft, hard)| {
            Some(ResourceLimit { resource: number(name)?, soft: bound(*soft), hard: bound(*hard) })
        })
        .collect()
}

fn stdio(job: &Job, node: &str) -> StdioSpec {
    let facts = NameFacts {
        job: job.id.0,
        array: job.array.map(|a| (a.array.0, a.index)),
        name: &job.spec.name,
        user: &job.spec.owner.user,
        node,
    };
    let asked = &job.spec.stdio;
    let usual = match (job.spec.kind, job.array) {
        (JobKind::Batch | JobKind::Terminal, Some(_)) => Some("slurm-%A_%a.out"),
        (JobKind::Batch | JobKind::Terminal, None) => Some("slurm-%j.out"),
        (JobKind::Allocation, _) => None,
    };
    let open_mode = match asked.open_mode {
        Asked::Append => OpenMode::Append,
        Asked::Truncate => OpenMode::Truncate,
        Asked::Default if job.attempt > 1 => OpenMode::Append,
        Asked::Default => OpenMode::Truncate,
    };
    StdioSpec {
        input: asked.input.as_deref().map(|p| expand(p, &facts)),
        output: asked.output.as_deref().or(usual).map(|p| expand(p, &facts)),
        output_required: asked.output.is_some(),
        error: asked.error.as_deref().map(|p| expand(p, &facts)),
        open_mode,
    }
}

/// Jobs of old logs do not say where they were submitted.
fn submit_directory(spec: &JobSpec) -> &str {
    if spec.submit_dir.is_empty() { &spec.cwd } else { &spec.submit_dir }
}

fn facts(launch: &Launch, cluster: &str) -> JobFacts {
    let job = &launch.job;
    let request = &job.spec.request;
    let (per_node, per_cpu, per_gpu) = match request.memory {
        MemoryRequest::PerNode(mib) => (Some(mib.0), None, None),
        MemoryRequest::PerCpu(mib) => (None, Some(mib.0), None),
        MemoryRequest::PerGpu(mib) => (None, None, Some(mib.0)),
        MemoryRequest::Default | MemoryRequest::WholeNode => (None, None, None),
    };
    let gpus = |scope: GpuScope| {
        let texts: Vec<String> = request
            .gpus
            .iter()
            .filter(|g| g.scope == scope)
            .map(|g| match &g.model {
                Some(model) => format!("{model}:{}", g.count),
                None => g.count.to_string(),
            })
            .collect();
        (!texts.is_empty()).then(|| texts.join(","))
    };
    let licences: Vec<String> =
        request.licences.iter().map(|l| format!("{}:{}", l.name, l.count)).collect();
    JobFacts {
        name: job.spec.name.clone(),
        cluster: cluster.to_owned(),
        partition: job.placement.as_ref().map(|p| p.partition.clone()).unwrap_or_default(),
        account: job.spec.account.clone(),
        qos: job.spec.qos.clone(),
        reservation: request.reservation.clone(),
        constraints: request.constraint.as_ref().map(ToString::to_string),
        licenses: (!licences.is_empty()).then(|| licences.join(",")),
        submit_directory: submit_directory(&job.spec).to_owned(),
        submit_host: job.spec.submit_host.clone(),
        restarts: job.attempt.saturating_sub(1),
        memory_per_cpu_mib: per_cpu,
        memory_per_gpu_mib: per_gpu,
        memory_per_node_mib: per_node,
        gpus: gpus(GpuScope::Job),
        gpus_per_node: gpus(GpuScope::Node),
        gpus_per_task: gpus(GpuScope::Task),
        distribution: request.distribution.map(|d| d.variable()),
        plane_size: request.distribution.and_then(|d| d.plane()),
        gpu_bind: job.spec.gpu_bind.as_ref().map(ToString::to_string),
        export: None,
        array: job.array.map(|task| ArrayFacts {
            job: task.array.0,
            task: task.index,
            count: launch.array.map_or(1, |a| a.size),
            min: launch.array.map_or(task.index, |a| a.min),
            max: launch.array.map_or(task.index, |a| a.max),
            step: launch.array.map_or(1, |a| a.step),
        }),
    }
}

/// Variables of heterogeneous jobs, of checkpoints and of practice.
fn variables(launch: &Launch, around: &Surroundings<'_>) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut put = |name: String, value: String| all.push((name, value));
    if let Some(socket) = around.client_socket {
        put("MUSTER_SOCKET".to_owned(), socket.to_string_lossy().into_owned());
    }
    if launch.nodes[0].practice {
        let path = around.practice_use.to_string_lossy().into_owned();
        put("MUSTER_PRACTICE_GPU_USE".to_owned(), path);
    }
    if let Some(checkpoint) = &launch.job.spec.checkpoint {
        let name = match checkpoint.variable.as_str() {
            "" => "MUSTER_CHECKPOINT_DIR",
            own => own,
        };
        put(name.to_owned(), checkpoint.dir.clone());
        if let Some(signal) = checkpoint.signal {
            put("MUSTER_CHECKPOINT_SIGNAL".to_owned(), signal.to_string());
        }
    }
    if !launch.components.is_empty() {
        put("SLURM_HET_SIZE".to_owned(), launch.components.len().to_string());
    }
    for (at, (job, nodes)) in launch.components.iter().enumerate() {
        let Some(placement) = &job.placement else { continue };
        let names: Vec<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
        let tasks: Vec<u32> = placement.nodes.iter().map(|n| n.tasks).collect();
        let cpus: Vec<u32> = placement.nodes.iter().map(|n| n.cpus.len()).collect();
        let key = JobKey { job: job.id.0, attempt: job.attempt };
        let socket = around.jobs.join(key.to_string()).join(SOCKET_NAME);
        for (name, value) in [
            ("SLURM_JOB_ID", job.id.to_string()),
            ("SLURM_JOB_NODELIST", fold_hosts(&names)),
            ("SLURM_JOB_NUM_NODES", names.len().to_string()),
            ("SLURM_NTASKS", placement.tasks().to_string()),
            ("SLURM_TASKS_PER_NODE", repeat_form(&tasks)),
            ("SLURM_JOB_CPUS_PER_NODE", repeat_form(&cpus)),
            ("SLURM_JOB_PARTITION", placement.partition.clone()),
            (SOCKET_VARIABLE, socket.to_string_lossy().into_owned()),
        ] {
            put(format!("{name}_HET_GROUP_{at}"), value);
        }
    }
    all
}

/// Users' groups, homes and shells, looked up at most once a minute each.
#[derive(Default)]
pub(crate) struct Users {
    known: Mutex<BTreeMap<u32, (Instant, UserSpec)>>,
}

/// How long a look-up is good for.
const USER_AGE_MAX: Duration = Duration::from_mins(1);
/// How many users are remembered.
const USERS_MAX: usize = 10_000;

impl Users {
    fn look_up(&self, uid: u32, gid: u32, name: &str) -> UserSpec {
        let mut known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((when, user)) = known.get(&uid)
            && when.elapsed() < USER_AGE_MAX
            && user.gid == gid
        {
            return user.clone();
        }
        if known.len() >= USERS_MAX {
            known.clear();
        }
        let user = ask_system(uid, gid, name);
        known.insert(uid, (Instant::now(), user.clone()));
        user
    }
}

fn ask_system(uid: u32, gid: u32, name: &str) -> UserSpec {
    let entry = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    let name = entry.as_ref().map_or(name, |e| e.name.as_str());
    let groups = CString::new(name)
        .ok()
        .filter(|_| entry.is_some())
        .and_then(|name| nix::unistd::getgrouplist(&name, Gid::from_raw(gid)).ok())
        .unwrap_or_default();
    UserSpec {
        uid,
        gid,
        groups: groups.iter().map(|g| g.as_raw()).collect(),
        name: name.to_owned(),
        home: entry.as_ref().map(|e| e.dir.to_string_lossy().into_owned()).unwrap_or_default(),
        shell: entry.as_ref().map(|e| e.shell.to_string_lossy().into_owned()).unwrap_or_default(),
    }
}
