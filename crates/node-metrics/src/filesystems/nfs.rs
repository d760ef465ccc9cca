//! NFS as its client counts it (`/proc/self/mountstats`).
//!
//! Two mounts of one export share one set of counters: [`Mount::shares_with`] names the first of
//! them, so that a sum takes the set once.

use std::collections::BTreeMap;
use std::path::Path;

use crate::counter::{Change, Pair, changes, per, per_second};
use crate::files::{ReadError, Skipped, read_up_to};

/// The largest file that is read: thousands of mounts.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The operations of metadata.
pub const METADATA: [&str; 6] = ["GETATTR", "LOOKUP", "OPEN", "ACCESS", "READDIR", "SETATTR"];

/// One mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// `server:/path`.
    pub device: String,
    /// Where.
    pub path: String,
    /// `nfs` or `nfs4`.
    pub kind: String,
    /// Seconds since it was mounted.
    pub age_s: Option<u64>,
    /// The eight numbers of `bytes:`: read and written by calls, the same past the cache, read from
    /// and written to the server, and pages.
    pub bytes: Option<[u64; 8]>,
    /// Requests that wait to be sent, summed over the transports.
    pub backlog: Option<u64>,
    /// Transports (`nconnect` gives several).
    pub transports: u64,
    /// Operations by name.
    pub operations: BTreeMap<String, Operation>,
    /// The path of the mount whose counters these are too.
    pub shares_with: Option<String>,
}

/// One operation; times are milliseconds summed over all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// Finished.
    pub count: u64,
    /// Sent, those again with it.
    pub sent: u64,
    /// Given up after the longest wait.
    pub timeouts: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Waited to be sent.
    pub queue_ms: u64,
    /// Waited for the server.
    pub rtt_ms: u64,
    /// All together.
    pub total_ms: u64,
    /// Ended with an error; since Linux 5.3.
    pub errors: Option<u64>,
}

/// Every NFS mount.
///
/// # Errors
/// The file cannot be read.
pub fn mounts(root: &Path, skipped: &mut Skipped) -> Result<Vec<Mount>, ReadError> {
    let text = read_up_to(root, "proc/self/mountstats", FILE_BYTES_MAX)?;
    Ok(parse(&text, skipped))
}

/// The NFS mounts of such a file.
pub fn parse(text: &str, skipped: &mut Skipped) -> Vec<Mount> {
    let mut found: Vec<Mount> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("device ") {
            inside = false;
            if let Some(mount) = header(rest) {
                inside = true;
                found.push(mount);
            }
            continue;
        }
        let (true, Some(mount)) = (inside, found.last_mut()) else { continue };
        if detail(mount, line.trim()).is_none() {
            skipped.note(line);
        }
    }
    for at in 0..found.len() {
        let first = found[..at].iter().find(|first| {
            first.device == found[at].device
                && first.operations == found[at].operations
                && first.bytes == found[at].bytes
        });
        found[at].shares_with = first.map(|first| first.path.clone());
    }
    found
}

/// `filer1:/scratch mounted on /scratch with fstype nfs4 statvers=1.1`.
fn header(rest: &str) -> Option<Mount> {
    let (device, rest) = rest.split_once(" mounted on ")?;
    let (path, rest) = rest.rsplit_once(" with fstype ")?;
    let kind = rest.split(' ').next()?;
    let mount = Mount {
        device: device.to_owned(),
        path: path.to_owned(),
        kind: kind.to_owned(),
        ..Mount::default()
    };
    (kind == "nfs" || kind == "nfs4").then_some(mount)
}

/// One line about a mount; `None` where it should be understood and is not.
fn detail(mount: &mut Mount, line: &str) -> Option<()> {
    let Some((key, rest)) = line.split_once(':') else { return Some(()) };
    let numbers = || -> Option<Vec<u64>> {
        rest.split_ascii_whitespace().map(|word| word.parse().ok()).collect()
    };
    match key {
        "age" => mount.age_s = Some(rest.trim().parse().ok()?),
        "bytes" => mount.bytes = Some(numbers()?.get(..8)?.try_into().ok()?),
        "xprt" => transport(mount, rest)?,
        // Operations are in capitals; what else there is describes the mount.
        _ if key.chars().all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit()) => {
            mount.operations.insert(key.to_owned(), operation(&numbers()?)?);
        }
        _ => {}
    }
    Some(())
}

fn transport(mount: &mut Mount, rest: &str) -> Option<()> {
    let mut words = rest.split_ascii_whitespace();
    let (kind, numbers) = (words.next()?, words.collect::<Vec<_>>());
    // Where the sum of requests that waited stands: idle times come before it on connections.
    let backlog = match kind {
        "tcp" => Some(9),
        "udp" => Some(6),
        "rdma" => Some(9),
        _ => None,
    };
    mount.transports += 1;
    let waited: u64 = numbers.get(backlog?)?.parse().ok()?;
    mount.backlog = Some(mount.backlog.unwrap_or(0).saturating_add(waited));
    Some(())
}

