//! Which signals together mean what. Thresholds are ours.

use crate::signals::{Signal, Signals};

/// A signal against a threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Condition {
    /// What is looked at.
    pub signal: Signal,
    /// How.
    pub test: Test,
}

/// How a signal is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Test {
    /// It is more than that.
    Above(f64),
    /// It is less than that.
    Below(f64),
}

impl Condition {
    /// Whether it holds; `None` where the signal is not known.
    pub fn holds(self, signals: &Signals) -> Option<bool> {
        let value = signals.get(self.signal)?;
        Some(match self.test {
            Test::Above(threshold) => value > threshold,
            Test::Below(threshold) => value < threshold,
        })
    }
}

/// One thing that can hold a job back.
#[derive(Debug)]
pub struct Rule {
    /// Its stable code.
    pub code: &'static str,
    /// One sentence.
    pub title: &'static str,
    /// All of these hold.
    pub all: &'static [Condition],
    /// Of each of these groups one holds.
    pub any: &'static [&'static [Condition]],
    /// What is not looked for where this is found: it says the same less exactly.
    pub replaces: &'static [&'static str],
    /// What to do.
    pub remedy: &'static str,
}

const fn above(signal: Signal, threshold: f64) -> Condition {
    Condition { signal, test: Test::Above(threshold) }
}

const fn below(signal: Signal, threshold: f64) -> Condition {
    Condition { signal, test: Test::Below(threshold) }
}

const KIB: f64 = 1024.0;
const MIB: f64 = 1_048_576.0;

/// The GPUs wait: little use that swings, or multiprocessors with little to do.
const GPU_WAITS: &[Condition] = &[above(Signal::GpuSwing, 0.2), below(Signal::SmActive, 0.4)];
/// Reads are small: metadata goes with each, or there are very many.
const MANY_FILES: &[Condition] =
    &[above(Signal::MetadataPerRead, 0.3), above(Signal::Reads, 500.0)];

