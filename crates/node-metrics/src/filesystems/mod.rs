//! Network and parallel filesystems: Lustre, Storage Scale (GPFS), BeeGFS, NFS.

pub mod beegfs;
pub mod gpfs;
pub mod lustre;
pub mod lustre_jobs;
pub mod nfs;
