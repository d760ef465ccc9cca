//! What a machine did between two looks at it.

use std::sync::Arc;

use super::{Figure, Values};
use crate::block::disks::{self, Disk};
use crate::collector::Part;
use crate::counter::Width;
use crate::gpu::state::GpuState;
use crate::host::pressure::{Pressure, Pressures};
use crate::host::stat::{MODES, Stat};
use crate::network::infiniband::{self, Port};
use crate::network::interfaces::{self, Interface};

/// Disks that are made of others: what they carry, those carry too.
const MADE_OF_OTHERS: [&str; 3] = ["dm-", "md", "zram"];

/// The earlier part of a kind.
macro_rules! earlier {
    ($before:expr, $part:ident) => {
        $before.iter().find_map(|part| match &**part {
            Part::$part(found) => Some(found),
            _ => None,
        })
    };
}

/// The figures of the time between two snapshots' parts, so many seconds apart.
pub fn between(before: &[Arc<Part>], now: &[Arc<Part>], seconds: f64) -> Values {
    let mut values = Values::default();
    for part in now {
        match &**part {
            Part::Stat(now) => {
                values.set(Figure::Cpu, earlier!(before, Stat).and_then(|was| busy(was, now)));
            }
            Part::Load(load) => values.set(Figure::Load, Some(load.one)),
            Part::Memory(memory) => {
                let free = memory.bytes("MemAvailable").map(|bytes| bytes as f64);
                values.set(Figure::MemoryFree, free);
            }
            Part::Pressure(now) => {
                if let Some(was) = earlier!(before, Pressure) {
                    waiting(&mut values, was, now, seconds);
                }
            }
            Part::Disks(now) => {
                let was = earlier!(before, Disks).map_or(&[][..], Vec::as_slice);
                disks_did(&mut values, was, now, seconds);
            }
            Part::Gpus(gpus) => gpus_do(&mut values, gpus),
            _ => {}
        }
    }
    network(&mut values, before, now, seconds);
    values
}

/// The share of all CPUs' time that was neither idle nor a wait for I/O.
fn busy(before: &Stat, now: &Stat) -> Option<f64> {
    let rests = |mode: &str| matches!(mode, "idle" | "iowait");
    let (mut worked, mut all) = (0, 0);
    for cpu in &now.cpus {
        let Some(was) = before.cpus.iter().find(|was| was.cpu == cpu.cpu) else { continue };
        for ((mode, now), was) in MODES.iter().zip(&cpu.ticks).zip(&was.ticks) {
            // The kernel takes back some of a wait for I/O now and then.
            let spent = now.saturating_sub(*was);
            all += spent;
            worked += if rests(mode) { 0 } else { spent };
        }
    }
    (all > 0).then(|| worked as f64 / all as f64)
}

fn waiting(values: &mut Values, before: &Pressures, now: &Pressures, seconds: f64) {
    let total = |pressure: Option<Pressure>| Some(pressure?.some?.total_us);
    let share = |before: Option<Pressure>, now: Option<Pressure>| {
        let waited = total(now)?.checked_sub(total(before)?)?;
        (seconds > 0.0).then(|| (waited as f64 / 1e6 / seconds).min(1.0))
    };
    values.set(Figure::CpuWaiting, share(before.cpu, now.cpu));
    values.set(Figure::MemoryWaiting, share(before.memory, now.memory));
    values.set(Figure::IoWaiting, share(before.io, now.io));
}

fn disks_did(values: &mut Values, before: &[Disk], now: &[Disk], seconds: f64) {
    let counted = now.iter().filter(|disk| {
        !disk.partition && !MADE_OF_OTHERS.iter().any(|prefix| disk.name.starts_with(prefix))
    });
    let rates: Vec<disks::Rates> = counted
        .filter_map(|now| {
            let was = before.iter().find(|was| was.number == now.number)?;
            Some(disks::rates(was, now, seconds))
        })
        .collect();
    let sum = |of: fn(&disks::Rates) -> Option<f64>| rates.iter().filter_map(of).reduce(add);
    values.set(Figure::Read, sum(|rates| Some(rates.read.kb? * 1024.0)));
    values.set(Figure::Written, sum(|rates| Some(rates.write.kb? * 1024.0)));
    values.set(Figure::Reads, sum(|rates| rates.read.requests));
    let busiest = rates.iter().filter_map(|rates| rates.busy_percent).reduce(f64::max);
    values.set(Figure::DiskBusy, busiest.map(|percent| percent / 100.0));
}

fn gpus_do(values: &mut Values, gpus: &[GpuState]) {
    let busy: Vec<f64> = gpus.iter().filter_map(|gpu| gpu.busy).collect();
    let mean = (!busy.is_empty()).then(|| busy.iter().sum::<f64>() / busy.len() as f64);
    values.set(Figure::Gpu, mean);
    let memory = gpus.iter().filter_map(|gpu| gpu.memory_used.zip(gpu.memory_total));
    let (used, all) = memory.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    values.set(Figure::GpuMemory, (all > 0).then(|| used as f64 / all as f64));
    values.set(Figure::GpuPower, gpus.iter().filter_map(|gpu| gpu.power).reduce(add));
}

