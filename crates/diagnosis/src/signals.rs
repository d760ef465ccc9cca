//! From samples to numbers that rules speak of.

use std::collections::BTreeMap;

use crate::sample::{Gpu, Sample};

/// A shorter window says nothing.
pub const WINDOW_SECONDS_MIN: f64 = 60.0;

/// A window from so many seconds on can tell of a GPU that is held and not used.
const IDLE_SECONDS_MIN: f64 = 900.0;

/// A number that rules speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// GPUs that the job has.
    Gpus,
    /// GPU use, mean over GPUs and time.
    GpuBusy,
    /// How much that swings: standard deviation over time.
    GpuSwing,
    /// Multiprocessors at work, mean.
    SmActive,
    /// GPU memory in use, the fullest GPU.
    GpuMemory,
    /// The most that any GPU was used, where the window is long enough for that to say something.
    GpuMost,
    /// Between the GPU that was used most and the one used least.
    GpuSpread,
    /// GPU samples in which heat held clocks down.
    Heat,
    /// GPU samples in which a limit of power did.
    Power,
    /// Data from the host against what the PCIe link carries.
    FromHost,
    /// CPU time against the CPUs that it may use.
    CpuUse,
    /// Some task waited for a CPU.
    CpuWaiting,
    /// Its CPU quota held it up.
    Throttled,
    /// Own memory against the limit.
    MemoryUse,
    /// All tasks waited for memory.
    MemoryStalled,
    /// Hits of the memory limit a second.
    LimitHits,
    /// Pages thrown out and needed again, a second.
    Refaults,
    /// Some task waited for I/O.
    IoWaiting,
    /// All tasks did.
    IoStalled,
    /// Reads a second, disks and network filesystems.
    Reads,
    /// Bytes of one read.
    ReadSize,
    /// Metadata operations for each read, on network filesystems.
    MetadataPerRead,
    /// Bytes read a second.
    ReadRate,
    /// Bytes written a second.
    WriteRate,
    /// Bytes a second over InfiniBand or RoCE.
    Rdma,
    /// Bytes a second over other interfaces.
    Ethernet,
}

impl Signal {
    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpus => "GPUs",
            Self::GpuBusy => "GPU use",
            Self::GpuSwing => "swing of GPU use",
            Self::SmActive => "multiprocessors active",
            Self::GpuMemory => "GPU memory in use",
            Self::GpuMost => "most GPU use",
            Self::GpuSpread => "difference between GPUs",
            Self::Heat => "time slowed down by heat",
            Self::Power => "time slowed down by the power limit",
            Self::FromHost => "use of the PCIe link",
            Self::CpuUse => "use of its CPUs",
            Self::CpuWaiting => "time waiting for a CPU",
            Self::Throttled => "time held up by the CPU quota",
            Self::MemoryUse => "own memory of its limit",
            Self::MemoryStalled => "time standing still for memory",
            Self::LimitHits => "hits of the memory limit",
            Self::Refaults => "pages read again",
            Self::IoWaiting => "time waiting for I/O",
            Self::IoStalled => "time standing still for I/O",
            Self::Reads => "reads",
            Self::ReadSize => "size of a read",
            Self::MetadataPerRead => "metadata operations for each read",
            Self::ReadRate => "read",
            Self::WriteRate => "written",
            Self::Rdma => "over InfiniBand",
            Self::Ethernet => "over Ethernet",
        }
    }

    /// A value of it as people read it.
    pub fn written(self, value: f64) -> String {
        match self {
            Self::Gpus => format!("{value:.0}"),
            Self::MetadataPerRead => format!("{value:.1}"),
            Self::LimitHits | Self::Refaults | Self::Reads => format!("{value:.0}/s"),
            Self::ReadSize => bytes(value),
            Self::ReadRate | Self::WriteRate | Self::Rdma | Self::Ethernet => {
                format!("{}/s", bytes(value))
            }
            _ => format!("{:.0} %", value * 100.0),
        }
    }
}

fn bytes(value: f64) -> String {
    let units = [("GiB", 1_073_741_824.0), ("MiB", 1_048_576.0), ("KiB", 1024.0)];
    match units.iter().find(|(_, size)| value >= *size) {
        Some((unit, size)) => format!("{:.1} {unit}", value / size),
        None => format!("{value:.0} B"),
    }
}

/// The signals of a window; what could not be told is not in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signals(BTreeMap<Signal, f64>);

impl Signals {
    /// One of them.
    pub fn get(&self, signal: Signal) -> Option<f64> {
        self.0.get(&signal).copied()
    }

    /// Those of a window; `None` where it is too short.
    pub fn of(samples: &[Sample]) -> Option<Self> {
        let (first, last) = (samples.first()?, samples.last()?);
        let seconds = last.at - first.at;
        if seconds < WINDOW_SECONDS_MIN || samples.len() < 3 {
            return None;
        }
        let mut found = Self::default();
        found.counts(first, last, samples, seconds);
        found.gpus(samples, seconds);
        Some(found)
    }

