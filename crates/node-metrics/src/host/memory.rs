//! `/proc/meminfo` and the counters of paging in `/proc/vmstat`.

use std::path::Path;

use crate::files::{ReadError, Skipped, keyed, read};

/// What `/proc/meminfo` and `/proc/vmstat` say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Amounts in bytes by the kernel's name (`MemTotal`, `Active(anon)`), in its order.
    pub amounts: Vec<(String, u64)>,
    /// Pages swapped in since the start.
    pub swapped_in: Option<u64>,
    /// Pages swapped out since the start.
    pub swapped_out: Option<u64>,
    /// Pages that had to be read from a disk before a task could go on.
    pub major_faults: Option<u64>,
    /// Tasks that were killed because memory was out.
    pub oom_kills: Option<u64>,
}

impl Memory {
    /// The bytes of one of its amounts.
    pub fn bytes(&self, name: &str) -> Option<u64> {
        self.amounts.iter().find(|(known, _)| known == name).map(|(_, bytes)| *bytes)
    }
}

/// Reads it.
///
/// # Errors
/// `/proc/meminfo` cannot be read.
pub fn memory(root: &Path, skipped: &mut Skipped) -> Result<Memory, ReadError> {
    let text = read(root, "proc/meminfo")?;
    let mut amounts = Vec::new();
    for line in text.lines() {
        match line.split_once(':').map(|(name, rest)| (name, rest.trim())) {
            // Huge pages are counts.
            Some((_, count)) if count.parse::<u64>().is_ok() => {}
            Some((name, rest)) if bytes(rest).is_some() => {
                amounts.extend(bytes(rest).map(|bytes| (name.to_owned(), bytes)));
            }
            _ => skipped.note(line),
        }
    }
    let events = read(root, "proc/vmstat").unwrap_or_default();
    Ok(Memory {
        amounts,
        swapped_in: keyed(&events, "pswpin"),
        swapped_out: keyed(&events, "pswpout"),
        major_faults: keyed(&events, "pgmajfault"),
        oom_kills: keyed(&events, "oom_kill"),
    })
}

fn bytes(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::memory;
    use crate::files::Skipped;
    use crate::test_tree::tree;

    #[test]
    fn amounts_are_bytes_and_counts_are_left_out() {
        let root = tree(
            r"
            proc/meminfo: MemTotal:       16 kB\nHugePages_Total:       3\nActive(anon):  2 kB\ngarbage\nBad: x kB\n
            proc/vmstat: pswpin 1\npswpout 2\npgmajfault 3\n
            ",
        );
        let mut skipped = Skipped::default();
        let found = memory(root.path(), &mut skipped).expect("memory");
        assert_eq!(found.bytes("MemTotal"), Some(16_384));
        assert_eq!(found.bytes("Active(anon)"), Some(2_048));
        assert_eq!((found.bytes("HugePages_Total"), skipped.count), (None, 2));
        assert_eq!(
            (found.swapped_in, found.swapped_out, found.major_faults),
            (Some(1), Some(2), Some(3))
        );
        // An old kernel does not count these.
        assert_eq!(found.oom_kills, None);
    }
}
