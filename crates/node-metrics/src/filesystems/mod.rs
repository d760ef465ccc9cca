//! Filesystems: how full each is, and what Lustre, Storage Scale (GPFS), BeeGFS and NFS do.

pub mod beegfs;
pub mod gpfs;
pub mod lustre;
pub mod lustre_jobs;
pub mod nfs;
pub mod space;

/// What a network filesystem carried, a second; what it does not tell is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Bytes read.
    pub read_bytes: Option<f64>,
    /// Bytes written.
    pub written_bytes: Option<f64>,
    /// Reads.
    pub reads: Option<f64>,
    /// Bytes of one read.
    pub read_size: Option<f64>,
    /// Operations on names and inodes, as far as the filesystem counts them.
    pub metadata: Option<f64>,
}
