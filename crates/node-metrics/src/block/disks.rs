//! `/proc/diskstats`, and every figure of `iostat -x` from two readings of it.
//!
//! Fields: <https://docs.kernel.org/admin-guide/iostats.html>; formulas: sysstat's manual page of
//! iostat. Where sysstat prints 0 for a mean over nothing, there is none here.

use std::path::Path;

use crate::counter::{Change, Pair, changes, per, per_second};
use crate::files::{ReadError, Skipped, read};

/// A sector, on every device.
pub const SECTOR_BYTES: u64 = 512;

/// One kind of request to a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Finished.
    pub count: u64,
    /// Merged into others before that.
    pub merged: u64,
    /// Sectors of 512 bytes.
    pub sectors: u64,
    /// Milliseconds that they took together.
    pub ms: u64,
}

/// One disk or partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// `major:minor`.
    pub number: String,
    /// Its name.
    pub name: String,
    /// Whether it is a part of another.
    pub partition: bool,
    /// Reads.
    pub reads: Requests,
    /// Writes.
    pub writes: Requests,
    /// Requests under way now; `None` where the kernel says less than none.
    pub in_flight: Option<u64>,
    /// Milliseconds in which at least one request was under way.
    pub busy_ms: u64,
    /// Milliseconds, each times the requests under way in it.
    pub weighted_ms: u64,
    /// Discards, since Linux 4.18.
    pub discards: Option<Requests>,
    /// Flushes and the milliseconds they took; newer kernels, whole disks.
    pub flushes: Option<(u64, u64)>,
}

/// Every disk and partition but loop and RAM disks.
///
/// # Errors
/// The file cannot be read.
pub fn disks(root: &Path, skipped: &mut Skipped) -> Result<Vec<Disk>, ReadError> {
    let text = read(root, "proc/diskstats")?;
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match disk(line) {
            Some(mut disk) => {
                if disk.name.starts_with("loop") || disk.name.starts_with("ram") {
                    continue;
                }
                // A whole disk has a directory of its own; what has none is a part, as far as the
                // tree has such directories at all.
                let blocks = root.join("sys/block");
                disk.partition =
                    blocks.is_dir() && !blocks.join(disk.name.replace('/', "!")).exists();
                found.push(disk);
            }
            // Partitions of kernels before 2.6.25 have four numbers that mean something else.
            None if line.split_ascii_whitespace().count() == 7 => {}
            None => skipped.note(line),
        }
    }
    Ok(found)
}

fn disk(line: &str) -> Option<Disk> {
    let mut words = line.split_ascii_whitespace();
    let number = format!("{}:{}", words.next()?, words.next()?);
    let name = words.next()?.to_owned();
    let fields: Vec<&str> = words.collect();
    let at = |index: usize| fields.get(index).and_then(|word| word.parse::<u64>().ok());
    let requests = |from: usize| {
        Some(Requests {
            count: at(from)?,
            merged: at(from + 1)?,
            sectors: at(from + 2)?,
            ms: at(from + 3)?,
        })
    };
    Some(Disk {
        number,
        name,
        partition: false,
        reads: requests(0)?,
        writes: requests(4)?,
        in_flight: at(8),
        busy_ms: at(9)?,
        weighted_ms: at(10)?,
        discards: requests(11),
        flushes: at(15).zip(at(16)),
    })
}

/// The columns of `iostat -x`; kB are 1024 bytes, waits are milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// r/s, rkB/s, rrqm/s, %rrqm, r_await, rareq-sz.
    pub read: KindRates,
    /// w/s, wkB/s, wrqm/s, %wrqm, w_await, wareq-sz.
    pub write: KindRates,
    /// d/s, dkB/s, drqm/s, %drqm, d_await, dareq-sz.
    pub discard: KindRates,
    /// f/s.
    pub flushes: Option<f64>,
    /// f_await.
    pub flush_ms: Option<f64>,
    /// await, over reads, writes and discards.
    pub wait_ms: Option<f64>,
    /// aqu-sz.
    pub queue: Option<f64>,
    /// %util, at most 100.
    pub busy_percent: Option<f64>,
}

/// The columns about one kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KindRates {
    /// Requests a second.
    pub requests: Option<f64>,
    /// kB a second.
    pub kb: Option<f64>,
    /// Merges a second.
    pub merges: Option<f64>,
    /// Of all requests so many per cent were merged.
    pub merged_percent: Option<f64>,
    /// Mean wait.
    pub wait_ms: Option<f64>,
    /// Mean size in kB.
    pub size_kb: Option<f64>,
}

