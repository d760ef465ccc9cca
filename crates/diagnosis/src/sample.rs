//! What is known of a job at one instant. Counts grow from sample to sample; what nobody knows is
//! `None`.

/// A job at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// When, in seconds on any clock that only goes forward.
    pub at: f64,
    /// CPU time used, seconds.
    pub cpu_seconds: Option<f64>,
    /// CPUs that it may use.
    pub cpus: Option<f64>,
    /// Seconds in which its CPU quota held it up.
    pub throttled_seconds: Option<f64>,
    /// Memory of its own now, bytes: what cannot be thrown out.
    pub memory: Option<f64>,
    /// Its limit.
    pub memory_limit: Option<f64>,
    /// How often it hit the limit.
    pub limit_hits: Option<f64>,
    /// Pages thrown out and needed again.
    pub refaults: Option<f64>,
    /// Seconds in which some of its tasks waited for a CPU.
    pub cpu_waiting: Option<f64>,
    /// Seconds in which all of its tasks waited for memory.
    pub memory_stalled: Option<f64>,
    /// Seconds in which some of its tasks waited for I/O.
    pub io_waiting: Option<f64>,
    /// Seconds in which all of its tasks did.
    pub io_stalled: Option<f64>,
    /// Reads from local disks.
    pub disk_reads: Option<f64>,
    /// Bytes read from local disks.
    pub disk_read_bytes: Option<f64>,
    /// Bytes written to local disks.
    pub disk_written_bytes: Option<f64>,
    /// Reads from all disks of the machine, where it is the job's alone and the job's own are not
    /// known (cgroups without I/O accounting).
    pub machine_reads: Option<f64>,
    /// Bytes of these.
    pub machine_read_bytes: Option<f64>,
    /// Bytes written to them.
    pub machine_written_bytes: Option<f64>,
    /// Reads on network filesystems, where the machine is the job's alone.
    pub shared_reads: Option<f64>,
    /// Bytes of these.
    pub shared_read_bytes: Option<f64>,
    /// Bytes written there.
    pub shared_written_bytes: Option<f64>,
    /// Metadata operations there.
    pub shared_metadata: Option<f64>,
    /// Bytes over InfiniBand and RoCE ports that are up, where the machine is the job's alone; `None`
    /// where there is no such port.
    pub rdma_bytes: Option<f64>,
    /// Bytes over other interfaces.
    pub ethernet_bytes: Option<f64>,
    /// Its GPUs.
    pub gpus: Vec<Gpu>,
}

/// A GPU of the job at one instant; shares are 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gpu {
    /// Which.
    pub uuid: String,
    /// The share of time in which a kernel ran.
    pub busy: Option<f64>,
    /// The share of cycles in which multiprocessors worked.
    pub sm_active: Option<f64>,
    /// The share of its memory in use.
    pub memory: Option<f64>,
    /// Bytes a second from the host against what the link carries.
    pub from_host: Option<f64>,
    /// Heat holds its clocks down.
    pub heat: Option<bool>,
    /// A limit of power does.
    pub power: Option<bool>,
    /// Watts that it draws.
    pub watts: Option<f64>,
    /// Its own meter of energy, joules.
    pub joules: Option<f64>,
}
