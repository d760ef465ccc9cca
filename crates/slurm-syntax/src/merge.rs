//! Which options are in force for a component.
//!
//! Rules: command line beats environment beats script (case S-15), option by option and, for the
//! kinds of memory, as a group; environment variables speak to every component; what a component
//! of a heterogeneous job leaves open carries over from the one before, but for amounts of
//! resources, which start anew (Slurm's heterogeneous jobs page, case S-38).

use std::collections::BTreeMap;

use crate::options::Opt;
use crate::words::Given;

/// Which source an option came from; later ones win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Carried over from the component before.
    Carried,
    Script,
    Environment,
    CommandLine,
}

/// An option in force.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) given: Given,
    pub(crate) values: Vec<Option<String>>,
    pub(crate) rank: Rank,
}

/// The options in force for one component.
pub(crate) type Settings = BTreeMap<Opt, Setting>;

/// Puts an option in force, and others that it excludes out of it.
pub(crate) fn set(
    settings: &mut Settings,
    given: Given,
    rank: Rank,
    overridden: &mut Vec<Setting>,
) {
    const MEMORY: [Opt; 3] = [Opt::Mem, Opt::MemPerCpu, Opt::MemPerGpu];
    let opt = canonical(given.spec.opt);
    let lower = |other: &Setting| other.rank < rank;
    for other in MEMORY.iter().filter(|other| MEMORY.contains(&opt) && **other != opt) {
        if settings.get(other).is_some_and(lower) {
            overridden.extend(settings.remove(other));
        }
    }
    let opposite = match opt {
        Opt::Requeue => Some(Opt::NoRequeue),
        Opt::NoRequeue => Some(Opt::Requeue),
        Opt::Exclusive => Some(Opt::Oversubscribe).filter(|o| settings.get(o).is_some_and(lower)),
        Opt::Oversubscribe => Some(Opt::Exclusive).filter(|o| settings.get(o).is_some_and(lower)),
        _ => None,
    };
    overridden.extend(opposite.and_then(|opposite| settings.remove(&opposite)));
    let value = given.value.clone();
    let adds =
        [Opt::Volume, Opt::Verbose, Opt::Affinity, Opt::Spread, Opt::Toleration, Opt::Labels];
    if adds.contains(&opt)
        && let Some(before) = settings.get_mut(&opt).filter(|before| before.rank == rank)
    {
        before.values.push(value);
        return;
    }
    overridden.extend(settings.insert(opt, Setting { given, values: vec![value], rank }));
}

/// One spelling for options that have two.
fn canonical(opt: Opt) -> Opt {
    match opt {
        Opt::TasksPerNode => Opt::NtasksPerNode,
        Opt::PackGroup => Opt::HetGroup,
        other => other,
    }
}

/// What the next component of a heterogeneous job takes over.
pub(crate) fn carried_over(settings: Settings) -> Settings {
    settings
        .into_iter()
        .filter(|(opt, _)| carries(*opt))
        .map(|(opt, setting)| (opt, Setting { rank: Rank::Carried, ..setting }))
        .collect()
}

/// False for the options that start anew with each component (Slurm's heterogeneous jobs page).
fn carries(opt: Opt) -> bool {
    use Opt::{
        Affinity, Array, Bb, ConsolidateSegments, Constraint, Contiguous, CoreSpec, CoresPerSocket,
        CpuFreq, CpusPerGpu, CpusPerTask, Exclusive, ExtraNodeInfo, GpuBind, GpuFreq, GpuIsolation,
        GpuMemory, GpuPieces, GpuShare, Gpus, GpusPerNode, GpusPerSocket, GpusPerTask, Gres,
        GresFlags, Hint, Labels, Licenses, MailType, MailUser, MemBind, MemPerCpu, MemPerGpu, Mig,
        Mincpus, Network, Nodefile, Nodelist, Nodes, Ntasks, NtasksPerCore, NtasksPerGpu,
        NtasksPerNode, NtasksPerSocket, Overcommit, Oversubscribe, Partition, Resources, ResvPorts,
        Segment, SocketsPerNode, Spread, SpreadJob, SpreadSegments, Switches, ThreadSpec,
        ThreadsPerCore, Tmp, Toleration, Topology, TresBind, TresPerTask, UseMinNodes, Verbose,
    };
    !matches!(
        opt,
        Affinity
            | Array
            | Bb
            | ConsolidateSegments
            | Constraint
            | Contiguous
            | CoreSpec
            | CoresPerSocket
            | CpuFreq
            | CpusPerGpu
            | CpusPerTask
            | Exclusive
            | ExtraNodeInfo
            | GpuBind
            | GpuFreq
            | GpuIsolation
            | GpuMemory
            | GpuPieces
            | GpuShare
            | Mig
            | Gpus
            | GpusPerNode
            | GpusPerSocket
            | GpusPerTask
            | Gres
            | GresFlags
            | Hint
            | Licenses
            | MailType
            | MailUser
            | MemBind
            | MemPerCpu
            | MemPerGpu
            | Mincpus
            | Network
            | Nodefile
            | Nodelist
            | Nodes
            | Ntasks
            | NtasksPerCore
            | NtasksPerGpu
            | NtasksPerNode
            | NtasksPerSocket
            | Overcommit
            | Oversubscribe
            | Partition
            | Resources
            | ResvPorts
            | Segment
            | SocketsPerNode
            | Spread
            | SpreadJob
            | SpreadSegments
            | Toleration
            | Topology
            | Labels
            | Switches
            | ThreadSpec
            | ThreadsPerCore
            | Tmp
            | TresBind
            | TresPerTask
            | UseMinNodes
            | Verbose
    )
}
