//! What a job used in all, added up from sample to sample: what a window forgets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::sample::{Gpu, Sample};

/// What samples of one attempt add up to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    first: Option<f64>,
    last: Option<Sample>,
    sums: Sums,
}

/// What grows from sample to sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Sums {
    samples: u64,
    gpus: usize,
    busy: (f64, f64),
    memory: Option<f64>,
    read: Option<f64>,
    written: Option<f64>,
    joules: Option<f64>,
}

/// What a tally is made of, for one that goes on where it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Standing {
    #[serde(flatten)]
    sums: Sums,
    /// What the job's own counters said last.
    own_read: Option<f64>,
    own_written: Option<f64>,
}

/// The sums; what nobody could tell is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Seconds from the first sample to the last.
    pub seconds: f64,
    /// How many samples.
    pub samples: u64,
    /// The most GPUs that were seen.
    pub gpus: usize,
    /// GPU use, mean over GPUs and time, 0 to 1.
    pub gpu_busy: Option<f64>,
    /// The most of its memory that any GPU had in use, 0 to 1.
    pub gpu_memory: Option<f64>,
    /// Bytes read from disks and network filesystems.
    pub read_bytes: Option<f64>,
    /// Bytes written there.
    pub written_bytes: Option<f64>,
    /// Energy of its GPUs between first and last sample, joules.
    pub gpu_joules: Option<f64>,
}

impl Tally {
    /// What it is made of.
    pub fn standing(&self) -> Standing {
        let last = self.last.as_ref();
        Standing {
            sums: self.sums.clone(),
            own_read: last.and_then(|sample| sample.disk_read_bytes),
            own_written: last.and_then(|sample| sample.disk_written_bytes),
        }
    }

    /// One that goes on from there, where its first sample was taken at `first` and its next comes
    /// after `at`. Of the time between, a job's own counters tell; a machine's, and power, do not.
    pub fn resumed(standing: &Standing, first: f64, at: f64) -> Self {
        let last = Sample {
            at,
            disk_read_bytes: standing.own_read,
            disk_written_bytes: standing.own_written,
            ..Sample::default()
        };
        Self { first: Some(first), last: Some(last), sums: standing.sums.clone() }
    }

    /// Takes a sample, newer than all before it.
    pub fn add(&mut self, sample: &Sample) {
        self.first = self.first.or(Some(sample.at));
        let sums = &mut self.sums;
        sums.samples += 1;
        sums.gpus = sums.gpus.max(sample.gpus.len());
        for busy in sample.gpus.iter().filter_map(|gpu| gpu.busy) {
            sums.busy = (sums.busy.0 + busy, sums.busy.1 + 1.0);
        }
        let fullest = sample.gpus.iter().filter_map(|gpu| gpu.memory).reduce(f64::max);
        sums.memory = sums.memory.into_iter().chain(fullest).reduce(f64::max);
        // A job's own counters begin with it, those of a machine long before.
        let last = self.last.as_ref();
        let own = |of: fn(&Sample) -> Option<f64>| {
            grown(of(sample), Some(last.and_then(of).unwrap_or(0.0)))
        };
        let machine = |of: fn(&Sample) -> Option<f64>| grown(of(sample), last.and_then(of));
        let read = [
            own(|s| s.disk_read_bytes),
            machine(|s| s.machine_read_bytes),
            machine(|s| s.shared_read_bytes),
        ];
        let written = [
            own(|s| s.disk_written_bytes),
            machine(|s| s.machine_written_bytes),
            machine(|s| s.shared_written_bytes),
        ];
        let joules = last.map(|last| joules(last, sample));
        for more in read.into_iter().flatten() {
            *sums.read.get_or_insert(0.0) += more;
        }
        for more in written.into_iter().flatten() {
            *sums.written.get_or_insert(0.0) += more;
        }
        if let Some(more) = joules.flatten() {
            *sums.joules.get_or_insert(0.0) += more;
        }
        self.last = Some(sample.clone());
    }

    /// The sums so far.
    pub fn totals(&self) -> Totals {
        let (sums, last) = (&self.sums, self.last.as_ref().map(|sample| sample.at));
        Totals {
            seconds: last.zip(self.first).map_or(0.0, |(last, first)| last - first),
            samples: sums.samples,
            gpus: sums.gpus,
            gpu_busy: (sums.busy.1 > 0.0).then(|| sums.busy.0 / sums.busy.1),
            gpu_memory: sums.memory,
            read_bytes: sums.read,
            written_bytes: sums.written,
            gpu_joules: sums.joules,
        }
    }
}

/// How much a count grew; one that fell began anew, and counts from there.
fn grown(now: Option<f64>, before: Option<f64>) -> Option<f64> {
    let (now, before) = (now?, before?);
    Some(if now < before { now } else { now - before })
}

