//! What each process reads and writes (`/proc/PID/io`), as iotop shows it.
//!
//! `read_bytes` counts what reached the block layer; network filesystems are only in `rchar`. A
//! process that ends takes its counters with it, so jobs are counted by their cgroups; this is for
//! finding the one process that reads.

use std::collections::BTreeMap;
use std::path::Path;

use crate::files::{names, read, text};

/// Processes that are looked at in one reading.
const PROCESSES_MAX: usize = 50_000;

/// What one process read and wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessIo {
    /// The process.
    pub pid: u32,
    /// Its program's name.
    pub name: String,
    /// When it started, in ticks after the machine did: with `pid` it says which process.
    pub started: u64,
    /// Bytes by read calls, cached or not.
    pub called_read: u64,
    /// Bytes by write calls, cached or not.
    pub called_write: u64,
    /// Bytes that a disk was asked for.
    pub disk_read: u64,
    /// Bytes that a disk was given, without what was taken back in time.
    pub disk_write: u64,
}

/// Every process whose counters may be read, in order of its number.
pub fn processes(root: &Path) -> Vec<ProcessIo> {
    let mut found: Vec<ProcessIo> = names(root, "proc")
        .iter()
        .filter_map(|name| name.parse().ok())
        .take(PROCESSES_MAX)
        .filter_map(|pid| process(root, pid))
        .collect();
    found.sort_unstable_by_key(|process| process.pid);
    found
}

/// One process; `None` where it is gone or may not be looked at.
pub fn process(root: &Path, pid: u32) -> Option<ProcessIo> {
    let io = read(root, &format!("proc/{pid}/io")).ok()?;
    let value = |key: &str| -> Option<u64> {
        io.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')?.trim().parse().ok())
    };
    Some(ProcessIo {
        pid,
        name: text(root, &format!("proc/{pid}/comm")).unwrap_or_default(),
        started: started(root, pid)?,
        called_read: value("rchar")?,
        called_write: value("wchar")?,
        disk_read: value("read_bytes")?,
        disk_write: value("write_bytes")?
            .saturating_sub(value("cancelled_write_bytes").unwrap_or(0)),
    })
}

/// The 22nd field of `stat`; the name before may have spaces and brackets.
fn started(root: &Path, pid: u32) -> Option<u64> {
    let stat = read(root, &format!("proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Bytes that a process read from and wrote to disks between two readings, those that did most
/// first. One that started in between counts from its beginning; another with the same number is
/// another process.
pub fn busiest(before: &[ProcessIo], after: &[ProcessIo], count: usize) -> Vec<(u32, String, u64)> {
    let old: BTreeMap<(u32, u64), &ProcessIo> =
        before.iter().map(|process| ((process.pid, process.started), process)).collect();
    let mut moved: Vec<(u32, String, u64)> = after
        .iter()
        .map(|new| {
            let was = old.get(&(new.pid, new.started));
            let bytes =
                |of: fn(&ProcessIo) -> u64| of(new).saturating_sub(was.map_or(0, |was| of(was)));
            let moved = bytes(|p| p.disk_read).saturating_add(bytes(|p| p.disk_write));
            (new.pid, new.name.clone(), moved)
        })
        .filter(|(_, _, moved)| *moved > 0)
        .collect();
    moved.sort_by(|one, other| (other.2, one.0).cmp(&(one.2, other.0)));
    moved.truncate(count);
    moved
}

#[cfg(test)]
mod tests {
    use super::{busiest, processes};
    use crate::test_tree::{add, tree};

    fn io(read: u64, write: u64) -> String {
        format!(
            r"rchar: 900\nwchar: 100\nsyscr: 1\nsyscw: 1\nread_bytes: {read}\nwrite_bytes: {write}\ncancelled_write_bytes: 4\n"
        )
    }

    fn stat(pid: u32, name: &str, started: u64) -> String {
        format!("{pid} ({name}) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {started} 0 0")
    }

    #[test]
    fn the_busiest_process_comes_first_and_a_number_used_again_is_another() {
        let odd = "a) b (c";
        let root = tree(&format!(
            "proc/7/io: {}\nproc/7/stat: {}\nproc/7/comm: {odd}\nproc/9/io: {}\nproc/9/stat: {}\n\
             proc/11/comm: hidden",
            io(4_096, 10),
            stat(7, odd, 50),
            io(1_000, 4),
            stat(9, "x", 60),
        ));
        let before = processes(root.path());
        assert_eq!(before.iter().map(|p| p.pid).collect::<Vec<_>>(), [7, 9]);
        assert_eq!((before[0].started, before[0].disk_write), (50, 6));
        // 7 reads on; 9 is another process with the same number.
        add(
            root.path(),
            &format!(
                "proc/7/io: {}\nproc/9/io: {}\nproc/9/stat: {}",
                io(8_192, 10),
                io(512, 4),
                stat(9, "x", 99)
            ),
        );
        let after = processes(root.path());
        assert_eq!(
            busiest(&before, &after, 9),
            [(7, odd.to_owned(), 4_096), (9, String::new(), 512)]
        );
        assert_eq!(busiest(&before, &before, 9), []);
    }
}
