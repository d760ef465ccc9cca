//! Lustre as its client sees it: `llite`, `mdc` and `osc` statistics.
//!
//! A line is `name count samples [unit]`, then, by unit and release, `min max sum sumsq`. Smallest
//! and largest are those since the mount, and are not told here. `llite` counts system calls, those
//! that the cache answers with them; `osc` and `mdc` count requests to servers.

use std::collections::BTreeMap;
use std::path::Path;

use super::Rates;
use crate::counter::{Change, Pair, changes, per, per_second};
use crate::files::{ReadError, Skipped, names, read};

/// Where the files lie: older releases, and newer ones for root alone.
pub(super) const PLACES: [&str; 2] = ["proc/fs/lustre", "sys/kernel/debug/lustre"];

/// The operations of metadata, of which a metadata rate is the sum.
pub const METADATA: [&str; 12] = [
    "open", "close", "getattr", "setattr", "statfs", "mkdir", "mknod", "unlink", "rmdir", "rename",
    "readdir", "getxattr",
];

/// One operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// How often.
    pub count: u64,
    /// What `sum` is in: `bytes`, `usecs`, `pages`, `reqs` …
    pub unit: String,
    /// The sum over all, where this release tells it.
    pub sum: Option<u64>,
}

/// What a client did on one mount, or with one server through it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientStats {
    /// `llite`, `mdc` or `osc`.
    pub layer: String,
    /// The filesystem's name.
    pub filesystem: String,
    /// The server's part (`OST0003`), for `mdc` and `osc`.
    pub target: Option<String>,
    /// Which mount: different on each node and for each mount.
    pub instance: String,
    /// Its own time in nanoseconds since 1970.
    pub at_ns: Option<u64>,
    /// What was done, by name.
    pub operations: BTreeMap<String, Operation>,
}

impl ClientStats {
    fn count(&self, name: &str) -> Option<u64> {
        Some(self.operations.get(name)?.count)
    }

    /// The sum of an operation that is told in this unit.
    pub fn sum(&self, name: &str, unit: &str) -> Option<u64> {
        let operation = self.operations.get(name)?;
        (operation.unit == unit).then_some(operation.sum)?
    }
}

/// Everything that clients of Lustre on this machine did.
///
/// # Errors
/// No Lustre is mounted, or its files may not be read.
pub fn clients(root: &Path, skipped: &mut Skipped) -> Result<Vec<ClientStats>, ReadError> {
    let mut found = Vec::new();
    let mut refused = None;
    for place in PLACES {
        for (layer, file) in [("llite", "stats"), ("mdc", "md_stats"), ("osc", "stats")] {
            for name in names(root, &format!("{place}/{layer}")) {
                match read(root, &format!("{place}/{layer}/{name}/{file}")) {
                    Ok(text) => found.extend(named(layer, &name, &text, skipped)),
                    Err(ReadError::Absent(_)) => {}
                    Err(why) => refused = Some(why),
                }
            }
        }
    }
    match (found.is_empty(), refused) {
        (true, Some(why)) => Err(why),
        (true, None) => Err(ReadError::Absent(PLACES[0].to_owned())),
        // The same mount may be told in both places.
        (false, _) => {
            let key = |one: &ClientStats| {
                (
                    one.layer.clone(),
                    one.filesystem.clone(),
                    one.target.clone(),
                    one.instance.clone(),
                )
            };
            found.sort_by_key(key);
            found.dedup_by_key(|one| key(one));
            Ok(found)
        }
    }
}

/// `work-ffff9a3b`, or `work-OST0003-osc-ffff9a3b`.
fn named(layer: &str, name: &str, text: &str, skipped: &mut Skipped) -> Option<ClientStats> {
    let (rest, instance) = name.rsplit_once('-')?;
    let (filesystem, target) = match rest.strip_suffix(&format!("-{layer}")) {
        Some(rest) => rest.rsplit_once('-').map(|(fs, target)| (fs, Some(target.to_owned())))?,
        None if layer == "llite" => (rest, None),
        None => return None,
    };
    let (at_ns, operations) = statistics(text, skipped);
    Some(ClientStats {
        layer: layer.to_owned(),
        filesystem: filesystem.to_owned(),
        target,
        instance: instance.to_owned(),
        at_ns,
        operations,
    })
}

/// The lines of a `stats` file.
fn statistics(text: &str, skipped: &mut Skipped) -> (Option<u64>, BTreeMap<String, Operation>) {
    let mut at_ns = None;
    let mut operations = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(rest) = line.strip_prefix("snapshot_time") {
            at_ns = instant(rest);
            continue;
        }
        // The header that `lctl` prints, and times of newer releases.
        if line.ends_with('=') || line.starts_with("start_time") || line.starts_with("elapsed_time")
        {
            continue;
        }
        match operation(line) {
            Some((name, operation)) => {
                operations.insert(name, operation);
            }
            None => skipped.note(line),
        }
    }
    (at_ns, operations)
}

