//! Which attempts were given to the shepherd and not acknowledged, over a start of the machine.
//!
//! Job directories lie in memory and are gone with the boot. One short line for each launch and
//! acknowledgement in `attempts.log` tells afterwards what had been running.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::spec::JobKey;

/// The journal's name in the state directory.
const JOURNAL: &str = "attempts.log";

/// Beyond this it is written anew with what is still open.
const BYTES_MAX: u64 = 4 << 20;

/// The journal, open for more.
pub(super) struct Journal {
    path: PathBuf,
    boot_id: String,
    file: File,
    bytes: u64,
    /// The last line may have been cut short by a full disk.
    torn: bool,
    open: BTreeSet<JobKey>,
    /// The highest job launched, acknowledged or not.
    highest: u32,
}

impl Journal {
    /// Reads the journal; gives attempts that were open when the machine went down.
    pub(super) fn open(state: &Path, boot_id: &str) -> io::Result<(Self, Vec<JobKey>)> {
        let path = state.join(JOURNAL);
        let (boot, open, highest) = read(&path)?;
        let cut_short = if boot == boot_id { Vec::new() } else { open.iter().copied().collect() };
        let file = write_anew(&path, boot_id, &open, highest)?;
        let bytes = file.metadata()?.len();
        let boot_id = boot_id.to_owned();
        Ok((Self { path, boot_id, file, bytes, torn: false, open, highest }, cut_short))
    }

    /// The highest job that was ever launched here; 0 where none was.
    pub(super) const fn highest(&self) -> u32 {
        self.highest
    }

    /// Notes a launch, before the shepherd hears of it.
    pub(super) fn launched(&mut self, key: JobKey) -> io::Result<()> {
        self.note('+', key)?;
        self.open.insert(key);
        self.highest = self.highest.max(key.job);
        Ok(())
    }

    /// Notes that an attempt's exit is stored elsewhere.
    pub(super) fn acknowledged(&mut self, key: JobKey) -> io::Result<()> {
        if self.open.contains(&key) {
            self.note('-', key)?;
            self.open.remove(&key);
        }
        Ok(())
    }

    fn note(&mut self, sign: char, key: JobKey) -> io::Result<()> {
        let line = format!("{}{sign}{key}\n", if self.torn { "\n" } else { "" });
        self.torn = true;
        self.file.write_all(line.as_bytes())?;
        self.torn = false;
        self.bytes += line.len() as u64;
        if self.bytes > BYTES_MAX {
            self.file = write_anew(&self.path, &self.boot_id, &self.open, self.highest)?;
            self.bytes = self.file.metadata()?.len();
        }
        Ok(())
    }
}

/// The boot of the first line and what is open after the last; a broken last line is left out.
fn read(path: &Path) -> io::Result<(String, BTreeSet<JobKey>, u32)> {
    let (mut open, mut highest) = (BTreeSet::<JobKey>::new(), 0);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((String::new(), open, 0)),
        Err(e) => return Err(e),
    };
    let mut boot = String::new();
    for line in BufReader::new(file).lines() {
        let line = line?;
        if let Some(id) = line.strip_prefix("boot ") {
            id.clone_into(&mut boot);
        } else if let Some(Ok(key)) = line.strip_prefix('+').map(str::parse::<JobKey>) {
            open.insert(key);
            highest = highest.max(key.job);
        } else if let Some(Ok(job)) = line.strip_prefix("highest ").map(str::parse) {
            highest = highest.max(job);
        } else if let Some(Ok(key)) = line.strip_prefix('-').map(str::parse::<JobKey>) {
            open.remove(&key);
        }
    }
    Ok((boot, open, highest))
}

fn write_anew(
    path: &Path,
    boot_id: &str,
    open: &BTreeSet<JobKey>,
    highest: u32,
) -> io::Result<File> {
    let new = path.with_extension("log.new");
    let lines = open.iter().map(|key| format!("+{key}\n"));
    let text: String =
        std::iter::once(format!("boot {boot_id}\nhighest {highest}\n")).chain(lines).collect();
    // A file of an earlier try, cut short by a crash, is replaced.
    fs::remove_file(&new).ok();
    let mut file = OpenOptions::new().create_new(true).append(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    fs::rename(&new, path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::Journal;
    use crate::spec::JobKey;

    #[test]
    fn what_was_open_at_another_boot_was_cut_short() {
        let state = tempfile::tempdir().expect("directory");
        let key = |job| JobKey { job, attempt: 1 };
        let (mut journal, cut) = Journal::open(state.path(), "one").expect("journal");
        assert!(cut.is_empty());
        for job in 1..=3 {
            journal.launched(key(job)).expect("noted");
        }
        journal.acknowledged(key(2)).expect("noted");
        let (_, cut) = Journal::open(state.path(), "one").expect("journal");
        assert!(cut.is_empty(), "the same boot: they may run");
        let (mut journal, cut) = Journal::open(state.path(), "two").expect("journal");
        assert_eq!(cut, [key(1), key(3)]);
        // Not acknowledged yet: told again at the next start.
        journal.acknowledged(key(1)).expect("noted");
        journal.acknowledged(key(3)).expect("noted");
        let (journal, cut) = Journal::open(state.path(), "three").expect("journal");
        assert!(cut.is_empty());
        let (again, _) = Journal::open(state.path(), "three").expect("journal");
        assert_eq!((journal.highest(), again.highest()), (3, 3), "ids are not forgotten");
    }

    #[test]
    fn a_broken_last_line_is_left_out() {
        let state = tempfile::tempdir().expect("directory");
        std::fs::write(state.path().join("attempts.log"), "boot one\n+4.1\n+5.").expect("file");
        let (_, cut) = Journal::open(state.path(), "two").expect("journal");
        assert_eq!(cut, [JobKey { job: 4, attempt: 1 }]);
    }
}