    fn put(&mut self, signal: Signal, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.0.insert(signal, value);
        }
    }

    fn counts(&mut self, first: &Sample, last: &Sample, samples: &[Sample], seconds: f64) {
        let grew = |of: fn(&Sample) -> Option<f64>| {
            // A count that fell began anew: what it counted in the window is not known.
            let fell = samples.windows(2).any(|pair| of(&pair[1]) < of(&pair[0]));
            Some(of(last)? - of(first)?).filter(|_| !fell)
        };
        let rate = |of| grew(of).map(|grew| grew / seconds);
        self.put(Signal::CpuUse, rate(|s| s.cpu_seconds).zip(last.cpus).map(|(u, n)| u / n));
        self.put(Signal::CpuWaiting, rate(|s| s.cpu_waiting));
        self.put(Signal::Throttled, rate(|s| s.throttled_seconds));
        self.put(Signal::MemoryUse, last.memory.zip(last.memory_limit).map(|(m, l)| m / l));
        self.put(Signal::MemoryStalled, rate(|s| s.memory_stalled));
        self.put(Signal::LimitHits, rate(|s| s.limit_hits));
        self.put(Signal::Refaults, rate(|s| s.refaults));
        self.put(Signal::IoWaiting, rate(|s| s.io_waiting));
        self.put(Signal::IoStalled, rate(|s| s.io_stalled));
        let sum = |of: [fn(&Sample) -> Option<f64>; 3]| {
            of.into_iter().filter_map(grew).reduce(|sum, more| sum + more)
        };
        let reads = sum([|s| s.disk_reads, |s| s.machine_reads, |s| s.shared_reads]);
        let read = sum([|s| s.disk_read_bytes, |s| s.machine_read_bytes, |s| s.shared_read_bytes]);
        let written = sum([
            |s| s.disk_written_bytes,
            |s| s.machine_written_bytes,
            |s| s.shared_written_bytes,
        ]);
        self.put(Signal::Reads, reads.map(|reads| reads / seconds));
        self.put(Signal::ReadRate, read.map(|read| read / seconds));
        self.put(Signal::WriteRate, written.map(|written| written / seconds));
        self.put(Signal::ReadSize, read.zip(reads).map(|(read, reads)| read / reads));
        let metadata = grew(|s| s.shared_metadata).zip(grew(|s| s.shared_reads));
        self.put(Signal::MetadataPerRead, metadata.map(|(metadata, reads)| metadata / reads));
        self.put(Signal::Rdma, rate(|s| s.rdma_bytes));
        self.put(Signal::Ethernet, rate(|s| s.ethernet_bytes));
    }

    fn gpus(&mut self, samples: &[Sample], seconds: f64) {
        let count = samples.iter().map(|sample| sample.gpus.len()).max().unwrap_or(0);
        self.put(Signal::Gpus, Some(count as f64));
        let over_time: Vec<f64> =
            samples.iter().filter_map(|s| mean(s.gpus.iter().filter_map(|gpu| gpu.busy))).collect();
        let all = || samples.iter().flat_map(|sample| &sample.gpus);
        let share = |of: fn(&Gpu) -> Option<bool>| {
            mean(all().filter_map(of).map(|held| if held { 1.0 } else { 0.0 }))
        };
        let middle = mean(over_time.iter().copied());
        self.put(Signal::GpuBusy, middle);
        let swing = middle.and_then(|middle| {
            mean(over_time.iter().map(|busy| (busy - middle).powi(2))).map(f64::sqrt)
        });
        self.put(Signal::GpuSwing, swing);
        self.put(Signal::SmActive, mean(all().filter_map(|gpu| gpu.sm_active)));
        self.put(Signal::GpuMemory, all().filter_map(|gpu| gpu.memory).reduce(f64::max));
        if seconds >= IDLE_SECONDS_MIN {
            self.put(Signal::GpuMost, all().filter_map(|gpu| gpu.busy).reduce(f64::max));
        }
        self.put(Signal::Heat, share(|gpu| gpu.heat));
        self.put(Signal::Power, share(|gpu| gpu.power));
        self.put(Signal::FromHost, mean(all().filter_map(|gpu| gpu.from_host)));
        let mut by_gpu: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for gpu in all() {
            by_gpu.entry(&gpu.uuid).or_default().extend(gpu.busy);
        }
        let means: Vec<f64> = by_gpu.values().filter_map(|all| mean(all.iter().copied())).collect();
        let (most, least) =
            (means.iter().copied().reduce(f64::max), means.iter().copied().reduce(f64::min));
        if means.len() > 1 {
            self.put(Signal::GpuSpread, most.zip(least).map(|(most, least)| most - least));
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
