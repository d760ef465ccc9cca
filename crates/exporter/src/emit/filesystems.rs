//! Lustre, Storage Scale, BeeGFS, NFS.

use std::collections::{BTreeMap, BTreeSet};

use muster_node_metrics::filesystems::beegfs::ClientCounts;
use muster_node_metrics::filesystems::gpfs::Filesystem;
use muster_node_metrics::filesystems::lustre::{ClientStats, Operation};
use muster_node_metrics::filesystems::lustre_jobs::JobStats;
use muster_node_metrics::filesystems::nfs::Mount;

use super::seconds;
use crate::exposition::Exposition;
use crate::families;

/// The name of an operation whose sum is bytes, and of none other.
fn bytes(operations: &BTreeMap<String, Operation>, name: &str) -> Option<(u64, Option<u64>)> {
    let operation = operations.get(name).filter(|operation| operation.unit == "bytes")?;
    Some((operation.count, operation.sum))
}

pub(super) fn lustre(out: &mut Exposition, clients: &[ClientStats]) {
    for client in clients {
        let labels = [
            ("component", client.layer.as_str()),
            ("filesystem", client.filesystem.as_str()),
            ("target", client.target.as_deref().unwrap_or_default()),
            ("instance", client.instance.as_str()),
        ];
        let (read, write) =
            (bytes(&client.operations, "read_bytes"), bytes(&client.operations, "write_bytes"));
        out.put(&families::LUSTRE_READS, &labels, read.map(|read| read.0));
        out.put(&families::LUSTRE_READ_BYTES, &labels, read.and_then(|read| read.1));
        out.put(&families::LUSTRE_WRITES, &labels, write.map(|write| write.0));
        out.put(&families::LUSTRE_WRITE_BYTES, &labels, write.and_then(|write| write.1));
        for (name, operation) in client.operations.iter().filter(|(_, o)| o.unit != "bytes") {
            let mut labels = labels.to_vec();
            labels.push(("operation", name.as_str()));
            out.put(&families::LUSTRE_STATS, &labels, operation.count);
            let took = operation.sum.filter(|_| operation.unit == "usecs").map(seconds);
            out.put(&families::LUSTRE_SECONDS, &labels, took);
        }
    }
}

/// Jobs on a target that are not told of by themselves.
#[derive(Default)]
struct Rest<'a> {
    jobs: u64,
    operations: BTreeMap<&'a str, u64>,
}

/// The jobs that did most on a server; the others together.
pub(super) fn lustre_jobs(out: &mut Exposition, jobs: &[JobStats], jobs_max: usize) {
    let mut did: BTreeMap<&str, u64> = BTreeMap::new();
    for job in jobs {
        let sum = did.entry(&job.job).or_default();
        for operation in job.operations.values() {
            *sum = sum.saturating_add(operation.count);
        }
    }
    let mut order: Vec<(&str, u64)> = did.into_iter().collect();
    order.sort_by(|one, other| (other.1, one.0).cmp(&(one.1, other.0)));
    let told: BTreeSet<&str> = order.into_iter().take(jobs_max).map(|(job, _)| job).collect();
    let mut rest: BTreeMap<(&str, &str), Rest<'_>> = BTreeMap::new();
    for job in jobs {
        if told.contains(job.job.as_str()) {
            lustre_job(out, job);
            continue;
        }
        let others = rest.entry((job.component.as_str(), job.target.as_str())).or_default();
        others.jobs += 1;
        for (name, operation) in &job.operations {
            let sum = others.operations.entry(name.as_str()).or_default();
            *sum = sum.saturating_add(operation.count);
        }
    }
    for ((component, target), others) in rest {
        let labels = [("component", component), ("target", target)];
        out.put(&families::LUSTRE_REST_JOBS, &labels, others.jobs);
        for (name, count) in others.operations {
            let labels = [labels[0], labels[1], ("operation", name)];
            out.put(&families::LUSTRE_REST, &labels, count);
        }
    }
}

fn lustre_job(out: &mut Exposition, job: &JobStats) {
    let id = if job.job.is_empty() { "unknown" } else { job.job.as_str() };
    let labels =
        [("component", job.component.as_str()), ("target", job.target.as_str()), ("jobid", id)];
    let sum = |name| bytes(&job.operations, name).and_then(|found| found.1);
    out.put(&families::LUSTRE_JOB_READ_BYTES, &labels, sum("read_bytes"));
    out.put(&families::LUSTRE_JOB_WRITE_BYTES, &labels, sum("write_bytes"));
    for (name, operation) in &job.operations {
        let mut labels = labels.to_vec();
        labels.push(("operation", name.as_str()));
        out.put(&families::LUSTRE_JOB_STATS, &labels, operation.count);
    }
}

pub(super) fn gpfs(out: &mut Exposition, all: &[Filesystem]) {
    for one in all {
        let labels = [("fs", one.name.as_str())];
        out.put(&families::GPFS_READ_BYTES, &labels, one.read_bytes);
        out.put(&families::GPFS_WRITE_BYTES, &labels, one.written_bytes);
        for (operation, count) in [
            ("opens", one.opens),
            ("closes", one.closes),
            ("reads", one.reads),
            ("writes", one.writes),
            ("read_dir", one.directory_reads),
            ("inode_updates", one.inode_updates),
        ] {
            let labels = [labels[0], ("operation", operation)];
            out.put(&families::GPFS_OPERATIONS, &labels, count);
        }
    }
}

pub(super) fn beegfs(out: &mut Exposition, all: &[(&'static str, Vec<ClientCounts>)]) {
    for (node_type, clients) in all {
        // All together is what the clients add up to.
        for client in clients.iter().filter(|client| client.client != "Sum") {
            for (name, count) in client.counts.iter().filter(|(name, _)| *name != "sum") {
                let labels = [
                    ("node_type", *node_type),
                    ("client", client.client.as_str()),
                    ("operation", name.as_str()),
                ];
                out.put(&families::BEEGFS_OPERATIONS, &labels, *count);
            }
        }
    }
}

/// A set of counters that several mounts share is told once, at the first of them.
pub(super) fn nfs(out: &mut Exposition, mounts: &[Mount]) {
    for mount in mounts.iter().filter(|mount| mount.shares_with.is_none()) {
        let labels = [("export", mount.device.as_str()), ("mountpoint", mount.path.as_str())];
        out.put(&families::NFS_READ_BYTES, &labels, mount.bytes.map(|bytes| bytes[4]));
        out.put(&families::NFS_WRITE_BYTES, &labels, mount.bytes.map(|bytes| bytes[5]));
        for (name, operation) in mount.operations.iter().filter(|(_, o)| o.count > 0) {
            let labels = [labels[0], labels[1], ("operation", name.as_str())];
            let ms = |ms: u64| ms as f64 / 1e3;
            out.put(&families::NFS_REQUESTS, &labels, operation.count);
            out.put(&families::NFS_TRANSMISSIONS, &labels, operation.sent);
            out.put(&families::NFS_TIMEOUTS, &labels, operation.timeouts);
            out.put(&families::NFS_SENT, &labels, operation.bytes_sent);
            out.put(&families::NFS_RECEIVED, &labels, operation.bytes_received);
            out.put(&families::NFS_QUEUE, &labels, ms(operation.queue_ms));
            out.put(&families::NFS_RTT, &labels, ms(operation.rtt_ms));
            out.put(&families::NFS_EXECUTE, &labels, ms(operation.total_ms));
        }
    }
}
