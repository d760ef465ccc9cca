//! Filesystems: how full each is, and what Lustre, Storage Scale (GPFS), BeeGFS and NFS do.

pub mod beegfs;
pub mod gpfs;
pub mod lustre;
pub mod lustre_jobs;
pub mod nfs;
pub mod space;
