//! Jobs, and the exporter itself.

const STEP: &[&str] = &["jobid", "step", "user", "account", "engine"];
const JOB: &[&str] = &["jobid", "user", "account", "partition", "name", "engine"];
const JOB_UUID: &[&str] = &["jobid", "UUID"];
const STEP_PRESSURE: &[&str] = &["jobid", "step", "user", "account", "engine", "resource", "share"];
const STEP_DEVICE: &[&str] = &["jobid", "step", "user", "account", "engine", "device"];
const ENGINE: &[&str] = &["engine"];
const SOURCE: &[&str] = &["source"];
const NONE: &[&str] = &[];
const FAMILY: &[&str] = &["family"];
const VERSION: &[&str] = &["version", "hostname"];

families! {
    CGROUP_CPUS Gauge Jobs "cgroup_cpus" "" STEP
        "CPUs that a job or step may use."
    CGROUP_USER Gauge Jobs "cgroup_cpu_user_seconds" "seconds" STEP
        "CPU time in programs."
    CGROUP_SYSTEM Gauge Jobs "cgroup_cpu_system_seconds" "seconds" STEP
        "CPU time in the kernel."
    CGROUP_CPU Gauge Jobs "cgroup_cpu_total_seconds" "seconds" STEP
        "CPU time."
    CGROUP_RSS Gauge Jobs "cgroup_memory_rss_bytes" "bytes" STEP
        "Memory of its own."
    CGROUP_CACHE Gauge Jobs "cgroup_memory_cache_bytes" "bytes" STEP
        "Cached files."
    CGROUP_SHMEM Gauge Jobs "cgroup_memory_shmem_bytes" "bytes" STEP
        "Shared memory, which is part of the cache."
    CGROUP_USED Gauge Jobs "cgroup_memory_used_bytes" "bytes" STEP
        "Memory, cache and kernel included."
    CGROUP_TOTAL Gauge Jobs "cgroup_memory_total_bytes" "bytes" STEP
        "The limit of memory; no series where there is none."
    CGROUP_FAILS Gauge Jobs "cgroup_memory_fail_count" "" STEP
        "How often it hit its limit."
    JOB_INFO Gauge Jobs "muster_job_info" "" JOB
        "1 for each job on this machine."
    JOB_GPU_INFO Gauge Jobs "muster_job_gpu_info" "" JOB_UUID
        "1 for each GPU that a job has."
    JOB_PEAK Gauge Jobs "muster_job_memory_peak_bytes" "bytes" STEP
        "The most memory there was."
    JOB_SWAP Gauge Jobs "muster_job_swap_bytes" "bytes" STEP
        "Memory swapped out."
    JOB_TASKS Gauge Jobs "muster_job_tasks" "" STEP
        "Processes and threads."
    JOB_OOM Counter Jobs "muster_job_oom_kills_total" "" STEP
        "Processes killed because memory was out."
    JOB_FAULTS Counter Jobs "muster_job_major_faults_total" "" STEP
        "Pages read from a disk before a task could go on."
    JOB_REFAULTS Counter Jobs "muster_job_refaults_total" "" STEP
        "Pages thrown out and needed again."
    JOB_THROTTLED Counter Jobs "muster_job_throttled_seconds_total" "seconds" STEP
        "Time in which its CPU quota held it up."
    JOB_PRESSURE Counter Jobs "muster_job_pressure_seconds_total" "seconds" STEP_PRESSURE
        "Time in which some or all (full) of its tasks waited for a resource."
    JOB_READ_BYTES Counter Jobs "muster_job_read_bytes_total" "bytes" STEP_DEVICE
        "Bytes read from a disk; network filesystems are not in it."
    JOB_WRITTEN_BYTES Counter Jobs "muster_job_written_bytes_total" "bytes" STEP_DEVICE
        "Bytes written to a disk, as far as the filesystem tells whose they are."
    JOB_READS Counter Jobs "muster_job_reads_total" "" STEP_DEVICE
        "Reads from a disk."
    JOB_WRITES Counter Jobs "muster_job_writes_total" "" STEP_DEVICE
        "Writes to a disk."
    UNMAPPED Gauge Jobs "muster_unmapped_cgroups" "" ENGINE
        "Cgroups of jobs whose number nobody could tell."
    SOURCE_UP Gauge Own "muster_source_up" "" SOURCE
        "1 where a source was read; no series where this machine does not have it."
    SOURCE_LATE Gauge Own "muster_source_late" "" SOURCE
        "1 where a source has not answered yet."
    SOURCE_AGE Gauge Own "muster_source_age_seconds" "seconds" SOURCE
        "How old what a source said last is."
    SOURCE_COST Gauge Own "muster_source_duration_seconds" "seconds" SOURCE
        "How long the last reading of a source took."
    SOURCE_SKIPPED Counter Own "muster_source_skipped_total" "" SOURCE
        "Lines and values that could not be understood."
    EXPORT_SERIES Gauge Own "muster_export_series" "" NONE
        "Series in this answer."
    EXPORT_DROPPED Gauge Own "muster_export_dropped_series" "" FAMILY
        "Series left out of this answer: beyond a bound, twice there, or no number."
    EXPORT_INFO Gauge Own "muster_export_info" "" VERSION
        "1, with the version of muster."
}
