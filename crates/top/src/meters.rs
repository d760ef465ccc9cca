//! The daemon's metrics, as far as they are shown: GPUs by unique id and jobs by number.

use muster_node_metrics::exposition;
use std::collections::BTreeMap;

/// What `/v1/metrics` says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Meters {
    /// GPUs of the daemon's machine.
    pub(crate) gpus: BTreeMap<String, GpuMeter>,
    /// Jobs on it, by raw number.
    pub(crate) jobs: BTreeMap<u32, JobMeter>,
    /// Load of the last minute.
    pub(crate) load: Option<f64>,
    /// Memory that is there, and of it available, bytes.
    pub(crate) memory: (Option<f64>, Option<f64>),
}

/// A GPU now; what nobody knows is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GpuMeter {
    /// Per cent of time in which a kernel ran.
    pub(crate) busy: Option<f64>,
    /// Memory in use, MiB.
    pub(crate) used: Option<f64>,
    /// Celsius.
    pub(crate) heat: Option<f64>,
    /// Watts.
    pub(crate) power: Option<f64>,
    /// It does not answer.
    pub(crate) lost: bool,
    /// Xids that ask for an administrator.
    pub(crate) xids: f64,
}

/// A job now.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JobMeter {
    /// CPU time so far, seconds.
    pub(crate) cpu: Option<f64>,
    /// CPUs that it may use.
    pub(crate) cpus: Option<f64>,
    /// Memory of its own, bytes.
    pub(crate) memory: Option<f64>,
    /// Its limit, bytes.
    pub(crate) memory_limit: Option<f64>,
    /// Bytes read from disks.
    pub(crate) read: Option<f64>,
    /// Bytes written to disks.
    pub(crate) written: Option<f64>,
    /// Seconds in which all of it waited for I/O.
    pub(crate) io_stalled: Option<f64>,
}

/// Reads Prometheus' text format; lines that are not understood are left out.
pub(crate) fn read(text: &str) -> Meters {
    let mut meters = Meters::default();
    for line in text.lines() {
        if let Some((name, labels, value)) = sample(line) {
            meters.put(name, &labels, value);
        }
    }
    meters
}

impl Meters {
    fn put(&mut self, name: &str, labels: &BTreeMap<&str, String>, value: f64) {
        match name {
            "node_load1" => self.load = Some(value),
            "node_memory_MemTotal_bytes" => self.memory.0 = Some(value),
            "node_memory_MemAvailable_bytes" => self.memory.1 = Some(value),
            _ => {}
        }
        // An instance of a GPU is not the GPU.
        if let Some(uuid) = labels.get("UUID").filter(|_| !labels.contains_key("GPU_I_ID")) {
            self.gpu(name, uuid, labels, value);
        }
        let whole = labels.get("step").is_none_or(String::is_empty)
            && labels.get("engine").is_some_and(|engine| engine == "local");
        if let Some(job) = labels.get("jobid").and_then(|job| job.parse().ok()).filter(|_| whole) {
            self.job(name, job, labels, value);
        }
    }

    fn gpu(&mut self, name: &str, uuid: &str, labels: &BTreeMap<&str, String>, value: f64) {
        let mut put = |set: fn(&mut GpuMeter, f64)| {
            set(self.gpus.entry(uuid.to_owned()).or_default(), value);
        };
        match name {
            "DCGM_FI_DEV_GPU_UTIL" => put(|gpu, v| gpu.busy = Some(v)),
            "DCGM_FI_DEV_FB_USED" => put(|gpu, v| gpu.used = Some(v)),
            "DCGM_FI_DEV_GPU_TEMP" => put(|gpu, v| gpu.heat = Some(v)),
            "DCGM_FI_DEV_POWER_USAGE" => put(|gpu, v| gpu.power = Some(v)),
            "muster_gpu_lost" => put(|gpu, v| gpu.lost = v > 0.0),
            "muster_gpu_xid_total"
                if labels.get("class").is_some_and(|class| class.starts_with("drain")) =>
            {
                put(|gpu, v| gpu.xids += v);
            }
            _ => {}
        }
    }

    fn job(&mut self, name: &str, job: u32, labels: &BTreeMap<&str, String>, value: f64) {
        let is = |label: &str, word: &str| labels.get(label).is_some_and(|value| value == word);
        let mut put = |set: fn(&mut JobMeter, f64)| set(self.jobs.entry(job).or_default(), value);
        match name {
            "cgroup_cpu_total_seconds" => put(|job, v| job.cpu = Some(v)),
            "cgroup_cpus" => put(|job, v| job.cpus = Some(v)),
            "cgroup_memory_rss_bytes" => put(|job, v| job.memory = Some(v)),
            "cgroup_memory_total_bytes" => put(|job, v| job.memory_limit = Some(v)),
            "muster_job_read_bytes_total" => {
                put(|job, v| job.read = Some(job.read.unwrap_or(0.0) + v));
            }
            "muster_job_written_bytes_total" => {
                put(|job, v| job.written = Some(job.written.unwrap_or(0.0) + v));
            }
            "muster_job_pressure_seconds_total" if is("resource", "io") && is("share", "full") => {
                put(|job, v| job.io_stalled = Some(v));
            }
            _ => {}
        }
    }
}

/// A line whose value is a number that can be drawn.
fn sample(line: &str) -> Option<(&str, BTreeMap<&str, String>, f64)> {
    exposition::sample(line).filter(|(.., value)| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::{read, sample};

    #[test]
    fn labels_may_hold_anything() {
        let line = r#"a_b{name="x\"},{\\y\n",step=""} 1.5 1700000000"#;
        let (name, labels, value) = sample(line).expect("a sample");
        assert_eq!((name, value), ("a_b", 1.5));
        assert_eq!((labels["name"].as_str(), labels["step"].as_str()), ("x\"},{\\y\n", ""));
        for bad in ["", "# HELP a b", "a", "a{b=\"c} 1", "a{b=\"c\" 1", "a NaN", "a{} x"] {
            assert!(sample(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn gpus_are_told_by_their_unique_id_and_jobs_whole() {
        let meters = read(
            r#"# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-A",hpc_job="7"} 31
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-A",hpc_job="7"} 20480
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-A",hpc_job="7",GPU_I_ID="1",GPU_I_PROFILE="1g"} 12
muster_gpu_xid_total{pci_bus_id="0000:c1:00.0",UUID="GPU-A",xid="79",class="drain_reboot"} 2
muster_gpu_xid_total{pci_bus_id="0000:c1:00.0",UUID="GPU-A",xid="31",class="application"} 5
cgroup_cpu_total_seconds{jobid="7",step="",user="mara",account="a",engine="local"} 12.5
cgroup_cpu_total_seconds{jobid="7",step="0",user="mara",account="a",engine="local"} 3
cgroup_cpu_total_seconds{jobid="7",step="",user="",account="",engine="slurm"} 99
muster_job_read_bytes_total{jobid="7",step="",engine="local",device="8:0"} 10
muster_job_read_bytes_total{jobid="7",step="",engine="local",device="8:16"} 5
node_load1 0.5
"#,
        );
        let gpu = &meters.gpus["GPU-A"];
        assert_eq!(
            (gpu.busy, gpu.used, gpu.xids, gpu.heat),
            (Some(31.0), Some(20_480.0), 2.0, None)
        );
        let job = &meters.jobs[&7];
        assert_eq!((job.cpu, job.read, job.memory), (Some(12.5), Some(15.0), None));
        assert_eq!(meters.load, Some(0.5));
    }
}