/// Every rule, the more exact before the less exact.
pub const RULES: &[Rule] = &[
    Rule {
        code: "GPU_WAITS_SMALL_FILES",
        title: "its GPUs wait for many small files",
        all: &[
            below(Signal::GpuBusy, 0.6),
            above(Signal::GpuMemory, 0.01),
            above(Signal::IoWaiting, 0.2),
            below(Signal::ReadSize, 64.0 * KIB),
        ],
        any: &[GPU_WAITS, MANY_FILES],
        replaces: &["GPU_WAITS_DATA", "SMALL_FILES", "WAITS_IO"],
        remedy: "pack the files (tar, WebDataset, HDF5), copy them to a local disk first, or give the \
                 data loader more workers",
    },
    Rule {
        code: "GPU_WAITS_BANDWIDTH",
        title: "its GPUs wait for the filesystem's bandwidth",
        all: &[
            below(Signal::GpuBusy, 0.6),
            above(Signal::GpuMemory, 0.01),
            above(Signal::IoWaiting, 0.2),
            above(Signal::ReadSize, 256.0 * KIB),
            above(Signal::ReadRate, 100.0 * MIB),
        ],
        any: &[GPU_WAITS],
        replaces: &["GPU_WAITS_DATA", "WAITS_IO"],
        remedy: "copy the data to a local disk first, keep it compressed, or stripe it wider",
    },
    Rule {
        code: "GPU_WAITS_CPU",
        title: "its GPUs wait for its CPUs",
        all: &[
            below(Signal::GpuBusy, 0.6),
            above(Signal::GpuMemory, 0.01),
            below(Signal::IoWaiting, 0.05),
        ],
        any: &[&[
            above(Signal::CpuWaiting, 0.3),
            above(Signal::Throttled, 0.05),
            above(Signal::CpuUse, 0.95),
        ]],
        replaces: &["GPU_WAITS_DATA", "CPU_SHORT"],
        remedy: "ask for more CPUs for each GPU, prepare the data once beforehand, or do it on the GPU",
    },
    Rule {
        code: "GPU_WAITS_DATA",
        title: "its GPUs wait for data",
        all: &[
            below(Signal::GpuBusy, 0.6),
            above(Signal::GpuMemory, 0.01),
            above(Signal::IoWaiting, 0.2),
        ],
        any: &[GPU_WAITS],
        replaces: &["WAITS_IO"],
        remedy: "load data ahead with more workers, or copy it to a local disk first",
    },
    Rule {
        code: "CHECKPOINT_STALL",
        title: "it stands still while it writes",
        all: &[
            above(Signal::IoStalled, 0.2),
            above(Signal::WriteRate, 20.0 * MIB),
            below(Signal::ReadRate, 5.0 * MIB),
        ],
        any: &[],
        replaces: &["WAITS_IO", "GPU_WAITS_DATA"],
        remedy: "write checkpoints less often, beside the work, or to a local disk first",
    },
    Rule {
        code: "NCCL_FALLBACK",
        title: "its data goes over Ethernet though there is InfiniBand",
        all: &[
            above(Signal::Gpus, 0.0),
            above(Signal::Ethernet, 100.0 * MIB),
            below(Signal::Rdma, MIB),
        ],
        any: &[],
        replaces: &[],
        remedy: "run once with NCCL_DEBUG=INFO: `Using network Socket` says so; look for /dev/infiniband \
                 in the container and at NCCL_IB_HCA",
    },
    Rule {
        code: "HOST_TRANSFER",
        title: "the way from host to GPU is full",
        all: &[above(Signal::FromHost, 0.7)],
        any: &[],
        replaces: &[],
        remedy: "keep data on the GPU, send it smaller (bf16, uint8), or once instead of each step",
    },
    Rule {
        code: "GPU_HOT",
        title: "heat slows its GPUs down",
        all: &[above(Signal::Heat, 0.1)],
        any: &[],
        replaces: &[],
        remedy: "tell an administrator: fans, filters, the room",
    },
    Rule {
        code: "GPU_POWER_LIMIT",
        title: "a limit of power slows its GPUs down",
        all: &[above(Signal::Power, 0.5), above(Signal::GpuBusy, 0.5)],
        any: &[],
        replaces: &[],
        remedy: "nothing is broken; a higher limit is an administrator's to set (`nvidia-smi -pl`)",
    },
    Rule {
        code: "GPU_MEMORY_UNUSED",
        title: "it holds GPU memory and does not compute",
        all: &[below(Signal::GpuMost, 0.01), above(Signal::GpuMemory, 0.05)],
        any: &[],
        replaces: &["GPU_IDLE"],
        remedy: "end it where it hangs, or where a notebook was left open",
    },
    Rule {
        code: "GPU_IDLE",
        title: "it has GPUs and does not use them",
        all: &[below(Signal::GpuMost, 0.01)],
        any: &[],
        replaces: &[],
        remedy: "ask for no GPU, or look whether the program finds it (torch.cuda.is_available())",
    },
    Rule {
        code: "GPU_UNEVEN",
        title: "some of its GPUs work and others do not",
        all: &[above(Signal::GpuSpread, 0.4)],
        any: &[],
        replaces: &[],
        remedy: "start a process for each GPU (torchrun, srun), or ask for fewer GPUs",
    },
    Rule {
        code: "GPU_INEFFICIENT",
        title: "its GPUs are busy and do little",
        all: &[above(Signal::GpuBusy, 0.9), below(Signal::SmActive, 0.3)],
        any: &[],
        replaces: &[],
        remedy: "larger batches, fused kernels (torch.compile), mixed precision; a profile says which \
                 kernels are small",
    },
    Rule {
        code: "MEMORY_SHORT",
        title: "it reads the same pages again and again for want of memory",
        all: &[],
        any: &[
            &[above(Signal::MemoryStalled, 0.05)],
            &[above(Signal::Refaults, 100.0), above(Signal::LimitHits, 1.0)],
        ],
        replaces: &["WAITS_IO"],
        remedy: "ask for more with --mem, or work on less at once",
    },
    Rule {
        code: "NEAR_OUT_OF_MEMORY",
        title: "it is about to run out of memory",
        all: &[above(Signal::MemoryUse, 0.95)],
        any: &[],
        replaces: &[],
        remedy: "ask for more with --mem before it is killed",
    },
    Rule {
        code: "SMALL_FILES",
        title: "it waits for many small files",
        all: &[
            above(Signal::IoWaiting, 0.2),
            below(Signal::ReadSize, 64.0 * KIB),
            below(Signal::CpuUse, 0.8),
        ],
        any: &[MANY_FILES],
        replaces: &["WAITS_IO"],
        remedy: "pack the files (tar, zip, HDF5), or copy them to a local disk first",
    },
    Rule {
        code: "WAITS_IO",
        title: "it waits for I/O",
        all: &[above(Signal::IoStalled, 0.3)],
        any: &[],
        replaces: &[],
        remedy: "read ahead, in larger pieces, or from a local disk",
    },
    Rule {
        code: "CPU_SHORT",
        title: "it has more to do than CPUs",
        all: &[],
        any: &[&[above(Signal::CpuWaiting, 0.5), above(Signal::Throttled, 0.2)]],
        replaces: &[],
        remedy: "ask for more CPUs, or start fewer threads (OMP_NUM_THREADS)",
    },
];
