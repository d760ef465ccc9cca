//! BeeGFS: what `beegfs-ctl --clientstats` and `beegfs stats … --retro` print.
//!
//! Values come first and their names after them in brackets: `10.0.0.5  930 [sum]  310 [open]`. The
//! first batch is what was counted since the servers started.

use std::collections::BTreeMap;

use super::Rates;
use crate::counter::{Change, Pair, changes, per, per_second};
use crate::files::Skipped;

/// What one client (or user, or server) did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCounts {
    /// Its address or name; `Sum` is all together.
    pub client: String,
    /// Counts by the tool's names (`open`, `stat`, `MiB-rd/s`).
    pub counts: BTreeMap<String, u64>,
}

/// Everyone in the last batch of what a tool printed.
pub fn parse(text: &str, skipped: &mut Skipped) -> Vec<ClientCounts> {
    let mut found: Vec<ClientCounts> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with("-----") || line.starts_with("=====") {
            found.clear();
            continue;
        }
        if !line.contains('[') {
            continue;
        }
        match client(line) {
            Some(client) if found.iter().all(|known| known.client != client.client) => {
                found.push(client);
            }
            _ => skipped.note(line),
        }
    }
    found
}

fn client(line: &str) -> Option<ClientCounts> {
    let mut words = line.split_ascii_whitespace();
    let client = words.next()?.trim_end_matches(':').to_owned();
    let mut counts = BTreeMap::new();
    while let Some(value) = words.next() {
        let name = words.next()?.strip_prefix('[')?.strip_suffix(']')?;
        counts.insert(name.to_owned(), value.parse().ok()?);
    }
    Some(ClientCounts { client, counts })
}

/// What an interval that the tool itself took the difference of says: after a server's new start
/// that difference is below nothing, which the tool prints as a huge number.
pub fn interval(value: u64) -> Change {
    if value > 1 << 63 { Change::Reset } else { Change::By(value) }
}

/// What servers of one kind did between two readings, by what all clients add up to. Operations of
/// all kinds are metadata on a metadata server, which reads nothing.
pub fn rates(before: &[ClientCounts], after: &[ClientCounts], seconds: f64) -> Rates {
    let all = |clients: &[ClientCounts], name: &str| -> Option<u64> {
        clients.iter().find(|one| one.client == "Sum")?.counts.get(name).copied()
    };
    let pair = |name: &str| Pair::wide(all(before, name), all(after, name));
    let [operations, reads, read, written] =
        changes([pair("sum"), pair("ops-rd"), pair("MiB-rd/s"), pair("MiB-wr/s")])
            .map(Change::count);
    let bytes = |mib: Option<u64>| mib.map(|mib| mib.saturating_mul(1 << 20));
    Rates {
        metadata: per_second(operations, seconds),
        reads: per_second(reads, seconds),
        read_bytes: per_second(bytes(read), seconds),
        read_size: per(bytes(read), reads),
        written_bytes: per_second(bytes(written), seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::{Rates, interval, parse, rates};
    use crate::counter::Change;
    use crate::files::Skipped;

    #[test]
    fn the_value_stands_before_its_name() {
        let mut skipped = Skipped::default();
        let text = "====== 10 s ======\nSum:  1 [sum]\n10.0.0.9  1 [open]\n\
                    ====== 20 s ======\nSum:            930 [sum]  310 [open]\n\n\
                    10.0.0.5        930 [sum]  310 [open]  5 [MiB-rd/s]\n10.0.0.6  x [sum]\n";
        let found = parse(text, &mut skipped);
        let names: Vec<&str> = found.iter().map(|one| one.client.as_str()).collect();
        assert_eq!(names, ["Sum", "10.0.0.5"]);
        assert_eq!((found[1].counts["open"], found[1].counts["MiB-rd/s"]), (310, 5));
        assert_eq!(skipped.count, 1);
    }

    #[test]
    fn rates_are_those_of_all_clients_together() {
        let read = |text: &str| parse(text, &mut Skipped::default());
        let before =
            read("Sum: 1000 [sum] 100 [ops-rd] 50 [MiB-rd/s] 7 [MiB-wr/s]\n10.0.0.5 9 [sum]\n");
        let after =
            read("Sum: 3000 [sum] 300 [ops-rd] 150 [MiB-rd/s] 7 [MiB-wr/s]\n10.0.0.5 9 [sum]\n");
        let mib = 1_048_576.0;
        let found = rates(&before, &after, 10.0);
        assert_eq!((found.metadata, found.reads), (Some(200.0), Some(20.0)));
        assert_eq!((found.read_bytes, found.written_bytes), (Some(10.0 * mib), Some(0.0)));
        assert_eq!(found.read_size, Some(mib / 2.0));
        // A server began anew; nothing is known of reads on a metadata server.
        assert_eq!(rates(&after, &before, 10.0), Rates::default());
        let meta = |sum: u64| read(&format!("Sum: {sum} [sum] 5 [open]\n"));
        let found = rates(&meta(0), &meta(50), 10.0);
        assert_eq!((found.metadata, found.read_bytes), (Some(5.0), None));
        assert_eq!(rates(&[], &meta(50), 10.0), Rates::default());
    }

    #[test]
    fn less_than_nothing_is_a_new_beginning() {
        assert_eq!(interval(5), Change::By(5));
        assert_eq!(interval(u64::MAX - 100), Change::Reset);
    }
}
