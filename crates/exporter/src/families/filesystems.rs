//! Network and parallel filesystems.

const TARGET: &[&str] = &["component", "filesystem", "target", "instance"];
const TARGET_OPERATION: &[&str] = &["component", "filesystem", "target", "instance", "operation"];
const TARGET_JOB: &[&str] = &["component", "target", "jobid"];
const TARGET_JOB_OPERATION: &[&str] = &["component", "target", "jobid", "operation"];
const SERVER_TARGET: &[&str] = &["component", "target"];
const SERVER_TARGET_OPERATION: &[&str] = &["component", "target", "operation"];
const FILESYSTEM: &[&str] = &["fs"];
const FILESYSTEM_OPERATION: &[&str] = &["fs", "operation"];
const CLIENT_OPERATION: &[&str] = &["node_type", "client", "operation"];
const MOUNT: &[&str] = &["export", "mountpoint"];
const MOUNT_OPERATION: &[&str] = &["export", "mountpoint", "operation"];

families! {
    LUSTRE_READ_BYTES Counter Filesystems "lustre_read_bytes_total" "bytes" TARGET
        "Bytes read by calls on a mount (component llite) or from a server."
    LUSTRE_WRITE_BYTES Counter Filesystems "lustre_write_bytes_total" "bytes" TARGET
        "Bytes written."
    LUSTRE_READS Counter Filesystems "lustre_read_samples_total" "" TARGET
        "Reads."
    LUSTRE_WRITES Counter Filesystems "lustre_write_samples_total" "" TARGET
        "Writes."
    LUSTRE_STATS Counter Filesystems "lustre_stats_total" "" TARGET_OPERATION
        "Operations by name."
    LUSTRE_SECONDS Counter Muster "muster_lustre_operation_seconds_total" "seconds" TARGET_OPERATION
        "Time that operations took together, as far as this release counts it."
    LUSTRE_JOB_READ_BYTES Counter Filesystems "lustre_job_read_bytes_total" "bytes" TARGET_JOB
        "Bytes that a job read from a target."
    LUSTRE_JOB_WRITE_BYTES Counter Filesystems "lustre_job_write_bytes_total" "bytes" TARGET_JOB
        "Bytes that a job wrote to a target."
    LUSTRE_JOB_STATS Counter Filesystems "lustre_job_stats_total" "" TARGET_JOB_OPERATION
        "Operations of a job on a target."
    LUSTRE_REST_JOBS Gauge Muster "muster_lustre_rest_jobs" "" SERVER_TARGET
        "Jobs on a target that are not told of by themselves."
    LUSTRE_REST Gauge Muster "muster_lustre_rest_operations" "" SERVER_TARGET_OPERATION
        "Operations of those jobs together; it falls where one of them is told by itself."
    GPFS_READ_BYTES Counter Filesystems "gpfs_perf_read_bytes_total" "bytes" FILESYSTEM
        "Bytes read on this node."
    GPFS_WRITE_BYTES Counter Filesystems "gpfs_perf_write_bytes_total" "bytes" FILESYSTEM
        "Bytes written on this node."
    GPFS_OPERATIONS Counter Filesystems "gpfs_perf_operations_total" "" FILESYSTEM_OPERATION
        "Operations on this node."
    BEEGFS_OPERATIONS Counter Muster "muster_beegfs_operations_total" "" CLIENT_OPERATION
        "Operations of a client since the servers started."
    NFS_READ_BYTES Counter Filesystems "node_mountstats_nfs_total_read_bytes_total" "bytes" MOUNT
        "Bytes read from the server."
    NFS_WRITE_BYTES Counter Filesystems "node_mountstats_nfs_total_write_bytes_total" "bytes" MOUNT
        "Bytes written to the server."
    NFS_REQUESTS Counter Filesystems "node_mountstats_nfs_operations_requests_total" "" MOUNT_OPERATION
        "Operations finished."
    NFS_TRANSMISSIONS Counter Filesystems "node_mountstats_nfs_operations_transmissions_total" "" MOUNT_OPERATION
        "Requests sent, those again with them."
    NFS_TIMEOUTS Counter Filesystems "node_mountstats_nfs_operations_major_timeouts_total" "" MOUNT_OPERATION
        "Requests given up after the longest wait."
    NFS_SENT Counter Filesystems "node_mountstats_nfs_operations_sent_bytes_total" "bytes" MOUNT_OPERATION
        "Bytes sent."
    NFS_RECEIVED Counter Filesystems "node_mountstats_nfs_operations_received_bytes_total" "bytes" MOUNT_OPERATION
        "Bytes received."
    NFS_QUEUE Counter Filesystems "node_mountstats_nfs_operations_queue_time_seconds_total" "seconds" MOUNT_OPERATION
        "Time that requests waited to be sent."
    NFS_RTT Counter Filesystems "node_mountstats_nfs_operations_response_time_seconds_total" "seconds" MOUNT_OPERATION
        "Time that requests waited for the server."
    NFS_EXECUTE Counter Filesystems "node_mountstats_nfs_operations_request_time_seconds_total" "seconds" MOUNT_OPERATION
        "Time that requests took together."
}
