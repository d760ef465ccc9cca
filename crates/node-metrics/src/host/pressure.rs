//! Pressure: how long tasks stood still for want of a resource (`/proc/pressure`, and the files of
//! the same form in cgroups).

use std::path::Path;

use crate::files::{ReadError, read};

/// What one file says; an old kernel has no `full` line for CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Some task waited.
    pub some: Option<Stall>,
    /// No task could go on.
    pub full: Option<Stall>,
}

/// One line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stall {
    /// The share of the last ten seconds, 0 to 1.
    pub last_10: f64,
    /// All of it since the start, microseconds.
    pub total_us: u64,
}

/// The pressure on CPUs, memory and I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressures {
    /// Tasks could run and had no CPU.
    pub cpu: Option<Pressure>,
    /// Tasks waited for memory.
    pub memory: Option<Pressure>,
    /// Tasks waited for I/O.
    pub io: Option<Pressure>,
}

/// The machine's.
///
/// # Errors
/// None of the files can be read; one that is compiled in and off says that it is not supported.
pub fn pressures(root: &Path) -> Result<Pressures, ReadError> {
    let one = |name: &str| pressure(root, &format!("proc/pressure/{name}"));
    let (cpu, memory, io) = (one("cpu"), one("memory"), one("io"));
    match (cpu, memory, io) {
        (Err(why), Err(_), Err(_)) => Err(why),
        (cpu, memory, io) => Ok(Pressures { cpu: cpu.ok(), memory: memory.ok(), io: io.ok() }),
    }
}

/// One file.
///
/// # Errors
/// It cannot be read or understood.
pub fn pressure(root: &Path, path: &str) -> Result<Pressure, ReadError> {
    let text = read(root, path)?;
    let line = |kind: &str| text.lines().find_map(|line| stall(line.strip_prefix(kind)?));
    let found = Pressure { some: line("some "), full: line("full ") };
    if found == Pressure::default() {
        return Err(ReadError::Garbled(path.to_owned()));
    }
    Ok(found)
}

fn stall(words: &str) -> Option<Stall> {
    let value = |key: &str| {
        words.split_ascii_whitespace().find_map(|word| word.split_once('=').filter(|w| w.0 == key))
    };
    let percent: f64 = value("avg10")?.1.parse().ok()?;
    Some(Stall { last_10: percent / 100.0, total_us: value("total")?.1.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::{pressure, pressures};
    use crate::test_tree::tree;

    #[test]
    fn totals_are_microseconds_and_old_kernels_lack_a_line() {
        let root = tree(
            r"
            proc/pressure/io: some avg10=12.50 avg60=6.10 avg300=1.90 total=84500231\nfull avg10=4.00 avg60=2.05 avg300=0.60 total=31007110\n
            proc/pressure/cpu: some avg10=0.00 avg60=0.00 avg300=0.00 total=7 future=1\n
            proc/pressure/memory: nonsense\n
            ",
        );
        let found = pressures(root.path()).expect("pressures");
        let io = found.io.expect("io");
        assert_eq!(io.some.map(|s| (s.last_10, s.total_us)), Some((0.125, 84_500_231)));
        assert_eq!(io.full.map(|s| s.total_us), Some(31_007_110));
        let cpu = found.cpu.expect("cpu");
        assert_eq!((cpu.some.map(|s| s.total_us), cpu.full), (Some(7), None));
        assert_eq!(found.memory, None);
        assert!(pressure(root.path(), "proc/pressure/irq").is_err());
        assert!(pressures("/nowhere".as_ref()).is_err());
    }
}
