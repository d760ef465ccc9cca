//! What this machine and every node did, for months and in bounded space: by the minute for a day,
//! by ten minutes for eight days, by the hour for a hundred.
//!
//! Files are only ever appended to, and each is of one stretch of time; one that is old goes whole.
//! A coarser file is made from the finer one, so that a restart loses nothing but the minute that it
//! was in. What a crash cut is left out when the file is opened again.

mod keep;
mod record;

pub(crate) use keep::keep;
pub(super) use record::Stretch;

use muster_node_metrics::past::{Layout, Point, Values, stretches};
use record::{Names, encode};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The name under which the daemon's machine itself is kept; no node has it.
pub(super) const MACHINE: &str = "";

/// Machines and nodes that are kept; others of very many are not.
const SUBJECTS_MAX: usize = 20_000;

/// All files together are no larger; the oldest of the finest go first.
const BYTES_MAX: u64 = 1 << 30;

/// How fine, how much in one file, and how long: seconds.
struct Tier {
    name: &'static str,
    step_s: i64,
    file_s: i64,
    keep_s: i64,
}

const HOUR_S: i64 = 3_600;
const DAY_S: i64 = 86_400;

const TIERS: [Tier; 3] = [
    Tier { name: "minutes", step_s: 60, file_s: 2 * HOUR_S, keep_s: DAY_S },
    Tier { name: "tens", step_s: 600, file_s: DAY_S, keep_s: 8 * DAY_S },
    Tier { name: "hours", step_s: HOUR_S, file_s: 10 * DAY_S, keep_s: 100 * DAY_S },
];

/// The file that is written to.
struct Open {
    begin_s: i64,
    file: File,
    bytes: u64,
    names: Names,
    last_end_s: i64,
}

/// What is being written.
#[derive(Default)]
struct Writing {
    open: [Option<Open>; TIERS.len()],
    /// Up to where each tier was made from the finer one.
    made_s: [Option<i64>; TIERS.len()],
}

/// The history.
pub(crate) struct History {
    dir: PathBuf,
    writing: Mutex<Writing>,
}

/// One of its files.
struct Segment {
    tier: usize,
    begin_s: i64,
    path: PathBuf,
    bytes: u64,
}