/// Energy between two samples: by the GPUs' own meters, else by power and time.
fn joules(before: &Sample, now: &Sample) -> Option<f64> {
    let seconds = now.at - before.at;
    let earlier: BTreeMap<&str, &Gpu> =
        before.gpus.iter().map(|gpu| (gpu.uuid.as_str(), gpu)).collect();
    let of = |gpu: &Gpu| {
        let then = earlier.get(gpu.uuid.as_str())?;
        let metered = gpu.joules.zip(then.joules).map(|(now, then)| now - then);
        let drawn = gpu.watts.zip(then.watts).map(|(now, then)| f64::midpoint(now, then) * seconds);
        // A meter that fell was set back by a reload of the driver.
        metered.filter(|joules| *joules >= 0.0).or(drawn)
    };
    now.gpus.iter().filter_map(of).reduce(|sum, more| sum + more)
}

#[cfg(test)]
mod tests {
    use super::Tally;
    use crate::sample::{Gpu, Sample};

    fn gpu(busy: f64, memory: f64, watts: f64, joules: Option<f64>) -> Gpu {
        let (busy, memory, watts) = (Some(busy), Some(memory), Some(watts));
        Gpu { uuid: "a".to_owned(), busy, memory, watts, joules, ..Gpu::default() }
    }

    fn sample(at: f64, disk: f64, shared: f64, gpu: Gpu) -> Sample {
        Sample {
            at,
            disk_read_bytes: Some(disk),
            shared_read_bytes: Some(shared),
            gpus: vec![gpu],
            ..Sample::default()
        }
    }

    #[test]
    fn one_that_is_resumed_counts_nothing_twice_and_nothing_of_others_in_between() {
        let mut tally = Tally::default();
        tally.add(&sample(0.0, 100.0, 5_000.0, gpu(0.5, 0.3, 100.0, Some(10.0))));
        tally.add(&sample(10.0, 300.0, 6_000.0, gpu(0.5, 0.6, 100.0, Some(30.0))));
        let whole = tally.totals();
        assert_eq!((whole.read_bytes, whole.gpu_joules), (Some(1_300.0), Some(20.0)));
        // The clock of the next daemon shows something else; it was away for 20 seconds.
        let mut next = Tally::resumed(&tally.standing(), 70.0, 100.0);
        assert_eq!(next.standing(), tally.standing());
        next.add(&sample(100.0, 450.0, 90_000.0, gpu(1.0, 0.1, 100.0, Some(90.0))));
        next.add(&sample(110.0, 450.0, 90_500.0, gpu(1.0, 0.1, 100.0, Some(95.0))));
        let found = next.totals();
        assert_eq!(found.read_bytes, Some(1_300.0 + 150.0 + 500.0));
        assert_eq!((found.gpu_joules, found.gpu_memory), (Some(25.0), Some(0.6)));
        assert_eq!((found.seconds, found.samples, found.gpu_busy), (40.0, 4, Some(0.75)));
    }

    #[test]
    fn own_counters_count_from_zero_and_a_machines_from_the_first_sample() {
        let mut tally = Tally::default();
        tally.add(&sample(100.0, 50.0, 1_000.0, gpu(0.2, 0.5, 100.0, Some(7_000.0))));
        tally.add(&sample(130.0, 80.0, 1_100.0, gpu(0.6, 0.9, 300.0, Some(13_500.0))));
        let totals = tally.totals();
        assert_eq!((totals.seconds, totals.samples, totals.gpus), (30.0, 2, 1));
        assert_eq!((totals.gpu_busy, totals.gpu_memory), (Some(0.4), Some(0.9)));
        // 80 of its own, 100 of the machine while it ran.
        assert_eq!((totals.read_bytes, totals.written_bytes), (Some(180.0), None));
        assert_eq!(totals.gpu_joules, Some(6_500.0));
    }

    #[test]
    fn a_count_that_fell_began_anew_and_a_meter_that_fell_gives_way_to_power() {
        let mut tally = Tally::default();
        tally.add(&sample(0.0, 50.0, 1_000.0, gpu(0.2, 0.5, 100.0, Some(7_000.0))));
        tally.add(&sample(10.0, 20.0, 30.0, gpu(0.2, 0.5, 300.0, Some(10.0))));
        assert_eq!(tally.totals().read_bytes, Some(50.0 + 20.0 + 30.0));
        // 200 W for 10 s.
        assert_eq!(tally.totals().gpu_joules, Some(2_000.0));
    }

    #[test]
    fn disks_of_the_machine_count_from_the_first_sample() {
        let at = |at: f64, read: f64| Sample {
            at,
            machine_read_bytes: Some(read),
            machine_written_bytes: Some(2.0 * read),
            ..Sample::default()
        };
        let mut tally = Tally::default();
        tally.add(&at(0.0, 9e12));
        tally.add(&at(5.0, 9e12 + 4_096.0));
        let totals = tally.totals();
        assert_eq!((totals.read_bytes, totals.written_bytes), (Some(4_096.0), Some(8_192.0)));
    }

    #[test]
    fn what_nobody_knows_is_not_zero() {
        let mut tally = Tally::default();
        assert_eq!((tally.totals().samples, tally.totals().read_bytes), (0, None));
        tally.add(&Sample::default());
        let totals = tally.totals();
        assert_eq!((totals.gpu_busy, totals.read_bytes, totals.gpu_joules), (None, None, None));
    }
}
