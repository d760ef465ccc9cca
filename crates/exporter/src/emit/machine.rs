//! CPUs, memory, load, pressure, disks, processes.

use muster_node_metrics::block::disks::{Disk, Requests, SECTOR_BYTES};
use muster_node_metrics::block::processes::ProcessIo;
use muster_node_metrics::filesystems::space::Space;
use muster_node_metrics::host::load::Load;
use muster_node_metrics::host::memory::Memory;
use muster_node_metrics::host::pressure::{Pressure, Pressures, Stall};
use muster_node_metrics::host::stat::{MODES, Stat, TICKS};

use super::seconds;
use crate::exposition::Exposition;
use crate::families::{self, Family};

pub(super) fn stat(out: &mut Exposition, stat: &Stat) {
    for cpu in &stat.cpus {
        let number = cpu.cpu.to_string();
        for (mode, ticks) in MODES.iter().zip(&cpu.ticks) {
            let labels = [("cpu", number.as_str()), ("mode", *mode)];
            out.put(&families::CPU_SECONDS, &labels, *ticks as f64 / TICKS);
        }
    }
    out.put(&families::CONTEXT_SWITCHES, &[], stat.context_switches);
    out.put(&families::FORKS, &[], stat.forks);
    out.put(&families::BOOT_TIME, &[], stat.boot_time);
    out.put(&families::PROCS_RUNNING, &[], stat.running);
    out.put(&families::PROCS_BLOCKED, &[], stat.blocked);
}

pub(super) fn memory(out: &mut Exposition, memory: &Memory) {
    const AMOUNTS: [(&str, &Family); 19] = [
        ("MemTotal", &families::MEMORY_MEM_TOTAL),
        ("MemFree", &families::MEMORY_MEM_FREE),
        ("MemAvailable", &families::MEMORY_MEM_AVAILABLE),
        ("Buffers", &families::MEMORY_BUFFERS),
        ("Cached", &families::MEMORY_CACHED),
        ("SwapCached", &families::MEMORY_SWAP_CACHED),
        ("SwapTotal", &families::MEMORY_SWAP_TOTAL),
        ("SwapFree", &families::MEMORY_SWAP_FREE),
        ("Dirty", &families::MEMORY_DIRTY),
        ("Writeback", &families::MEMORY_WRITEBACK),
        ("AnonPages", &families::MEMORY_ANON_PAGES),
        ("Mapped", &families::MEMORY_MAPPED),
        ("Shmem", &families::MEMORY_SHMEM),
        ("Slab", &families::MEMORY_SLAB),
        ("SReclaimable", &families::MEMORY_SRECLAIMABLE),
        ("SUnreclaim", &families::MEMORY_SUNRECLAIM),
        ("PageTables", &families::MEMORY_PAGE_TABLES),
        ("CommitLimit", &families::MEMORY_COMMIT_LIMIT),
        ("Committed_AS", &families::MEMORY_COMMITTED_AS),
    ];
    for (name, family) in AMOUNTS {
        out.put(family, &[], memory.bytes(name));
    }
    out.put(&families::SWAPPED_IN, &[], memory.swapped_in);
    out.put(&families::SWAPPED_OUT, &[], memory.swapped_out);
    out.put(&families::MAJOR_FAULTS, &[], memory.major_faults);
    out.put(&families::OOM_KILLS, &[], memory.oom_kills);
}

pub(super) fn load(out: &mut Exposition, load: Load) {
    out.put(&families::LOAD_1, &[], load.one);
    out.put(&families::LOAD_5, &[], load.five);
    out.put(&families::LOAD_15, &[], load.fifteen);
}

pub(super) fn pressure(out: &mut Exposition, pressures: &Pressures) {
    let total = |pressure: Option<Pressure>, which: fn(&Pressure) -> Option<Stall>| {
        Some(seconds(which(&pressure?)?.total_us))
    };
    let some: fn(&Pressure) -> Option<Stall> = |pressure| pressure.some;
    let full: fn(&Pressure) -> Option<Stall> = |pressure| pressure.full;
    out.put(&families::PRESSURE_CPU_SOME, &[], total(pressures.cpu, some));
    out.put(&families::PRESSURE_MEMORY_SOME, &[], total(pressures.memory, some));
    out.put(&families::PRESSURE_MEMORY_FULL, &[], total(pressures.memory, full));
    out.put(&families::PRESSURE_IO_SOME, &[], total(pressures.io, some));
    out.put(&families::PRESSURE_IO_FULL, &[], total(pressures.io, full));
}