impl History {
    /// In this folder, which need not be there.
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, writing: Mutex::default() }
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what was done in a stretch, and makes the coarser ones that it completes.
    ///
    /// # Errors
    /// It cannot be written; what is there stays whole.
    pub(super) fn note(&self, stretch: Stretch, did: &[(String, Values)]) -> io::Result<()> {
        let did = &did[..did.len().min(SUBJECTS_MAX)];
        let mut writing = self.writing();
        self.append(&mut writing, 0, stretch, did)?;
        for tier in 1..TIERS.len() {
            if self.make(&mut writing, tier, stretch.end_s)? {
                self.prune(stretch.end_s, BYTES_MAX)?;
            }
        }
        Ok(())
    }

    fn append(
        &self,
        writing: &mut Writing,
        tier: usize,
        stretch: Stretch,
        did: &[(String, Values)],
    ) -> io::Result<()> {
        let begin_s = begin_of(tier, stretch.end_s);
        let slot = &mut writing.open[tier];
        if slot.as_ref().is_none_or(|open| open.begin_s != begin_s) {
            *slot = Some(self.open(tier, begin_s)?);
        }
        let Some(open) = slot.as_mut() else { return Ok(()) };
        // The clock went back: that time is told of already.
        if stretch.end_s <= open.last_end_s {
            return Ok(());
        }
        let record = encode(stretch, did, &mut open.names);
        if let Err(error) = open.file.write_all(&record) {
            // What was written of it would hide all that comes after it.
            let _ = open.file.set_len(open.bytes);
            *slot = None;
            return Err(error);
        }
        open.bytes += record.len() as u64;
        open.last_end_s = stretch.end_s;
        Ok(())
    }

    /// Opens a file to go on with it, without what a crash cut.
    fn open(&self, tier: usize, begin_s: i64) -> io::Result<Open> {
        std::fs::create_dir_all(&self.dir)?;
        let path = path(&self.dir, tier, begin_s);
        let file = OpenOptions::new().append(true).create(true).open(&path)?;
        let mut records = record::open(&path)?;
        let mut last_end_s = i64::MIN;
        while let Some((stretch, _)) = records.next() {
            last_end_s = last_end_s.max(stretch.end_s);
        }
        let bytes = records.good_bytes;
        file.set_len(bytes)?;
        Ok(Open { begin_s, file, bytes, names: records.names(), last_end_s })
    }

    /// Makes the stretches of a tier that are over from the finer one. True where there were any.
    fn make(&self, writing: &mut Writing, tier: usize, now_s: i64) -> io::Result<bool> {
        let step_s = TIERS[tier].step_s;
        let target = now_s.div_euclid(step_s) * step_s;
        let made = match writing.made_s[tier] {
            Some(made) if made <= target => made,
            // The clock went back.
            Some(_) => target - step_s,
            None => self.made_before(tier, now_s),
        };
        let mut end_s = made.max(target.saturating_sub(TIERS[tier - 1].keep_s)) + step_s;
        let mut any = false;
        while end_s <= target {
            let did = self.mean(tier - 1, end_s - step_s, end_s);
            if !did.is_empty() {
                let stretch = Stretch { end_s, seconds: step_s.unsigned_abs() as u32 };
                self.append(writing, tier, stretch, &did)?;
                any = true;
            }
            end_s += step_s;
        }
        writing.made_s[tier] = Some(target);
        Ok(any)
    }

    /// Up to where a tier was made by a daemon before this one.
    fn made_before(&self, tier: usize, now_s: i64) -> i64 {
        let mut last = i64::MIN;
        for segment in self.segments().iter().filter(|segment| segment.tier == tier) {
            let Ok(mut records) = record::open(&segment.path) else { continue };
            while let Some((stretch, _)) = records.next() {
                last = last.max(if stretch.end_s <= now_s { stretch.end_s } else { i64::MIN });
            }
        }
        last
    }

    /// The mean of what each did between two instants.
    fn mean(&self, tier: usize, from_s: i64, to_s: i64) -> Vec<(String, Values)> {
        let mut points: BTreeMap<String, Vec<Point>> = BTreeMap::new();
        self.records(tier, from_s, to_s, |stretch, records, at| {
            records.each(at, |name, values| {
                let points = match points.get_mut(name) {
                    Some(points) => points,
                    None => points.entry(name.to_owned()).or_default(),
                };
                points.push(stretch.point(&values));
            });
        });
        let step_ms = (to_s - from_s).unsigned_abs() * 1_000;
        let layout = Layout { from_ms: from_s * 1_000, step_ms, steps: 1 };
        let mean = |(name, points): (String, Vec<Point>)| {
            let values = stretches(&points, layout).pop().unwrap_or_default();
            (!values.is_empty()).then_some((name, values))
        };
        points.into_iter().filter_map(mean).collect()
    }

    /// Goes through the records of a tier that have a part in a time.
    fn records(
        &self,
        tier: usize,
        from_s: i64,
        to_s: i64,
        mut see: impl FnMut(Stretch, &record::Records<io::BufReader<File>>, usize),
    ) {
        for segment in self.segments() {
            let ends_s = segment.begin_s.saturating_add(TIERS[tier].file_s);
            if segment.tier != tier || segment.begin_s >= to_s || ends_s <= from_s {
                continue;
            }
            let Ok(mut records) = record::open(&segment.path) else { continue };
            while let Some((stretch, at)) = records.next() {
                let begin_s = stretch.end_s.saturating_sub(i64::from(stretch.seconds));
                if stretch.end_s > from_s && begin_s < to_s {
                    see(stretch, &records, at);
                }
            }
        }
    }

    /// What one of them did between two instants, as fine as it is asked for where that is kept.
    pub(super) fn points(&self, subject: &str, layout: Layout) -> Vec<Point> {
        let from_s = layout.from_ms.div_euclid(1_000);
        let span_s = (layout.step_ms / 1_000).saturating_mul(layout.steps as u64);
        let to_s = from_s.saturating_add_unsigned(span_s).saturating_add(1);
        let step_s = i64::try_from(layout.step_ms / 1_000).unwrap_or(i64::MAX);
        let wanted = TIERS.iter().rposition(|tier| tier.step_s <= step_s).unwrap_or(0);
        let mut found = self.of(wanted, subject, from_s, to_s);
        // The newest is not made yet, and the oldest not kept any more.
        for finer in (0..wanted).rev() {
            let newer_s = found.last().map_or(from_s, |point| point.end_ms / 1_000);
            found.extend(self.of(finer, subject, newer_s, to_s));
        }
        for coarser in wanted + 1..TIERS.len() {
            let older_s = found.first().map_or(to_s, |point| point.begin_ms() / 1_000);
            let mut older = self.of(coarser, subject, from_s, older_s);
            older.retain(|point| point.end_ms <= older_s * 1_000);
            older.append(&mut found);
            found = older;
        }
        found
    }

    /// In the order of time.
    fn of(&self, tier: usize, subject: &str, from_s: i64, to_s: i64) -> Vec<Point> {
        let mut found = Vec::new();
        if from_s < to_s {
            self.records(tier, from_s, to_s, |stretch, records, at| {
                found.extend(records.of(at, subject).map(|values| stretch.point(&values)));
            });
        }
        found.sort_by_key(|point: &Point| point.end_ms);
        found
    }

    /// All files, by their time.
    fn segments(&self) -> Vec<Segment> {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return Vec::new() };
        let mut found: Vec<Segment> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name().into_string().ok()?;
                let (tier, begin) = name.split_once('-')?;
                let tier = TIERS.iter().position(|known| known.name == tier)?;
                let begin_s: i64 = begin.parse().ok()?;
                let bytes = entry.metadata().ok()?.len();
                Some(Segment { tier, begin_s, path: entry.path(), bytes })
            })
            .collect();
        found.sort_by_key(|segment| segment.begin_s);
        found
    }

    /// Removes what is older than it is kept or from a future that a clock once told of, and then
    /// the oldest of the finest down to so many bytes.
    fn prune(&self, now_s: i64, bytes_max: u64) -> io::Result<()> {
        let (mut kept, mut bytes) = (Vec::new(), 0);
        for segment in self.segments() {
            let tier = &TIERS[segment.tier];
            let ended_s = segment.begin_s.saturating_add(tier.file_s).saturating_add(tier.keep_s);
            if ended_s <= now_s || segment.begin_s > now_s.saturating_add(DAY_S) {
                std::fs::remove_file(&segment.path)?;
                continue;
            }
            bytes += segment.bytes;
            let newest = segment.begin_s >= begin_of(segment.tier, now_s);
            if !newest {
                kept.push(segment);
            }
        }
        kept.sort_by_key(|segment| (segment.tier, segment.begin_s));
        for segment in kept {
            if bytes <= bytes_max {
                break;
            }
            std::fs::remove_file(&segment.path)?;
            bytes -= segment.bytes;
        }
        Ok(())
    }
}

/// When the file begins that a stretch with this end belongs into.
fn begin_of(tier: usize, end_s: i64) -> i64 {
    let file_s = TIERS[tier].file_s;
    (end_s - 1).div_euclid(file_s) * file_s
}

fn path(dir: &Path, tier: usize, begin_s: i64) -> PathBuf {
    dir.join(format!("{}-{begin_s}", TIERS[tier].name))
}

#[cfg(test)]
mod tests;
