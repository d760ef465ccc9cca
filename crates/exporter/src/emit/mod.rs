//! From a snapshot to series: each source's readings under the names of [`crate::families`].

mod filesystems;
mod gpus;
mod jobs;
mod machine;
mod network;
mod own;

use muster_node_metrics::collector::{Part, Snapshot};

use crate::exposition::{Exposition, Settings};
use crate::owners::Owners;

/// What a snapshot says, with jobs under their owners' names.
pub fn exposition(snapshot: &Snapshot, owners: &Owners, settings: &Settings) -> Exposition {
    let mut out = Exposition::new(settings);
    let boot_time = snapshot.parts.iter().find_map(|part| match &**part {
        Part::Stat(stat) => stat.boot_time,
        _ => None,
    });
    let addresses = gpus::addresses(snapshot);
    for part in &snapshot.parts {
        match &**part {
            Part::Jobs(jobs) => jobs::put(&mut out, jobs, owners, settings),
            // What is not a job's is not for one who sees some jobs only.
            _ if owners.only_these => {}
            Part::Stat(stat) => machine::stat(&mut out, stat),
            Part::Memory(memory) => machine::memory(&mut out, memory),
            Part::Load(load) => machine::load(&mut out, *load),
            Part::Pressure(pressures) => machine::pressure(&mut out, pressures),
            Part::Disks(disks) => machine::disks(&mut out, disks),
            Part::Processes(all) => machine::processes(&mut out, all, settings.processes),
            Part::Interfaces(all) => network::interfaces(&mut out, all),
            Part::Cards(cards) => network::cards(&mut out, cards),
            Part::Ports(ports) => network::ports(&mut out, ports),
            Part::Gpus(all) => gpus::put(&mut out, all, owners, settings),
            Part::Xids(counts) => gpus::xids(&mut out, counts, &addresses, boot_time),
            Part::Lustre(clients) => filesystems::lustre(&mut out, clients),
            Part::LustreJobs(jobs) => filesystems::lustre_jobs(&mut out, jobs, settings.jobs_max),
            Part::Gpfs(all) => filesystems::gpfs(&mut out, all),
            Part::Beegfs(all) => filesystems::beegfs(&mut out, all),
            Part::Spaces(spaces) => machine::spaces(&mut out, spaces),
            Part::Nfs(mounts) => filesystems::nfs(&mut out, mounts),
        }
    }
    own::put(&mut out, &snapshot.reports, settings);
    out.close();
    out
}

/// Microseconds as seconds.
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