/// Whole disks: what their parts do is in them already.
pub(super) fn disks(out: &mut Exposition, disks: &[Disk]) {
    for disk in disks.iter().filter(|disk| !disk.partition) {
        let labels = [("device", disk.name.as_str())];
        let ms = |ms: u64| ms as f64 / 1e3;
        let bytes = |requests: Requests| requests.sectors.saturating_mul(SECTOR_BYTES);
        out.put(&families::DISK_READS, &labels, disk.reads.count);
        out.put(&families::DISK_READS_MERGED, &labels, disk.reads.merged);
        out.put(&families::DISK_READ_BYTES, &labels, bytes(disk.reads));
        out.put(&families::DISK_READ_SECONDS, &labels, ms(disk.reads.ms));
        out.put(&families::DISK_WRITES, &labels, disk.writes.count);
        out.put(&families::DISK_WRITES_MERGED, &labels, disk.writes.merged);
        out.put(&families::DISK_WRITTEN_BYTES, &labels, bytes(disk.writes));
        out.put(&families::DISK_WRITE_SECONDS, &labels, ms(disk.writes.ms));
        out.put(&families::DISK_NOW, &labels, disk.in_flight);
        out.put(&families::DISK_BUSY_SECONDS, &labels, ms(disk.busy_ms));
        out.put(&families::DISK_WEIGHTED_SECONDS, &labels, ms(disk.weighted_ms));
        if let Some(discards) = disk.discards {
            out.put(&families::DISK_DISCARDS, &labels, discards.count);
            out.put(&families::DISK_DISCARDS_MERGED, &labels, discards.merged);
            out.put(&families::DISK_DISCARDED_SECTORS, &labels, discards.sectors);
            out.put(&families::DISK_DISCARD_SECONDS, &labels, ms(discards.ms));
        }
        out.put(&families::DISK_FLUSHES, &labels, disk.flushes.map(|flushes| flushes.0));
        out.put(&families::DISK_FLUSH_SECONDS, &labels, disk.flushes.map(|flushes| ms(flushes.1)));
    }
}

/// The processes that moved most since they started.
pub(super) fn processes(out: &mut Exposition, all: &[ProcessIo], count: usize) {
    let mut most: Vec<&ProcessIo> = all.iter().collect();
    let moved = |process: &ProcessIo| process.disk_read.saturating_add(process.disk_write);
    most.sort_by_key(|process| (std::cmp::Reverse(moved(process)), process.pid));
    let told = most.iter().take(count).filter(|process| moved(process) > 0);
    for process in told {
        let pid = process.pid.to_string();
        let labels = [("pid", pid.as_str()), ("name", process.name.as_str())];
        out.put(&families::PROCESS_READ, &labels, process.disk_read);
        out.put(&families::PROCESS_WRITTEN, &labels, process.disk_write);
    }
}

pub(super) fn spaces(out: &mut Exposition, spaces: &[Space]) {
    for space in spaces {
        let labels = [
            ("device", space.device.as_str()),
            ("fstype", space.kind.as_str()),
            ("mountpoint", space.path.as_str()),
        ];
        out.put(&families::SPACE_ERROR, &labels, space.sizes.is_none());
        out.put(&families::SPACE_READ_ONLY, &labels, space.read_only);
        let Some(sizes) = space.sizes else { continue };
        out.put(&families::SPACE_SIZE, &labels, sizes.size);
        out.put(&families::SPACE_FREE, &labels, sizes.size.saturating_sub(sizes.used));
        out.put(&families::SPACE_AVAILABLE, &labels, sizes.free);
        // Filesystems that make inodes as they are needed have no number of them.
        let inodes = (sizes.inodes > 0).then_some((sizes.inodes, sizes.inodes_free));
        out.put(&families::SPACE_INODES, &labels, inodes.map(|(all, _)| all));
        out.put(&families::SPACE_INODES_FREE, &labels, inodes.map(|(_, free)| free));
    }
}