/// What one disk did between two readings so many seconds apart.
pub fn rates(before: &Disk, after: &Disk, seconds: f64) -> Rates {
    if (&before.number, &before.name) != (&after.number, &after.name) {
        return Rates::default();
    }
    let empty = (Requests::default(), Requests::default());
    let discards = before.discards.zip(after.discards).unwrap_or(empty);
    let wide = |old: u64, new: u64| Pair::wide(old, new);
    let narrow = |old: u64, new: u64| Pair::narrow(old, new);
    let kind = |(old, new): (Requests, Requests)| {
        [
            wide(old.count, new.count),
            wide(old.merged, new.merged),
            wide(old.sectors, new.sectors),
            narrow(old.ms, new.ms),
        ]
    };
    let [r0, r1, r2, r3] = kind((before.reads, after.reads));
    let [w0, w1, w2, w3] = kind((before.writes, after.writes));
    let [d0, d1, d2, d3] = kind(discards);
    let flush =
        |which: fn((u64, u64)) -> u64| (before.flushes.map(which), after.flushes.map(which));
    let ((f0, f1), (g0, g1)) = (flush(|f| f.0), flush(|f| f.1));
    let all = changes([
        r0,
        r1,
        r2,
        r3,
        w0,
        w1,
        w2,
        w3,
        d0,
        d1,
        d2,
        d3,
        Pair::wide(f0, f1),
        Pair::narrow(g0, g1),
        narrow(before.busy_ms, after.busy_ms),
        narrow(before.weighted_ms, after.weighted_ms),
    ]);
    let known = after.discards.is_some() && before.discards.is_some();
    let counts = all.map(Change::count);
    let sum = |one: usize, two: usize, three: usize| {
        Some(counts[one]? + counts[two]? + if known { counts[three]? } else { 0 })
    };
    Rates {
        read: kind_rates(&counts[0..4], seconds),
        write: kind_rates(&counts[4..8], seconds),
        discard: if known { kind_rates(&counts[8..12], seconds) } else { KindRates::default() },
        flushes: per_second(counts[12], seconds),
        flush_ms: per(counts[13], counts[12]),
        wait_ms: per(sum(3, 7, 11), sum(0, 4, 8)),
        queue: per_second(counts[15], seconds).map(|ms| ms / 1000.0),
        busy_percent: per_second(counts[14], seconds).map(|ms| (ms / 10.0).min(100.0)),
    }
}

fn kind_rates(counts: &[Option<u64>], seconds: f64) -> KindRates {
    let &[requests, merged, sectors, ms] = counts else { return KindRates::default() };
    let asked = requests.zip(merged).map(|(requests, merged)| requests + merged);
    KindRates {
        requests: per_second(requests, seconds),
        kb: per_second(sectors, seconds).map(|sectors| sectors / 2.0),
        merges: per_second(merged, seconds),
        merged_percent: per(merged, asked).map(|share| share * 100.0),
        wait_ms: per(ms, requests),
        size_kb: per(sectors, requests).map(|sectors| sectors / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::{Rates, disks, rates};
    use crate::files::Skipped;
    use crate::test_tree::tree;

    const BEFORE: &str = " 259       0 nvme0n1 500000 1200 64000000 900000 200000 800 25600000 600000 0 700000 1500000 0 0 0 0 1000 500";
    const AFTER: &str = " 259       0 nvme0n1 540000 1200 64320000 912000 200500 800 25664000 601000 1 707600 1513050 0 0 0 0 1020 510";

    fn of(before: &str, after: &str) -> Rates {
        let one = |line: &str| super::disk(line).expect("disk");
        rates(&one(before), &one(after), 10.0)
    }

    fn is(value: Option<f64>, wanted: f64) {
        let value = value.expect("a value");
        assert!((value - wanted).abs() < 1e-9, "{value} is not {wanted}");
    }

    #[test]
    fn the_figures_are_those_of_iostat() {
        let found = of(BEFORE, AFTER);
        is(found.read.requests, 4_000.0);
        is(found.read.kb, 16_000.0);
        is(found.read.size_kb, 4.0);
        is(found.read.wait_ms, 0.3);
        is(found.read.merged_percent, 0.0);
        is(found.write.requests, 50.0);
        is(found.write.kb, 3_200.0);
        is(found.write.wait_ms, 2.0);
        is(found.flushes, 2.0);
        is(found.flush_ms, 0.5);
        is(found.queue, 1.305);
        is(found.busy_percent, 76.0);
        is(found.wait_ms, 13_000.0 / 40_500.0);
        // Nothing was discarded: there is no mean wait of that.
        is(found.discard.requests, 0.0);
        assert_eq!((found.discard.wait_ms, found.discard.size_kb), (None, None));
    }

    #[test]
    fn milliseconds_pass_their_largest_number_and_a_new_disk_begins_anew() {
        let nearly = BEFORE.replace("700000 1500000", "4294960000 1500000");
        let past = AFTER.replace("707600 1513050", "304 1513050");
        is(of(&nearly, &past).busy_percent, 76.0);
        assert_eq!(of(AFTER, BEFORE), Rates { ..Rates::default() });
        let other = AFTER.replace("259       0", "259       3");
        assert_eq!(of(BEFORE, &other), Rates::default());
    }

    #[test]
    fn short_lines_lack_values_and_bad_ones_are_left_out() {
        let root = tree(&format!(
            r"
            proc/diskstats: {AFTER}\n   8 0 sda 1 2 3 4 5 6 7 8 -1 10 11\n   8 1 sda1 1 2 3 4 5 6 7 8 0 10 11\n   8 2 sda2 5 6 7 8\n   7 0 loop0 1 2 3 4 5 6 7 8 9 10 11\n   8 16 sdb x 2 3\n
            sys/block/sda/size: 1
            sys/block/nvme0n1/size: 1
            "
        ));
        let mut skipped = Skipped::default();
        let found = disks(root.path(), &mut skipped).expect("disks");
        let names: Vec<(&str, bool)> =
            found.iter().map(|disk| (disk.name.as_str(), disk.partition)).collect();
        assert_eq!(names, [("nvme0n1", false), ("sda", false), ("sda1", true)]);
        let old = &found[1];
        assert_eq!((old.in_flight, old.discards, old.flushes), (None, None, None));
        assert_eq!(skipped.count, 1, "{skipped:?}");
    }
}