fn operation(numbers: &[u64]) -> Option<Operation> {
    let &[count, sent, timeouts, bytes_sent, bytes_received, queue_ms, rtt_ms, total_ms] =
        numbers.get(..8)?
    else {
        return None;
    };
    Some(Operation {
        count,
        sent,
        timeouts,
        bytes_sent,
        bytes_received,
        queue_ms,
        rtt_ms,
        total_ms,
        errors: numbers.get(8).copied(),
    })
}

/// What one operation did between two readings; times are milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Operations a second.
    pub operations: Option<f64>,
    /// Bytes a second, both ways.
    pub bytes: Option<f64>,
    /// Bytes of one.
    pub size: Option<f64>,
    /// Waited to be sent.
    pub queue_ms: Option<f64>,
    /// Waited for the server.
    pub rtt_ms: Option<f64>,
    /// All together.
    pub total_ms: Option<f64>,
    /// Sent again.
    pub resent: Option<u64>,
}

/// What one operation did between two readings so many seconds apart.
pub fn rates(before: &Operation, after: &Operation, seconds: f64) -> Rates {
    let [count, sent, out, came, queue, rtt, total] = changes([
        Pair::wide(before.count, after.count),
        Pair::wide(before.sent, after.sent),
        Pair::wide(before.bytes_sent, after.bytes_sent),
        Pair::wide(before.bytes_received, after.bytes_received),
        Pair::wide(before.queue_ms, after.queue_ms),
        Pair::wide(before.rtt_ms, after.rtt_ms),
        Pair::wide(before.total_ms, after.total_ms),
    ])
    .map(Change::count);
    let bytes = out.zip(came).map(|(out, came)| out + came);
    Rates {
        operations: per_second(count, seconds),
        bytes: per_second(bytes, seconds),
        size: per(bytes, count),
        queue_ms: per(queue, count),
        rtt_ms: per(rtt, count),
        total_ms: per(total, count),
        resent: sent.zip(count).map(|(sent, count)| sent.saturating_sub(count)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Mount, Operation, parse, rates};
    use crate::files::Skipped;

    fn of(text: &str) -> (Vec<Mount>, Skipped) {
        let mut skipped = Skipped::default();
        (parse(text, &mut skipped), skipped)
    }

    const SCRATCH: &str = "device proc mounted on /proc with fstype proc
device filer1:/scratch mounted on /scratch with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,hard
\tage:\t86400
\tbytes:\t1 2 3 4 5 6 7 8
\tevents:\t1 2 3
\txprt:\ttcp 0 1 2 0 5 90000 89990 0 450000 120 16 90 3000
\tper-op statistics
\t        READ: 40000 40003 0 8000000 2624000000 20000 32000 56000 0
\t     GETATTR: 10 10 0 1 2 3 4 5
";

    #[test]
    fn a_mount_is_read_by_its_keys() {
        let (found, skipped) = of(SCRATCH);
        let mount = &found[0];
        assert_eq!(
            (mount.path.as_str(), mount.age_s, mount.backlog),
            ("/scratch", Some(86_400), Some(120))
        );
        assert_eq!(mount.bytes.map(|bytes| bytes[4]), Some(5));
        assert_eq!(
            (mount.operations["READ"].errors, mount.operations["GETATTR"].errors),
            (Some(0), None)
        );
        assert_eq!((found.len(), skipped.count), (1, 0));
        let read = rates(&Operation::default(), &mount.operations["READ"], 10.0);
        assert_eq!((read.operations, read.resent), (Some(4_000.0), Some(3)));
        assert_eq!((read.queue_ms, read.rtt_ms, read.total_ms), (Some(0.5), Some(0.8), Some(1.4)));
        assert_eq!(read.size, Some(65_800.0));
    }

    #[test]
    fn m13_an_unknown_transport_costs_itself() {
        let rdma = (1..=28).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        let text = format!(
            "{SCRATCH}\txprt:\trdma {rdma}\n\txprt:\tquic 1 2 3\n{}",
            SCRATCH.replace("/scratch", "/home")
        );
        let (found, skipped) = of(&text);
        assert_eq!((found.len(), skipped.count), (2, 1));
        assert_eq!((found[0].transports, found[0].backlog), (3, Some(130)));
        assert_eq!(found[0].operations, found[1].operations);
    }

    #[test]
    fn m14_shared_counters_are_known_as_such_and_transports_add_up() {
        let twice = SCRATCH.replace("mounted on /scratch", "mounted on /b");
        let four = SCRATCH.replace("filer1:/scratch mounted on /scratch", "filer1:/c mounted on /c").replace(
            "\tper-op",
            "\txprt:\ttcp 0 1 2 0 5 1 1 0 1 1 16 1 1\n\txprt:\ttcp 0 1 2 0 5 1 1 0 1 1 16 1 1\n\txprt:\ttcp 0 1 2 0 5 1 1 0 1 1 16 1 1\n\tper-op",
        );
        let (found, _) = of(&format!("{SCRATCH}{twice}{four}"));
        let shared: Vec<Option<&str>> = found.iter().map(|m| m.shares_with.as_deref()).collect();
        assert_eq!(shared, [None, Some("/scratch"), None]);
        assert_eq!((found[2].transports, found[2].backlog), (4, Some(123)));
    }
}
