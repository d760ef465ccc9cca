//! Xid messages in the kernel's log: errors of NVIDIA's GPUs.
//!
//! They are counted since the machine started, with the time of the last: a gauge of the last number
//! would hide that one comes again and say for ever what is long over.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::catalogue::{Class, class_of};
use super::state::short_address;
use crate::files::ReadError;

/// The file of the kernel's log.
const LOG: &str = "dev/kmsg";

/// One record, and a line of a captured log, is at most so long.
const RECORD_BYTES_MAX: usize = 8 << 10;

/// Records that are read at once; what is left is read the next time.
const RECORDS_MAX: usize = 20_000;

/// GPUs and numbers that are counted; beyond that nothing new is.
const COUNTED_MAX: usize = 1_000;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The GPU's address as the kernel writes it.
    pub pci: String,
    /// The number; a GPU that fell off the bus without one has 79.
    pub xid: u32,
    /// What it says after that.
    pub text: String,
}

/// The GPU's address, the number, and what it asks for: messages of one number may ask for different things.
pub type Key = (String, u32, Class);

/// What was counted of one number on one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// How often.
    pub count: u64,
    /// When it last came, microseconds after the machine started; where the log says.
    pub last_us: Option<u64>,
    /// What it asks for.
    pub class: Class,
}

/// Reads a line of the log; `None` where it is about something else.
pub fn message(line: &str) -> Option<Message> {
    let (_, said) = line.split_once("NVRM: ")?;
    if let Some(rest) = said.strip_prefix("Xid (") {
        let (address, rest) = rest.split_once("): ")?;
        let address = address.strip_prefix("PCI:").unwrap_or(address);
        let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let text = rest[number.len()..].trim_start_matches(',').trim();
        return Some(Message {
            pci: short_address(address),
            xid: number.parse().ok()?,
            text: text.to_owned(),
        });
    }
    let (address, text) = said.strip_prefix("GPU ")?.split_once(": ")?;
    text.contains("fallen off the bus").then(|| Message {
        pci: short_address(address),
        xid: 79,
        text: text.to_owned(),
    })
}

/// The kernel's log, read on from where it was left.
#[derive(Debug, Default)]
pub struct Log {
    file: Option<File>,
    unfinished: Vec<u8>,
    last: Option<u64>,
    counts: BTreeMap<Key, Count>,
}

