//! A first Slurm for a few machines: what `slurm.conf`, `gres.conf` and `cgroup.conf` have to say,
//! and the steps to start it. Pure; the machines are asked elsewhere.

mod files;
mod host;

pub use files::{File, Site, files};
pub use host::{Gpus, Host, HostError};
