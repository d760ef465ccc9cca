//! Storage Scale (GPFS): what `mmpmon -s -p` answers to `fs_io_s`.
//!
//! The keywords are those of IBM's pages on mmpmon; bytes are 64 bits wide, everything else 32
//! ("Counter sizes and counter wrapping"). Counters vanish at the unmount.

use super::Rates;
use crate::counter::{Change, Pair, changes, per, per_second};
use crate::files::{ReadError, Skipped};

/// What this node did on one filesystem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filesystem {
    /// The cluster.
    pub cluster: String,
    /// The filesystem.
    pub name: String,
    /// When, in microseconds since 1970.
    pub at_us: Option<u64>,
    /// Bytes read, from the cache or not.
    pub read_bytes: Option<u64>,
    /// Bytes written.
    pub written_bytes: Option<u64>,
    /// Files opened or made.
    pub opens: Option<u64>,
    /// Files closed.
    pub closes: Option<u64>,
    /// Read requests of programs.
    pub reads: Option<u64>,
    /// Write requests of programs.
    pub writes: Option<u64>,
    /// Directory readings.
    pub directory_reads: Option<u64>,
    /// Updates of inodes.
    pub inode_updates: Option<u64>,
}

/// Every filesystem in an answer; none where none is mounted.
///
/// # Errors
/// The answer says that it failed.
pub fn parse(text: &str, skipped: &mut Skipped) -> Result<Vec<Filesystem>, ReadError> {
    let mut found: Vec<Filesystem> = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('_')) {
        let mut words = line.split_ascii_whitespace();
        if words.next() != Some("_fs_io_s_") {
            continue;
        }
        match filesystem(words) {
            // One is what it says where nothing is mounted.
            Some((Some(0), Some(filesystem))) => found.push(filesystem),
            Some((Some(1), _)) => {}
            Some((Some(status), _)) => {
                let what = format!("mmpmon answers with status {status}");
                return Err(ReadError::Failed("fs_io_s".to_owned(), what));
            }
            _ => skipped.note(line),
        }
    }
    Ok(found)
}

/// Status and filesystem, read strictly in pairs: a name may look like a keyword.
fn filesystem<'a>(
    mut words: impl Iterator<Item = &'a str>,
) -> Option<(Option<u64>, Option<Filesystem>)> {
    let mut found = Filesystem::default();
    let (mut status, mut seconds, mut named) = (None, None, false);
    while let Some(key) = words.next() {
        let value = words.next()?;
        let number = || value.parse::<u64>().ok();
        match key {
            "_rc_" => status = number(),
            "_t_" => seconds = number(),
            "_tu_" => {
                let whole = seconds.and_then(|seconds: u64| seconds.checked_mul(1_000_000));
                found.at_us = whole.zip(number()).and_then(|(whole, us)| whole.checked_add(us));
            }
            "_cl_" => value.clone_into(&mut found.cluster),
            "_fs_" => {
                named = true;
                value.clone_into(&mut found.name);
            }
            "_br_" => found.read_bytes = number(),
            "_bw_" => found.written_bytes = number(),
            "_oc_" => found.opens = number(),
            "_cc_" => found.closes = number(),
            "_rdc_" => found.reads = number(),
            "_wc_" => found.writes = number(),
            "_dir_" => found.directory_reads = number(),
            "_iu_" => found.inode_updates = number(),
            _ => {}
        }
    }
    Some((status, named.then_some(found)))
}