impl Log {
    /// Reads what is new; returns everything that was counted, by GPU and number.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn read(&mut self, root: &Path) -> Result<&BTreeMap<Key, Count>, ReadError> {
        const O_NONBLOCK: i32 = 0o4000;
        if self.file.is_none() {
            let mut options = File::options();
            let opened = options.read(true).custom_flags(O_NONBLOCK).open(root.join(LOG));
            self.file = Some(opened.map_err(|error| match error.kind() {
                ErrorKind::NotFound => ReadError::Absent(LOG.to_owned()),
                ErrorKind::PermissionDenied => ReadError::Denied(LOG.to_owned()),
                _ => ReadError::Failed(LOG.to_owned(), error.to_string()),
            })?);
        }
        for _ in 0..RECORDS_MAX {
            let mut record = [0; RECORD_BYTES_MAX];
            let Some(file) = &mut self.file else { break };
            match file.read(&mut record) {
                Ok(0) => break,
                Ok(length) => self.take(&record[..length]),
                // Records were thrown away before they were read: go on with the oldest left.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.file = None;
                    return Err(ReadError::Failed(LOG.to_owned(), error.to_string()));
                }
            }
        }
        Ok(&self.counts)
    }

    /// Takes bytes of the log, line by line; a line that never ends is thrown away.
    fn take(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.unfinished.extend_from_slice(part);
            if self.unfinished.ends_with(b"\n") {
                let line = std::mem::take(&mut self.unfinished);
                self.line(&String::from_utf8_lossy(&line));
            } else if self.unfinished.len() > RECORD_BYTES_MAX {
                self.unfinished.clear();
            }
        }
    }

    /// `priority,sequence,microseconds,flags;text`, or a line without such a beginning.
    fn line(&mut self, line: &str) {
        let mut fields = line.split(';').next().unwrap_or_default().split(',').skip(1);
        let sequence = fields.next().and_then(|word| word.parse::<u64>().ok());
        let last_us = sequence.and_then(|_| fields.next()?.parse::<u64>().ok());
        if let Some(sequence) = sequence.filter(|_| last_us.is_some()) {
            if self.last.is_some_and(|last| sequence <= last) {
                return;
            }
            self.last = Some(sequence);
        }
        let Some(message) = message(line) else { return };
        let class = class_of(message.xid, &message.text);
        let key = (message.pci, message.xid, class);
        if self.counts.len() >= COUNTED_MAX && !self.counts.contains_key(&key) {
            return;
        }
        let known = self.counts.entry(key).or_insert(Count { count: 0, last_us: None, class });
        known.count += 1;
        known.last_us = last_us.or(known.last_us);
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, Log, message};
    use crate::test_tree::tree;

    #[test]
    fn messages_of_all_forms_are_read() {
        for (line, pci, xid) in [
            (
                "NVRM: Xid (PCI:0000:c1:00): 31, pid=41200, name=python3, Ch 00000010, MMU Fault",
                "0000:c1:00.0",
                31,
            ),
            (
                "kernel: NVRM: Xid (PCI:0000:c1:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
                "0000:c1:00.0",
                79,
            ),
            ("NVRM: Xid (0000:41:00): 13, Channel 00000002", "0000:41:00.0", 13),
            (
                "NVRM: Xid (PCI:0002:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 05 (0x00450000)",
                "0002:01:00.0",
                149,
            ),
            ("NVRM: GPU 0000:c1:00.0: GPU has fallen off the bus.", "0000:c1:00.0", 79),
        ] {
            let found = message(line).expect(line);
            assert_eq!((found.pci.as_str(), found.xid), (pci, xid), "{line}");
        }
        for other in [
            "NVRM: loading NVIDIA UNIX x86_64 Kernel Module",
            "NVRM: Xid (PCI:0000:c1:00): x, y",
            "NVRM: GPU 0000:c1:00.0: fine",
            "usb 1-1: NVRM",
        ] {
            assert_eq!(message(other), None, "{other}");
        }
    }

    #[test]
    fn m16_each_comes_to_the_count_with_its_time() {
        let root = tree("dev/kmsg: ");
        let path = root.path().join("dev/kmsg");
        let write = |text: &str| {
            use std::io::Write as _;
            let mut file = std::fs::File::options().append(true).open(&path).expect("file");
            file.write_all(text.as_bytes()).expect("written");
        };
        let first =
            "4,10,36000000000,-;NVRM: Xid (PCI:0000:c1:00): 31, pid=1, MMU Fault\n SUBSYSTEM=pci\n";
        write(first);
        let mut log = Log::default();
        let key = ("0000:c1:00.0".to_owned(), 31, Class::Application);
        let counts = log.read(root.path()).expect("log").clone();
        assert_eq!((counts[&key].count, counts[&key].last_us), (1, Some(36_000_000_000)));
        // Half a line is read when it is whole; what was read before does not count again.
        write(first);
        write("4,11,36300000000,-;NVRM: Xid (PCI:0000:c1:00): 31, pid=2, MM");
        assert_eq!(log.read(root.path()).expect("log")[&key].count, 1);
        write("U Fault\n");
        let counts = log.read(root.path()).expect("log");
        assert_eq!((counts[&key].count, counts[&key].last_us), (2, Some(36_300_000_000)));
        assert_eq!((counts.len(), counts[&key].class), (1, Class::Application));
        // A line that never ends is given up.
        write(&"x".repeat(100_000));
        assert_eq!(log.read(root.path()).expect("log").len(), 1);
        assert!(log.unfinished.len() <= 2 * super::RECORD_BYTES_MAX);
        assert!(Log::default().read("/nowhere".as_ref()).is_err());
    }

    #[test]
    fn one_that_asks_for_a_drain_is_not_hidden_by_a_milder_one_of_its_number() {
        let line = |sequence: u32, how: &str| {
            format!("4,{sequence},36000000000,-;NVRM: Xid (PCI:0000:c1:00): 149, {how}, Link 3\n")
        };
        let root = tree("dev/kmsg: ");
        let both = line(10, "Fatal") + &line(11, "Nonfatal");
        std::fs::write(root.path().join("dev/kmsg"), both).expect("written");
        let mut log = Log::default();
        let counts = log.read(root.path()).expect("log");
        let found: Vec<(bool, u64)> =
            counts.values().map(|count| (count.class.drains(), count.count)).collect();
        assert_eq!(found, [(false, 1), (true, 1)]);
    }
}
