//! The table of options: data, nothing else.
//!
//! Source: the sbatch, srun and salloc manuals of Slurm 24.05 to 26.05. One row an option; the
//! columns are those of [`OptionSpec`]. The docs' three lists, the help of the Slurm names and the
//! parser all read it.

use crate::options::Argument::{Maybe, No, Yes};
use crate::options::Disposition::{Honoured, Refused, Warned};
use crate::options::{Commands, OptionSpec};

macro_rules! table {
    ($($opt:ident, $long:literal, $short:expr, $argument:expr, $commands:literal, $muster:literal,
        $disposition:expr, [$($variable:literal),*], $help:literal;)+) => {
        /// An option of sbatch, srun, salloc or muster.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(usize)]
        pub enum Opt {
            $(#[doc = $help] $opt,)+
        }

        /// Every option, in the order of [`Opt`].
        pub static OPTIONS: &[OptionSpec] = &[
            $(OptionSpec {
                opt: Opt::$opt,
                long: $long,
                short: $short,
                argument: $argument,
                commands: Commands($commands),
                muster: $muster,
                disposition: $disposition,
                variables: &[$($variable),*],
                help: $help,
            },)+
        ];
    };
}

// Commands: 1 sbatch, 2 srun, 4 salloc.
table! {
    Account, "account", Some('A'), Yes("NAME"), 7, false,
        Honoured, ["SBATCH_ACCOUNT", "SALLOC_ACCOUNT", "SLURM_ACCOUNT"],
        "account to charge";
    AcctgFreq, "acctg-freq", None, Yes("LIST"), 7, false,
        Warned("usage is sampled at muster's own interval"), ["SBATCH_ACCTG_FREQ", "SALLOC_ACCTG_FREQ", "SLURM_ACCTG_FREQ"],
        "how often usage is sampled";
    Array, "array", Some('a'), Yes("INDICES"), 1, false,
        Honoured, ["SBATCH_ARRAY_INX"],
        "submit an array of jobs: 0-15, 1,3,5-7%2, 0-15:4";
    Async, "async", None, No, 2, false,
        Refused("start the step in the background of the shell instead: srun … &"), [],
        "return before the step ends";
    Batch, "batch", None, Yes("LIST"), 1, false,
        Refused("the batch script runs on the first node of the job"), ["SBATCH_BATCH"],
        "features of the node that runs the script";
    Bb, "bb", None, Yes("SPEC"), 7, false,
        Refused("muster has no burst buffers: stage files in a job of its own and use --dependency"), ["SBATCH_BURST_BUFFER", "SALLOC_BURST_BUFFER", "SLURM_BURST_BUFFER"],
        "burst buffer specification";
    Bbf, "bbf", None, Yes("FILE"), 7, false,
        Refused("muster has no burst buffers: stage files in a job of its own and use --dependency"), [],
        "file with a burst buffer specification";
    Bcast, "bcast", None, Maybe("DEST"), 2, false,
        Refused("put the program on a file system that all nodes see"), ["SLURM_BCAST"],
        "copy the program to the nodes";
    BcastExclude, "bcast-exclude", None, Yes("PATHS"), 2, false,
        Refused("put the program on a file system that all nodes see"), ["SLURM_BCAST_EXCLUDE"],
        "libraries that --bcast leaves out";
    Begin, "begin", Some('b'), Yes("TIME"), 7, false,
        Honoured, [],
        "not before this time: now+1hour, 16:00, 2027-01-20T12:34:00";
    Bell, "bell", None, No, 4, false,
        Warned("no bell is rung"), ["SALLOC_BELL"],
        "ring when the allocation is granted";
    Chdir, "chdir", Some('D'), Yes("PATH"), 7, false,
        Honoured, ["SLURM_REMOTE_CWD"],
        "working directory of the job";
    ClusterConstraint, "cluster-constraint", None, Yes("LIST"), 7, false,
        Refused("muster is one cluster: use --constraint"), ["SBATCH_CLUSTER_CONSTRAINT", "SALLOC_CLUSTER_CONSTRAINT"],
        "features of the clusters to submit to";
    Clusters, "clusters", Some('M'), Yes("NAMES"), 7, false,
        Refused("muster is one cluster: leave the option out"), ["SBATCH_CLUSTERS", "SALLOC_CLUSTERS", "SLURM_CLUSTERS"],
        "clusters to submit to";
    Comment, "comment", None, Yes("TEXT"), 7, false,
        Honoured, [],
        "free text kept with the job";
    Compress, "compress", None, Maybe("TYPE"), 2, false,
        Refused("it belongs to --bcast, which muster does not have"), ["SLURM_COMPRESS"],
        "compress what --bcast copies";
    ConsolidateSegments, "consolidate-segments", None, No, 7, false,
        Honoured, ["SBATCH_CONSOLIDATE_SEGMENTS", "SALLOC_CONSOLIDATE_SEGMENTS"],
        "put all segments into one block";
    Constraint, "constraint", Some('C'), Yes("FEATURES"), 7, false,
        Honoured, ["SBATCH_CONSTRAINT", "SALLOC_CONSTRAINT", "SLURM_CONSTRAINT"],
        "features that the nodes must have: a&(b|c), [a|b], a*2";
    Container, "container", None, Yes("PATH"), 7, false,
        Refused("start the container in the script, for example with apptainer or podman"), ["SBATCH_CONTAINER", "SALLOC_CONTAINER", "SRUN_CONTAINER"],
        "OCI bundle to run in";
    ContainerId, "container-id", None, Yes("ID"), 7, false,
        Refused("start the container in the script, for example with apptainer or podman"), ["SBATCH_CONTAINER_ID", "SALLOC_CONTAINER_ID", "SRUN_CONTAINER_ID"],
        "name of the OCI container";
    Contiguous, "contiguous", None, No, 7, false,
        Honoured, [],
        "nodes that are neighbours";
    CoreSpec, "core-spec", Some('S'), Yes("N"), 7, false,
        Refused("cores for the system are set by the admin of the node"), ["SBATCH_CORE_SPEC", "SALLOC_CORE_SPEC", "SLURM_CORE_SPEC"],
        "cores kept for the system";
    CoresPerSocket, "cores-per-socket", None, Yes("N"), 7, false,
        Refused("choose nodes by their features: use --constraint"), [],
        "nodes with so many cores a socket";
    CpuBind, "cpu-bind", None, Yes("TYPE"), 2, false,
        Honoured, ["SLURM_CPU_BIND"],
        "CPUs that each task may run on: cores, sockets, threads, ldoms, rank, map_cpu:0,1, mask_cpu:0x3, none; verbose, before it tells";
    CpuFreq, "cpu-freq", None, Yes("RANGE"), 7, false,
        Warned("the frequency of CPUs is left as it is"), ["SBATCH_CPU_FREQ_REQ", "SALLOC_CPU_FREQ_REQ", "SLURM_CPU_FREQ_REQ"],
        "frequency of the CPUs";
    CpusPerGpu, "cpus-per-gpu", None, Yes("N"), 7, false,
        Honoured, ["SBATCH_CPUS_PER_GPU", "SALLOC_CPUS_PER_GPU", "SLURM_CPUS_PER_GPU"],
        "CPUs for every GPU";
    CpusPerTask, "cpus-per-task", Some('c'), Yes("N"), 7, false,
        Honoured, ["SLURM_CPUS_PER_TASK"],
        "CPUs for every task";
    Deadline, "deadline", None, Yes("TIME"), 7, false,
        Honoured, [],
        "remove the job if it cannot end by this time";
    DelayBoot, "delay-boot", None, Yes("MINUTES"), 7, false,
        Warned("nodes are not booted for a job"), ["SBATCH_DELAY_BOOT", "SALLOC_DELAY_BOOT", "SLURM_DELAY_BOOT"],
        "how long to wait before booting nodes";
    Dependency, "dependency", Some('d'), Yes("LIST"), 7, false,
        Honoured, ["SLURM_DEPENDENCY"],
        "start after other jobs: afterok:20:21,afterany:23";
    DisableStatus, "disable-status", Some('X'), No, 2, false,
        Warned("an interrupt always goes to the tasks"), ["SLURM_DISABLE_STATUS"],
        "no task states on interrupt";
    Distribution, "distribution", Some('m'), Yes("TYPE"), 7, false,
        Honoured, ["SBATCH_DISTRIBUTION", "SLURM_DISTRIBUTION"],
        "how tasks lie over nodes, sockets and cores: block:cyclic, plane=4, arbitrary; then ,Pack";
    Epilog, "epilog", None, Yes("PROGRAM"), 2, false,
        Refused("run it after srun in the script"), ["SLURM_EPILOG"],
        "program to run after the step";
    Error, "error", Some('e'), Yes("PATTERN"), 3, false,
        Honoured, ["SBATCH_ERROR", "SRUN_ERROR"],
        "file for standard error";
    Exact, "exact", None, No, 2, false,
        Honoured, ["SLURM_EXACT"],
        "give the step only what it asks for";
    Exclude, "exclude", Some('x'), Yes("NODES"), 7, false,
        Honoured, [],
        "nodes that are not used";
    Exclusive, "exclusive", None, Maybe("user"), 7, false,
        Honoured, ["SBATCH_EXCLUSIVE", "SALLOC_EXCLUSIVE", "SLURM_EXCLUSIVE"],
        "whole nodes, or nodes shared with own jobs only (=user)";
    Export, "export", None, Yes("NAMES"), 3, false,
        Honoured, ["SBATCH_EXPORT", "SLURM_EXPORT_ENV", "SRUN_EXPORT_ENV"],
        "variables that the job gets: ALL, NONE, NIL, NAME, NAME=VALUE";
    ExportFile, "export-file", None, Yes("FILE"), 1, false,
        Refused("load the file in the script, or before submitting: set -a; . FILE"), [],
        "file with variables";
    ExternalLauncher, "external-launcher", None, No, 2, false,
        Warned("every step may start processes itself"), [],
        "mark a step that an MPI launcher starts";
    Extra, "extra", None, Yes("TEXT"), 7, false,
        Warned("the text is not used to choose nodes"), [],
        "free text for site filters";
    ExtraNodeInfo, "extra-node-info", Some('B'), Yes("S[:C[:T]]"), 7, false,
        Refused("choose nodes by their features: use --constraint"), [],
        "nodes with so many sockets, cores, threads";
    GetUserEnv, "get-user-env", None, No, 1, false,
        Refused("run the job's shell as a login shell: #!/bin/bash -l"), ["SBATCH_GET_USER_ENV"],
        "load the login environment";
    Gid, "gid", None, Yes("GROUP"), 1, false,
        Refused("submit as that user"), [],
        "submit with this group";
    GpuBind, "gpu-bind", None, Yes("TYPE"), 7, false,
        Honoured, ["SBATCH_GPU_BIND", "SALLOC_GPU_BIND", "SLURM_GPU_BIND"],
        "GPUs that each task sees: closest, single:2, per_task:1, map_gpu:0,1, mask_gpu:0x3, none";
    GpuFreq, "gpu-freq", None, Yes("RANGE"), 7, false,
        Warned("the frequency of GPUs is left as it is"), ["SBATCH_GPU_FREQ", "SALLOC_GPU_FREQ", "SLURM_GPU_FREQ"],
        "frequency of the GPUs";
    Gpus, "gpus", Some('G'), Yes("[TYPE:]N"), 7, false,
        Honoured, ["SBATCH_GPUS", "SALLOC_GPUS", "SLURM_GPUS"],
        "GPUs in total";
    GpusPerNode, "gpus-per-node", None, Yes("[TYPE:]N"), 7, false,
        Honoured, ["SBATCH_GPUS_PER_NODE", "SALLOC_GPUS_PER_NODE", "SLURM_GPUS_PER_NODE"],
        "GPUs on every node";
    GpusPerSocket, "gpus-per-socket", None, Yes("[TYPE:]N"), 7, false,
        Honoured, ["SBATCH_GPUS_PER_SOCKET", "SALLOC_GPUS_PER_SOCKET"],
        "GPUs for every socket";
    GpusPerTask, "gpus-per-task", None, Yes("[TYPE:]N"), 7, false,
        Honoured, ["SBATCH_GPUS_PER_TASK", "SALLOC_GPUS_PER_TASK", "SLURM_GPUS_PER_TASK"],
        "GPUs for every task";
    Gres, "gres", None, Yes("LIST"), 7, false,
        Honoured, ["SBATCH_GRES", "SALLOC_GRES", "SLURM_GRES"],
        "countable resources on every node: gpu:a100:2,nic";
    GresFlags, "gres-flags", None, Yes("FLAGS"), 7, false,
        Honoured, ["SBATCH_GRES_FLAGS", "SALLOC_GRES_FLAGS", "SLURM_GRES_FLAGS"],
        "enforce-binding: only CPUs of the sockets that the GPUs are on";
    Help, "help", Some('h'), No, 7, false,
        Honoured, [],
        "show the options";
    HetGroup, "het-group", None, Yes("LIST"), 2, false,
        Honoured, [],
        "components of the job that the step runs on";
    Hint, "hint", None, Yes("TYPE"), 7, false,
        Warned("CPUs are counted as the machine counts them; ask for fewer tasks a node instead"), ["SBATCH_HINT", "SALLOC_HINT", "SLURM_HINT"],
        "how the program uses cores and threads";
    Hold, "hold", Some('H'), No, 7, false,
        Honoured, [],
        "submit held; release starts it";
    IgnorePbs, "ignore-pbs", None, No, 1, false,
        Honoured, ["SBATCH_IGNORE_PBS"],
        "say nothing about #PBS and #BSUB lines";
    IgnoreSignals, "ignore-signals", None, Yes("LIST"), 2, false,
        Refused("trap the signal in the script"), [],
        "signals that srun does not pass on";
    Immediate, "immediate", Some('I'), Maybe("SECONDS"), 6, false,
        Honoured, ["SALLOC_IMMEDIATE", "SLURM_IMMEDIATE"],
        "give up if it cannot start within so many seconds";
    Input, "input", Some('i'), Yes("PATTERN"), 3, false,
        Honoured, ["SBATCH_INPUT", "SRUN_INPUT"],
        "file for standard input";
    JobName, "job-name", Some('J'), Yes("NAME"), 7, false,
        Honoured, ["SBATCH_JOB_NAME", "SLURM_JOB_NAME"],
        "name of the job";
    Jobid, "jobid", None, Yes("ID"), 2, false,
        Honoured, ["SLURM_JOB_ID"],
        "run the step in this job";
    KillCommand, "kill-command", Some('K'), Maybe("SIGNAL"), 4, false,
        Honoured, ["SALLOC_KILL_CMD"],
        "signal for the command when the allocation ends";
    KillOnBadExit, "kill-on-bad-exit", Some('K'), Maybe("0"), 2, false,
        Honoured, ["SLURM_KILL_BAD_EXIT"],
        "end the step when a task fails";
    KillOnInvalidDep, "kill-on-invalid-dep", None, Yes("yes or no"), 1, false,
        Honoured, [],
        "cancel the job when its dependency can never be met";
    Label, "label", Some('l'), No, 2, false,
        Honoured, ["SLURM_LABELIO"],
        "put the task's number before each line";
    Licenses, "licenses", Some('L'), Yes("LIST"), 7, false,
        Honoured, [],
        "licences: ansys:2,matlab";
    MailType, "mail-type", None, Yes("EVENTS"), 7, false,
        Honoured, [],
        "events to send mail about: BEGIN, END, FAIL, …";
    MailUser, "mail-user", None, Yes("ADDRESS"), 7, false,
        Honoured, [],
        "who gets the mail";
    McsLabel, "mcs-label", None, Yes("LABEL"), 7, false,
        Refused("muster has no such labels: use --exclusive=user"), [],
        "security label";
    Mem, "mem", None, Yes("SIZE"), 7, false,
        Honoured, ["SBATCH_MEM_PER_NODE", "SALLOC_MEM_PER_NODE", "SLURM_MEM_PER_NODE"],
        "memory on every node; 0 is all of it";
    MemBind, "mem-bind", None, Yes("TYPE"), 7, false,
        Warned("memory is taken near the CPUs where the system allows"), ["SBATCH_MEM_BIND", "SALLOC_MEM_BIND", "SLURM_MEM_BIND"],
        "how tasks are bound to memory";
    MemPerCpu, "mem-per-cpu", None, Yes("SIZE"), 7, false,
        Honoured, ["SBATCH_MEM_PER_CPU", "SALLOC_MEM_PER_CPU", "SLURM_MEM_PER_CPU"],
        "memory for every CPU";
    MemPerGpu, "mem-per-gpu", None, Yes("SIZE"), 7, false,
        Honoured, ["SBATCH_MEM_PER_GPU", "SALLOC_MEM_PER_GPU", "SLURM_MEM_PER_GPU"],
        "memory for every GPU";
    MemUpdate, "mem-update", None, Yes("MARGIN@DELAY"), 7, false,
        Warned("the memory limit stays as asked"), [],
        "lower the memory limit while the job runs";
    Mincpus, "mincpus", None, Yes("N"), 7, false,
        Honoured, [],
        "CPUs on every node, at least";
    Mpi, "mpi", None, Yes("TYPE"), 2, false,
        Warned("MPI programs find their ranks in the environment; start them with mpirun"), ["SLURM_MPI_TYPE"],
        "kind of MPI to set up";
    MsgTimeout, "msg-timeout", None, Yes("SECONDS"), 2, false,
        Warned("muster's own timeouts hold"), [],
        "how long messages may take";
    MultiProg, "multi-prog", None, No, 2, false,
        Honoured, [],
        "run different programs, named in a file";
    Network, "network", None, Yes("TYPE"), 7, false,
        Refused("muster sets up no interconnect"), ["SBATCH_NETWORK", "SALLOC_NETWORK", "SLURM_NETWORK"],
        "interconnect settings";
    Nice, "nice", None, Maybe("N"), 7, false,
        Honoured, [],
        "lower the priority, by 100 unless said otherwise";
    NoAllocate, "no-allocate", Some('Z'), No, 2, false,
        Refused("every step runs in an allocation"), [],
        "run without an allocation";
    NoBell, "no-bell", None, No, 4, false,
        Honoured, ["SALLOC_NO_BELL"],
        "do not ring";
    NoKill, "no-kill", Some('k'), Maybe("off"), 7, false,
        Refused("a job whose node fails ends; use --requeue and checkpoints"), ["SBATCH_NO_KILL", "SALLOC_NO_KILL", "SLURM_NO_KILL"],
        "go on when a node fails";
    NoRequeue, "no-requeue", None, No, 1, false,
        Honoured, ["SBATCH_NO_REQUEUE"],
        "never put the job back into the queue";
    NoShell, "no-shell", None, No, 4, false,
        Honoured, [],
        "make the allocation and return";
    Nodefile, "nodefile", Some('F'), Yes("FILE"), 7, false,
        Refused("name the nodes: --nodelist=$(paste -sd, FILE)"), [],
        "file with the nodes to use";
    Nodelist, "nodelist", Some('w'), Yes("NODES"), 7, false,
        Honoured, [],
        "nodes that must be part: n[1-4],n7";
    Nodes, "nodes", Some('N'), Yes("COUNT"), 7, false,
        Honoured, ["SLURM_JOB_NUM_NODES", "SLURM_NNODES"],
        "number of nodes: 2, 1-4, 1,5, 1-15:4";
    Ntasks, "ntasks", Some('n'), Yes("N"), 7, false,
        Honoured, ["SLURM_NTASKS", "SLURM_NPROCS"],
        "number of tasks";
    NtasksPerCore, "ntasks-per-core", None, Yes("N"), 7, false,
        Honoured, ["SLURM_NTASKS_PER_CORE"],
        "tasks on a core, at most";
    NtasksPerGpu, "ntasks-per-gpu", None, Yes("N"), 7, false,
        Honoured, ["SLURM_NTASKS_PER_GPU"],
        "tasks for every GPU";
    NtasksPerNode, "ntasks-per-node", None, Yes("N"), 7, false,
        Honoured, ["SLURM_NTASKS_PER_NODE"],
        "tasks on every node";
    NtasksPerSocket, "ntasks-per-socket", None, Yes("N"), 7, false,
        Honoured, [],
        "tasks on a socket, at most";
    OomKillStep, "oom-kill-step", None, Maybe("0"), 7, false,
        Warned("a job or step that runs out of memory always ends whole"), ["SLURM_OOMKILLSTEP"],
        "end the whole step when memory runs out";
    OpenMode, "open-mode", None, Yes("MODE"), 3, false,
        Honoured, ["SBATCH_OPEN_MODE", "SLURM_OPEN_MODE"],
        "append to output files or truncate them";
    Output, "output", Some('o'), Yes("PATTERN"), 3, false,
        Honoured, ["SBATCH_OUTPUT", "SRUN_OUTPUT"],
        "file for standard output";
    Overcommit, "overcommit", Some('O'), No, 7, false,
        Refused("ask for fewer CPUs: --cpus-per-task or fewer tasks"), ["SBATCH_OVERCOMMIT", "SALLOC_OVERCOMMIT", "SLURM_OVERCOMMIT"],
        "more tasks than CPUs";
    Overlap, "overlap", None, No, 2, false,
        Honoured, ["SLURM_OVERLAP"],
        "share the step's resources with other steps";
    Oversubscribe, "oversubscribe", Some('s'), No, 7, false,
        Honoured, [],
        "share nodes with other jobs";
    PackGroup, "pack-group", None, Yes("LIST"), 2, false,
        Honoured, [],
        "old spelling of --het-group";
    Parsable, "parsable", None, No, 3, false,
        Honoured, [],
        "print the job id alone";
    Partition, "partition", Some('p'), Yes("NAMES"), 7, false,
        Honoured, ["SBATCH_PARTITION", "SALLOC_PARTITION", "SLURM_PARTITION"],
        "partitions to run in; the first that can start wins";
    Power, "power", None, Yes("FLAGS"), 7, false,
        Warned("power is left as it is"), ["SBATCH_POWER", "SALLOC_POWER", "SLURM_POWER"],
        "power management";
    Prefer, "prefer", None, Yes("FEATURES"), 7, false,
        Warned("the wish is not used to choose nodes"), [],
        "features that are wished for";
    PreserveEnv, "preserve-env", Some('E'), No, 2, false,
        Warned("the step gets its own counts"), [],
        "keep the job's task and node counts";
    Priority, "priority", None, Yes("N"), 7, false,
        Honoured, [],
        "priority set by hand (admins only)";
    Profile, "profile", None, Yes("TYPES"), 7, false,
        Warned("no profile is written"), ["SBATCH_PROFILE", "SALLOC_PROFILE", "SLURM_PROFILE"],
        "detailed profiling";
    Prolog, "prolog", None, Yes("PROGRAM"), 2, false,
        Refused("run it before srun in the script"), ["SLURM_PROLOG"],
        "program to run before the step";
    Propagate, "propagate", None, Maybe("LIMITS"), 3, false,
        Warned("the job gets the limits of the daemon; set others in the script with ulimit"), ["SLURM_PROPAGATE"],
        "resource limits to pass on";
    Pty, "pty", None, Maybe("FD"), 2, false,
        Honoured, [],
        "run the first task on a terminal";
    Qos, "qos", Some('q'), Yes("NAME"), 7, false,
        Honoured, ["SBATCH_QOS", "SALLOC_QOS", "SLURM_QOS"],
        "quality of service";
    Quiet, "quiet", Some('Q'), No, 7, false,
        Honoured, [],
        "say nothing but errors";
    QuitOnInterrupt, "quit-on-interrupt", None, No, 2, false,
        Honoured, [],
        "end the step on one interrupt";
    Reboot, "reboot", None, No, 7, false,
        Refused("nodes are not booted for a job"), [],
        "reboot the nodes first";
    Relative, "relative", Some('r'), Yes("N"), 2, false,
        Honoured, [],
        "first node of the step within the job";
    Requeue, "requeue", None, Maybe("expedite"), 1, false,
        Honoured, ["SBATCH_REQUEUE"],
        "put the job back into the queue after a failure";
    Reservation, "reservation", None, Yes("NAME"), 7, false,
        Honoured, ["SBATCH_RESERVATION", "SALLOC_RESERVATION", "SLURM_RESERVATION"],
        "reservation to run in";
    Resources, "resources", None, Yes("LIST"), 7, false,
        Refused("use --licenses"), [],
        "hierarchical resources";
    ResvPorts, "resv-ports", None, Maybe("N"), 7, false,
        Refused("let the program choose its ports"), ["SLURM_RESV_PORTS"],
        "reserve ports for MPI";
    Runtime, "runtime", None, Yes("NAME"), 7, false,
        Refused("start the container in the script, for example with apptainer or podman"), ["SBATCH_RUNTIME", "SALLOC_RUNTIME", "SRUN_RUNTIME"],
        "container runtime";
    Segment, "segment", None, Yes("N"), 7, false,
        Honoured, ["SBATCH_SEGMENT_SIZE", "SALLOC_SEGMENT_SIZE", "SRUN_SEGMENT_SIZE"],
        "size of node groups in block topology";
    SendLibs, "send-libs", None, Maybe("yes"), 2, false,
        Refused("put the program on a file system that all nodes see"), ["SLURM_SEND_LIBS"],
        "copy libraries with --bcast";
    Signal, "signal", None, Yes("[B:]SIG[@S]"), 7, false,
        Honoured, ["SBATCH_SIGNAL", "SALLOC_SIGNAL", "SLURM_SIGNAL"],
        "signal to send before the time limit";
    SlurmdDebug, "slurmd-debug", None, Yes("LEVEL"), 2, false,
        Warned("see the daemon's log instead"), ["SLURMD_DEBUG"],
        "debug level on the nodes";
    SocketsPerNode, "sockets-per-node", None, Yes("N"), 7, false,
        Honoured, [],
        "how many sockets of a node --gpus-per-socket is for";
    SpreadJob, "spread-job", None, No, 7, false,
        Warned("the site's policy packs or spreads"), ["SBATCH_SPREAD_JOB", "SALLOC_SPREAD_JOB", "SLURM_SPREAD_JOB"],
        "use as many nodes as possible";
    SpreadSegments, "spread-segments", None, No, 7, false,
        Honoured, ["SBATCH_SPREAD_SEGMENTS", "SALLOC_SPREAD_SEGMENTS"],
        "put segments into different blocks";
    Stepmgr, "stepmgr", None, No, 7, false,
        Warned("steps are always managed by the job's own supervisor"), [],
        "manage steps on the node";
    Switches, "switches", None, Yes("N[@TIME]"), 7, false,
        Honoured, ["SBATCH_REQ_SWITCH", "SALLOC_REQ_SWITCH", "SLURM_REQ_SWITCH"],
        "leaf switches at most, and how long to wait for that";
    TaskEpilog, "task-epilog", None, Yes("PROGRAM"), 2, false,
        Refused("run it after the program in a script of its own"), ["SLURM_TASK_EPILOG"],
        "program to run after every task";
    TaskProlog, "task-prolog", None, Yes("PROGRAM"), 2, false,
        Refused("run it before the program in a script of its own"), ["SLURM_TASK_PROLOG"],
        "program to run before every task";
    TasksPerNode, "tasks-per-node", None, Yes("N"), 7, false,
        Honoured, [],
        "old spelling of --ntasks-per-node";
    TestOnly, "test-only", None, No, 3, false,
        Honoured, [],
        "say when it would start, and submit nothing";
    ThreadSpec, "thread-spec", None, Yes("N"), 7, false,
        Refused("cores for the system are set by the admin of the node"), ["SBATCH_THREAD_SPEC", "SALLOC_THREAD_SPEC", "SLURM_THREAD_SPEC"],
        "threads kept for the system";
    Threads, "threads", Some('T'), Yes("N"), 2, false,
        Warned("srun needs no such bound"), ["SLURM_THREADS"],
        "threads of srun itself";
    ThreadsPerCore, "threads-per-core", None, Yes("N"), 7, false,
        Warned("CPUs are counted as the machine counts them; ask for fewer tasks a node instead"), ["SBATCH_THREADS_PER_CORE", "SALLOC_THREADS_PER_CORE", "SLURM_THREADS_PER_CORE"],
        "threads used on a core";
    Time, "time", Some('t'), Yes("TIME"), 7, false,
        Honoured, ["SBATCH_TIMELIMIT", "SALLOC_TIMELIMIT", "SLURM_TIMELIMIT"],
        "time limit: minutes, h:mm:ss, days-hours";
    TimeMin, "time-min", None, Yes("TIME"), 7, false,
        Honoured, [],
        "the limit may be cut down to this to start earlier";
    Tmp, "tmp", None, Yes("SIZE"), 7, false,
        Honoured, [],
        "scratch disk on every node";
    Treewidth, "treewidth", None, Yes("N"), 2, false,
        Warned("messages go straight to each node"), [],
        "width of the message tree";
    TresBind, "tres-bind", None, Yes("LIST"), 7, false,
        Honoured, ["SBATCH_TRES_BIND", "SALLOC_TRES_BIND"],
        "as --gpu-bind: gres/gpu:closest";
    TresPerTask, "tres-per-task", None, Yes("LIST"), 7, false,
        Honoured, ["SBATCH_TRES_PER_TASK", "SALLOC_TRES_PER_TASK", "SLURM_TRES_PER_TASK"],
        "resources for every task: cpu=4,gres/gpu=1";
    Uid, "uid", None, Yes("USER"), 1, false,
        Refused("submit as that user"), [],
        "submit as this user";
    Unbuffered, "unbuffered", Some('u'), No, 2, false,
        Honoured, ["SLURM_UNBUFFEREDIO"],
        "do not hold output back until a line is whole";
    Usage, "usage", None, No, 7, false,
        Honoured, [],
        "show a short help";
    UseMinNodes, "use-min-nodes", None, No, 7, false,
        Honoured, ["SBATCH_USE_MIN_NODES", "SALLOC_USE_MIN_NODES", "SLURM_USE_MIN_NODES"],
        "take the smaller number of a range of nodes";
    Verbose, "verbose", Some('v'), No, 7, false,
        Honoured, ["SBATCH_DEBUG", "SALLOC_DEBUG", "SLURM_DEBUG"],
        "say more";
    Version, "version", Some('V'), No, 7, false,
        Honoured, [],
        "show the version";
    Wait, "wait", Some('W'), No, 1, false,
        Honoured, ["SBATCH_WAIT"],
        "return when the job has ended, with its exit code";
    WaitStep, "wait", Some('W'), Yes("SECONDS"), 2, false,
        Honoured, ["SLURM_WAIT"],
        "how long to wait for tasks after the first has ended";
    WaitAllNodes, "wait-all-nodes", None, Yes("0 or 1"), 5, false,
        Honoured, ["SBATCH_WAIT_ALL_NODES", "SALLOC_WAIT_ALL_NODES"],
        "start when all nodes are ready; muster always does";
    WaitForChildren, "wait-for-children", None, No, 2, false,
        Honoured, [],
        "wait for all processes of a task";
    Wckey, "wckey", None, Yes("KEY"), 7, false,
        Warned("the key is not kept; use --comment or --account"), ["SBATCH_WCKEY", "SALLOC_WCKEY", "SLURM_WCKEY"],
        "key for accounting";
    Wrap, "wrap", None, Yes("COMMAND"), 1, false,
        Honoured, [],
        "run this command instead of a script";
    X11, "x11", None, Maybe("WHERE"), 6, false,
        Refused("forward the display with ssh -X"), [],
        "forward the X display";
    GpuMemory, "gpu-memory", None, Yes("SIZE"), 7, true,
        Honoured, [],
        "memory that each GPU must have free for the job: 20G";
    GpuShare, "gpu-share", None, Yes("FRACTION"), 7, true,
        Honoured, [],
        "part of each GPU, of one that is shared: 0.5 or 25%";
    GpuPieces, "gpu-pieces", None, Yes("N"), 7, true,
        Honoured, [],
        "pieces of each GPU, of those that the site counts it in; as --gres=shard:N";
    GpuIsolation, "gpu-isolation", None, Yes("CLASS"), 7, true,
        Honoured, [],
        "how well others on the same GPU are kept apart at the least: none, time-slice, mps, mig";
    Mig, "mig", None, Yes("PROFILE"), 7, true,
        Honoured, [],
        "MIG instances of this profile in place of whole GPUs: 1g.10gb";
    Image, "image", None, Yes("NAME"), 7, true,
        Honoured, [],
        "container image, for engines that run images";
    Topology, "topology", None, Yes("WISH"), 7, true,
        Honoured, [],
        "how near the nodes are: required:rack, preferred:leaf";
    Affinity, "affinity", None, Yes("RULES"), 7, true,
        Honoured, [],
        "rules on node labels and other jobs: node(zone=a), near(rack, app=db), apart(node, app=web)*10; may be repeated";
    Spread, "spread", None, Yes("RULES"), 7, true,
        Honoured, [],
        "even numbers of jobs over places: rack,skew=1:app=web; may be repeated";
    Toleration, "toleration", None, Yes("LIST"), 7, true,
        Honoured, [],
        "taints that do not keep the job away: gpu=h100:NoSchedule; may be repeated";
    Labels, "labels", None, Yes("KEY=VALUE"), 7, true,
        Honoured, [],
        "labels that other jobs' rules go by; may be repeated";
    Volume, "volume", None, Yes("SRC:DST[:ro]"), 7, true,
        Honoured, [],
        "directory or volume that the job needs; may be repeated";
    On, "on", None, Yes("ENGINE"), 7, true,
        Honoured, [],
        "engine that runs the job: local for this machine, slurm for the Slurm that muster hands jobs to, kubernetes for the cluster that it runs them on, any for the first to start it; without --partition one of its partitions";
    Gang, "gang", None, Yes("NAME:SIZE"), 7, true,
        Honoured, [],
        "starts together with the other jobs of this name, as many as SIZE says";
    Elastic, "elastic", None, Yes("MIN-MAX[,live]"), 7, true,
        Honoured, [],
        "so many nodes, in place of --nodes; gives up what is above MIN where others wait for it and gets what nobody can use, by a restart; with live it goes on where it loses nodes";
    CheckpointDir, "checkpoint-dir", None, Yes("PATH"), 7, true,
        Honoured, [],
        "where the job's checkpoints lie";
    CheckpointSignal, "checkpoint-signal", None, Yes("SIG[@S]"), 7, true,
        Honoured, [],
        "signal that asks for a checkpoint before the job is stopped, and the seconds it may take";
    CheckpointEnv, "checkpoint-env", None, Yes("NAME"), 7, true,
        Honoured, [],
        "variable that tells the job its checkpoint directory; MUSTER_CHECKPOINT_DIR unless said otherwise";
}