/// What happened between two answers, by their own clock; metadata are opens, closes, readings of
/// directories and updates of inodes.
pub fn rates(before: &Filesystem, after: &Filesystem) -> Rates {
    let same = (&before.cluster, &before.name) == (&after.cluster, &after.name);
    let passed = before.at_us.zip(after.at_us).and_then(|(from, to)| to.checked_sub(from));
    let (true, Some(us)) = (same, passed) else { return Rates::default() };
    let seconds = us as f64 / 1e6;
    let [read, written, opens, closes, reads, _, directories, inodes] = changes([
        Pair::wide(before.read_bytes, after.read_bytes),
        Pair::wide(before.written_bytes, after.written_bytes),
        Pair::narrow(before.opens, after.opens),
        Pair::narrow(before.closes, after.closes),
        Pair::narrow(before.reads, after.reads),
        Pair::narrow(before.writes, after.writes),
        Pair::narrow(before.directory_reads, after.directory_reads),
        Pair::narrow(before.inode_updates, after.inode_updates),
    ])
    .map(Change::count);
    let metadata = || Some(opens? + closes? + directories? + inodes?);
    Rates {
        read_bytes: per_second(read, seconds),
        written_bytes: per_second(written, seconds),
        reads: per_second(reads, seconds),
        read_size: per(read, reads),
        metadata: per_second(metadata(), seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::{Rates, parse, rates};
    use crate::files::Skipped;

    const BEFORE: &str = "_fs_io_s_ _n_ 10.1.2.3 _nn_ node7 _rc_ 0 _t_ 1790000000 _tu_ 250000 _cl_ hpc.example _fs_ work _d_ 24 _br_ 8000000000 _bw_ 1000000 _oc_ 4294960000 _cc_ 4294959990 _rdc_ 4294900000 _wc_ 10 _dir_ 5 _iu_ 3";
    const AFTER: &str = "_fs_io_s_ _n_ 10.1.2.3 _nn_ node7 _rc_ 0 _t_ 1790000060 _tu_ 250000 _cl_ hpc.example _fs_ work _d_ 24 _br_ 8240000000 _bw_ 1000000 _oc_ 2704 _cc_ 2694 _rdc_ 532704 _wc_ 10 _dir_ 5 _iu_ 3";

    fn of(before: &str, after: &str) -> Rates {
        let one = |text: &str| parse(text, &mut Skipped::default()).expect("answer").remove(0);
        rates(&one(before), &one(after))
    }

    #[test]
    fn narrow_counters_wrap_while_their_wide_sibling_grows() {
        let found = of(BEFORE, AFTER);
        assert_eq!((found.read_bytes, found.reads), (Some(4e6), Some(10_000.0)));
        assert_eq!((found.read_size, found.written_bytes), (Some(400.0), Some(0.0)));
        // As many opens as closes, and no other.
        assert_eq!(found.metadata, Some(20_000.0 / 60.0));
        // After a new mount the wide ones fell too.
        assert_eq!(of(BEFORE, &AFTER.replace("8240000000", "5")).metadata, None);
    }

    #[test]
    fn nothing_mounted_is_no_error_and_a_failure_is() {
        let mut skipped = Skipped::default();
        let none = "_fs_io_s_ _n_ 10.1.2.3 _nn_ node7 _rc_ 1 _t_ 1 _tu_ 2 _cl_ -";
        assert_eq!(parse(none, &mut skipped), Ok(Vec::new()));
        let bad = "_fs_io_s_ _n_ 10.1.2.3 _nn_ node7 _rc_ 16 _t_ 1 _tu_ 2";
        assert!(parse(bad, &mut skipped).is_err());
        // A name that looks like a keyword, a banner, and half a line.
        let text = format!(
            "mmpmon node 10.1.2.3\n{}\n_fs_io_s_ _rc_\n",
            BEFORE.replace("_fs_ work", "_fs_ _br_")
        );
        let found = parse(&text, &mut skipped).expect("answer");
        assert_eq!((found[0].name.as_str(), found[0].read_bytes), ("_br_", Some(8_000_000_000)));
        assert_eq!((found.len(), skipped.count), (1, 1));
    }

    #[test]
    fn a_clock_that_is_set_back_gives_no_rate() {
        let at = |us, bytes| super::Filesystem {
            at_us: Some(us),
            read_bytes: Some(bytes),
            ..super::Filesystem::default()
        };
        let rates = super::rates(&at(9_000_000, 1), &at(4_000_000, 5_000));
        assert_eq!(rates, Rates::default());
        assert_eq!(super::rates(&at(9_000_000, 1), &at(9_000_000, 5_000)).read_bytes, None);
        let later = super::rates(&at(9_000_000, 1_000), &at(11_000_000, 5_000));
        assert_eq!(later.read_bytes, Some(2_000.0));
    }
}
