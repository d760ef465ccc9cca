//! Every option of Slurm's sbatch manual is in the table, and every variable that it reads.

use std::collections::BTreeSet;

use muster_slurm_syntax::options::{Command, OPTIONS, by_long};

/// The long options of sbatch(1) of Slurm 26.11, and those of 24.05 that have gone since.
const MANUAL: &str = "
    account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment
    consolidate-segments constraint container container-id contiguous core-spec cores-per-socket
    cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot dependency distribution error exclude
    exclusive export export-file extra extra-node-info get-user-env gid gpu-bind gpu-freq gpus
    gpus-per-node gpus-per-socket gpus-per-task gres gres-flags help hint hold ignore-pbs input
    job-name kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu
    mem-per-gpu mem-update mincpus network nice no-kill no-requeue nodefile nodelist nodes ntasks
    ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket oom-kill-step open-mode output
    overcommit oversubscribe parsable partition prefer priority profile propagate qos quiet reboot
    requeue reservation resources resv-ports runtime segment signal sockets-per-node spread-job
    spread-segments stepmgr switches test-only thread-spec threads-per-core time time-min tmp
    tres-bind tres-per-task uid usage use-min-nodes verbose version wait wait-all-nodes wckey wrap
    power
";

/// The input variables of sbatch(1) that set options; `SBATCH_WAIT4SWITCH` adds to another one.
const VARIABLES: &str = "
    SBATCH_ACCOUNT SBATCH_ACCTG_FREQ SBATCH_ARRAY_INX SBATCH_BATCH SBATCH_CLUSTERS
    SBATCH_CONSTRAINT SBATCH_CONTAINER SBATCH_CONTAINER_ID SBATCH_CORE_SPEC SBATCH_CPUS_PER_GPU
    SBATCH_DEBUG SBATCH_DELAY_BOOT SBATCH_DISTRIBUTION SBATCH_ERROR SBATCH_EXCLUSIVE SBATCH_EXPORT
    SBATCH_GET_USER_ENV SBATCH_GPUS SBATCH_GPUS_PER_NODE SBATCH_GPUS_PER_TASK SBATCH_GPU_BIND
    SBATCH_GPU_FREQ SBATCH_GRES SBATCH_GRES_FLAGS SBATCH_HINT SBATCH_IGNORE_PBS SBATCH_INPUT
    SBATCH_JOB_NAME SBATCH_MEM_BIND SBATCH_MEM_PER_CPU SBATCH_MEM_PER_GPU SBATCH_MEM_PER_NODE
    SBATCH_NETWORK SBATCH_NO_KILL SBATCH_NO_REQUEUE SBATCH_OPEN_MODE SBATCH_OUTPUT
    SBATCH_OVERCOMMIT SBATCH_PARTITION SBATCH_POWER SBATCH_PROFILE SBATCH_QOS SBATCH_REQUEUE
    SBATCH_REQ_SWITCH SBATCH_RESERVATION SBATCH_RUNTIME SBATCH_SEGMENT_SIZE SBATCH_SIGNAL
    SBATCH_SPREAD_JOB SBATCH_THREADS_PER_CORE SBATCH_THREAD_SPEC SBATCH_TIMELIMIT SBATCH_TRES_BIND
    SBATCH_TRES_PER_TASK SBATCH_USE_MIN_NODES SBATCH_WAIT SBATCH_WAIT_ALL_NODES
    SBATCH_WCKEY SLURM_CLUSTERS SLURM_HINT
";

#[test]
fn every_option_of_the_manual_is_known() {
    for name in MANUAL.split_whitespace() {
        assert_eq!(by_long(name, Command::Sbatch).map(|spec| spec.long), Ok(name));
    }
}

#[test]
fn every_variable_of_the_manual_is_known() {
    let known: BTreeSet<&str> =
        OPTIONS.iter().flat_map(|spec| spec.variables_of(Command::Sbatch)).collect();
    for variable in VARIABLES.split_whitespace() {
        assert!(known.contains(variable), "{variable}");
    }
}