/// Interfaces with a card behind them, and what ports of InfiniBand and RoCE carry beside them.
fn network(values: &mut Values, before: &[Arc<Part>], now: &[Arc<Part>], seconds: f64) {
    let mut carried: Vec<(Option<f64>, Option<f64>)> = Vec::new();
    if let (Some(was), Some(now)) = (earlier!(before, Interfaces), earlier!(now, Interfaces)) {
        let cards = now.iter().filter(|one: &&Interface| one.device);
        carried.extend(cards.filter_map(|now| {
            let was = was.iter().find(|was| was.name == now.name)?;
            let rates = interfaces::rates(was, now, Width::Bits64, seconds);
            Some((rates.rx_bytes, rates.tx_bytes))
        }));
    }
    if let (Some(was), Some(now)) = (earlier!(before, Ports), earlier!(now, Ports)) {
        carried.extend(now.iter().filter_map(|now: &Port| {
            let is_it = |was: &&Port| (&was.device, was.port) == (&now.device, now.port);
            let (sent, received) = infiniband::rates(was.iter().find(is_it)?, now, seconds);
            Some((received, sent))
        }));
    }
    values.set(Figure::Received, carried.iter().filter_map(|one| one.0).reduce(add));
    values.set(Figure::Sent, carried.iter().filter_map(|one| one.1).reduce(add));
}

fn add(one: f64, other: f64) -> f64 {
    one + other
}

#[cfg(test)]
mod tests {
    use super::between;
    use crate::collector::{Collector, Options, Snapshot};
    use crate::past::{Figure, Values};
    use crate::test_tree::{add, tree};
    use std::path::Path;

    fn snapshot(root: &Path) -> Snapshot {
        Collector::new(&Options { root: root.to_owned(), ..Options::default() }).collect()
    }

    #[test]
    fn two_looks_make_figures_and_one_makes_no_rate() {
        let root = tree(
            r"proc/stat: cpu0 100 0 100 700 100 0 0 0\ncpu1 0 0 0 1000 0 0 0 0\n
            proc/loadavg: 1.5 2 3 4/5 6
            proc/meminfo: MemTotal: 2048 kB\nMemAvailable: 1024 kB\n
            proc/pressure/io: some avg10=0 avg60=0 avg300=0 total=1000000\n
            proc/diskstats: 8 0 sda 10 0 80 5 0 0 0 0 0 0 0\n253 0 dm-0 10 0 80 5 0 0 0 0 0 0 0\n
            sys/class/net/eth0/device/vendor: x
            sys/class/net/eth0/statistics/rx_bytes: 1000
            sys/class/net/eth0/statistics/tx_bytes: 0
            sys/class/net/br0/statistics/rx_bytes: 1000",
        );
        let first = snapshot(root.path());
        let once = between(&[], &first.parts, 0.0);
        let known: Vec<Figure> = once.known().map(|(figure, _)| figure).collect();
        assert_eq!(known, [Figure::Load, Figure::MemoryFree]);
        add(
            root.path(),
            r"proc/stat: cpu0 150 0 100 750 200 0 0 0\ncpu1 100 0 0 1100 0 0 0 0\n
            proc/pressure/io: some avg10=0 avg60=0 avg300=0 total=6000000\n
            proc/diskstats: 8 0 sda 30 0 240 9 0 0 0 0 0 4000 0\n253 0 dm-0 30 0 240 9 0 0 0 0 0 9000 0\n
            sys/class/net/eth0/statistics/rx_bytes: 51000
            sys/class/net/br0/statistics/rx_bytes: 99000",
        );
        let second = snapshot(root.path());
        let values = between(&first.parts, &second.parts, 10.0);
        let wanted = [
            // 50 and 100 of 200 ticks each: iowait and idle are no work.
            (Figure::Cpu, 0.375),
            (Figure::IoWaiting, 0.5),
            (Figure::Load, 1.5),
            (Figure::MemoryFree, 1_048_576.0),
            (Figure::Read, 160.0 * 512.0 / 10.0),
            (Figure::Written, 0.0),
            (Figure::Reads, 2.0),
            (Figure::DiskBusy, 0.4),
            (Figure::Received, 5_000.0),
            (Figure::Sent, 0.0),
        ];
        assert_eq!(values.known().collect::<Vec<_>>(), wanted);
        // A machine that began anew between them.
        let back = between(&second.parts, &first.parts, 10.0);
        assert_eq!(back.get(Figure::Read), None);
        assert_eq!(back.get(Figure::Received), None);
        assert_eq!(back.get(Figure::IoWaiting), None);
        assert_eq!(between(&[], &[], 1.0), Values::default());
    }
}