/// `1790000000.500000000 secs.nsecs`; older releases have six digits.
pub(super) fn instant(text: &str) -> Option<u64> {
    let word = text.trim_start_matches(':').split_ascii_whitespace().next()?;
    let (seconds, fraction) = word.split_once('.')?;
    let padded = format!("{fraction:0<9}");
    let nanoseconds: u64 = padded.get(..9)?.parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

fn operation(line: &str) -> Option<(String, Operation)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (name, count) = (*words.first()?, words.get(1)?.parse().ok()?);
    let unit = words.get(3)?.strip_prefix('[')?.strip_suffix(']')?;
    if words.get(2) != Some(&"samples") {
        return None;
    }
    let sum = words.get(6).and_then(|word| word.parse().ok());
    Some((name.to_owned(), Operation { count, unit: unit.to_owned(), sum }))
}

/// What one mount did between two readings; by Lustre's own time where it is told, else over so
/// many seconds.
pub fn rates(before: &ClientStats, after: &ClientStats, seconds: f64) -> Rates {
    if (&before.instance, &before.filesystem) != (&after.instance, &after.filesystem) {
        return Rates::default();
    }
    let own = before.at_ns.zip(after.at_ns).and_then(|(from, to)| to.checked_sub(from));
    let seconds = own.map_or(seconds, |ns| ns as f64 / 1e9);
    // What had no line was never done on this mount before.
    let pair = |name: &str| {
        let after = after.count(name);
        Pair::wide(after.and(before.count(name).or(Some(0))), after)
    };
    let sum = |name: &str, unit: &str| {
        let after = after.sum(name, unit);
        Pair::wide(after.and(before.sum(name, unit).or(Some(0))), after)
    };
    let [reads, read_bytes, _, written] = changes([
        pair("read_bytes"),
        sum("read_bytes", "bytes"),
        pair("write_bytes"),
        sum("write_bytes", "bytes"),
    ])
    .map(Change::count);
    let metadata = METADATA.iter().try_fold(0, |total, name| match changes([pair(name)])[0] {
        Change::By(count) => Some(total + count),
        Change::Absent => Some(total),
        Change::Reset | Change::First => None,
    });
    Rates {
        reads: per_second(reads, seconds),
        read_bytes: per_second(read_bytes, seconds),
        read_size: per(read_bytes, reads),
        written_bytes: per_second(written, seconds),
        metadata: per_second(metadata, seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientStats, clients, named, rates};
    use crate::files::Skipped;
    use crate::test_tree::tree;

    fn of(text: &str) -> (ClientStats, Skipped) {
        let mut skipped = Skipped::default();
        (named("llite", "work-ffff9a3b00000000", text, &mut skipped).expect("a mount"), skipped)
    }

    #[test]
    fn small_files_show_in_the_figures() {
        let (before, _) = of("llite.work-ffff9a3b00000000.stats=\n\
             snapshot_time             1790000000.500000000 secs.nsecs\n\
             read_bytes                120000 samples [bytes] 512 1048576 983040000\n\
             open                      118000 samples [usecs] 20 90000 41300000 90000000000\n");
        let (after, _) = of("snapshot_time             1790000060.500000000 secs.nsecs\n\
             read_bytes                300000 samples [bytes] 512 1048576 2457600000\n\
             open                      295000 samples [usecs] 20 90000 112100000 90000000000\n");
        // The clock of the file counts, not that of the reader.
        let found = rates(&before, &after, 61.0);
        assert_eq!((found.reads, found.read_size), (Some(3_000.0), Some(8_192.0)));
        assert_eq!(found.read_bytes, Some(24_576_000.0));
        assert_eq!((found.metadata, found.written_bytes), (Some(2_950.0), None));
        // Cleared in between.
        assert_eq!(rates(&after, &before, 60.0).reads, None);
    }

    #[test]
    fn m12_names_are_matched_whole() {
        let (found, skipped) = of("readdir 12 samples [usecs] 1 2 3 4\n\
             read_bytes 5 samples [bytes] 4096 4096 20480\n\
             read 5 samples [usecs] 3 9 30\n\
             future 7 samples [furlongs] 1 2 3\n\
             bad line\n");
        assert_eq!(found.sum("read_bytes", "bytes"), Some(20_480));
        assert_eq!((found.operations["read"].count, found.sum("read", "usecs")), (5, Some(30)));
        assert_eq!((found.operations["future"].count, skipped.count), (7, 1));
        assert_eq!(found.sum("future", "bytes"), None);
    }

    #[test]
    fn both_places_and_layers_are_read_once() {
        let line = "open 1 samples [usecs] 1 1 1 1";
        let root = tree(&format!(
            "proc/fs/lustre/llite/work-ffff1/stats: {line}\n\
             sys/kernel/debug/lustre/llite/work-ffff1/stats: {line}\n\
             sys/kernel/debug/lustre/llite/work-ffff2/stats: {line}\n\
             sys/kernel/debug/lustre/osc/my-work-OST0003-osc-ffff1/stats: {line}\n\
             sys/kernel/debug/lustre/osc/num_refs/stats: x",
        ));
        let found = clients(root.path(), &mut Skipped::default()).expect("clients");
        let keys: Vec<(&str, &str, Option<&str>, &str)> = found
            .iter()
            .map(|c| {
                (c.layer.as_str(), c.filesystem.as_str(), c.target.as_deref(), c.instance.as_str())
            })
            .collect();
        assert_eq!(
            keys,
            [
                ("llite", "work", None, "ffff1"),
                ("llite", "work", None, "ffff2"),
                ("osc", "my-work", Some("OST0003"), "ffff1"),
            ]
        );
        assert!(clients("/nowhere".as_ref(), &mut Skipped::default()).is_err());
    }
}
