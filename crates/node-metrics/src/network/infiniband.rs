//! InfiniBand and RoCE ports (`/sys/class/infiniband`).
//!
//! `port_xmit_data` and `port_rcv_data` count words of four octets on every link, whatever its
//! lanes (kernel's sysfs-class-infiniband); here they are bytes. `port_xmit_wait` counts ticks of
//! the device: good for growth and for comparing alike devices, no seconds.

use std::path::Path;

use crate::counter::{Change, Pair, changes, per_second};
use crate::files::{ReadError, Skipped, names, read, text};

const CLASS: &str = "sys/class/infiniband";

/// Octets in a word of the data counters.
const WORD_BYTES: u64 = 4;

/// Counters whose value is words.
const WORDS: [&str; 2] = ["port_xmit_data", "port_rcv_data"];

/// One port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Port {
    /// Its device, `mlx5_0`.
    pub device: String,
    /// Its number there.
    pub port: u32,
    /// `ACTIVE`, `DOWN` and so on.
    pub state: Option<String>,
    /// `LinkUp`, `Polling` and so on.
    pub physical_state: Option<String>,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: Option<String>,
    /// Bytes a second in one direction.
    pub rate: Option<u64>,
    /// Counters by their file names, in order; the data counters are bytes.
    pub counters: Vec<(String, u64)>,
    /// Counters of the device's own (`hw_counters`), in order.
    pub device_counters: Vec<(String, u64)>,
}

impl Port {
    /// A counter by its name.
    pub fn counter(&self, name: &str) -> Option<u64> {
        let both = self.counters.iter().chain(&self.device_counters);
        both.clone().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// Whether data can flow.
    pub fn active(&self) -> bool {
        self.state.as_deref() == Some("ACTIVE")
    }
}

/// Every port of every device.
///
/// # Errors
/// There is no such directory.
pub fn ports(root: &Path, skipped: &mut Skipped) -> Result<Vec<Port>, ReadError> {
    if !root.join(CLASS).is_dir() {
        return Err(ReadError::Absent(CLASS.to_owned()));
    }
    let mut found = Vec::new();
    for device in names(root, CLASS) {
        for port in names(root, &format!("{CLASS}/{device}/ports")) {
            let Ok(number) = port.parse() else { continue };
            found.push(one(root, &device, number, skipped));
        }
    }
    Ok(found)
}

fn one(root: &Path, device: &str, port: u32, skipped: &mut Skipped) -> Port {
    let base = format!("{CLASS}/{device}/ports/{port}");
    let state = |file: &str| {
        let text = text(root, &format!("{base}/{file}"))?;
        Some(text.split_once(": ").map_or(text.as_str(), |(_, word)| word).to_owned())
    };
    let rate = text(root, &format!("{base}/rate"));
    Port {
        device: device.to_owned(),
        port,
        state: state("state"),
        physical_state: state("phys_state"),
        link_layer: text(root, &format!("{base}/link_layer")),
        rate: rate.and_then(|text| bytes_per_second(&text)),
        counters: counters(root, &format!("{base}/counters"), skipped),
        device_counters: counters(root, &format!("{base}/hw_counters"), skipped),
    }
}

/// `200 Gb/sec (4X HDR)` as bytes a second: the number is that of the whole link.
fn bytes_per_second(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ')?;
    let gigabits: f64 = number.parse().ok()?;
    (unit.starts_with("Gb/sec") && gigabits > 0.0).then_some((gigabits * 125e6) as u64)
}

/// Every counter of a directory that has a number; a port without management says otherwise.
fn counters(root: &Path, directory: &str, skipped: &mut Skipped) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    // How long the device keeps a reading is a setting.
    for name in names(root, directory).into_iter().filter(|name| name != "lifespan") {
        let path = format!("{directory}/{name}");
        let value = match read(root, &path) {
            Ok(text) => text.trim().parse::<u64>().ok(),
            Err(ReadError::Absent(_)) => continue,
            Err(_) => None,
        };
        let scale = if WORDS.contains(&name.as_str()) { WORD_BYTES } else { 1 };
        match value.and_then(|value| value.checked_mul(scale)) {
            Some(value) => found.push((name, value)),
            None => skipped.note(&path),
        }
    }
    found
}

/// Bytes a second that a port sent and received between two readings.
pub fn rates(before: &Port, after: &Port, seconds: f64) -> (Option<f64>, Option<f64>) {
    if (&before.device, before.port) != (&after.device, after.port) {
        return (None, None);
    }
    let pair = |name: &str| Pair::wide(before.counter(name), after.counter(name));
    let [sent, received] = changes([pair("port_xmit_data"), pair("port_rcv_data")])
        .map(Change::count)
        .map(|count| per_second(count, seconds));
    (sent, received)
}

#[cfg(test)]
mod tests {
    use super::{Port, ports, rates};
    use crate::files::Skipped;
    use crate::test_tree::tree;

    fn read(lines: &str) -> (Vec<Port>, Skipped) {
        let root = tree(lines);
        let mut skipped = Skipped::default();
        (ports(root.path(), &mut skipped).expect("ports"), skipped)
    }

    fn port(rate: &str, sent: u64, received: u64) -> Port {
        let (mut found, _) = read(&format!(
            r"
            sys/class/infiniband/mlx5_0/ports/1/rate: {rate}
            sys/class/infiniband/mlx5_0/ports/1/state: 4: ACTIVE
            sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data: {sent}
            sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data: {received}
            "
        ));
        found.remove(0)
    }

    #[test]
    fn m01_words_are_four_octets_whatever_the_lanes() {
        let rate = "100 Gb/sec (2X HDR)";
        let (before, after) = (port(rate, 0, 400_000), port(rate, 0, 2_400_000));
        assert_eq!(rates(&before, &after, 1.0), (Some(0.0), Some(8_000_000.0)));
        assert_eq!((after.rate, after.active()), (Some(12_500_000_000), true));
    }

    #[test]
    fn two_gigabytes_a_second_are_eight_per_cent_of_200_gigabits() {
        let rate = "200 Gb/sec (4X HDR)";
        let (before, after) = (port(rate, 1_000_000_000_000, 0), port(rate, 1_005_000_000_000, 0));
        let sent = rates(&before, &after, 10.0).0.expect("a rate");
        assert!((sent - 2e9).abs() < 1.0);
        assert!((sent / after.rate.expect("a rate") as f64 - 0.08).abs() < 1e-9);
        // Cleared in between, or another port.
        assert_eq!(rates(&after, &before, 10.0), (None, None));
        assert_eq!(rates(&before, &Port { port: 2, ..after }, 10.0), (None, None));
    }

    #[test]
    fn m02_a_counter_that_a_virtual_port_lacks_is_left_out_alone() {
        let (found, skipped) = read(
            r"
            sys/class/infiniband/mlx5_1/ports/1/state: 1: DOWN
            sys/class/infiniband/mlx5_1/ports/1/phys_state: 3: Disabled
            sys/class/infiniband/mlx5_1/ports/1/link_layer: Ethernet
            sys/class/infiniband/mlx5_1/ports/1/rate: 40 Gb/sec (4X QDR)
            sys/class/infiniband/mlx5_1/ports/1/counters/link_downed: N/A (no PMA)
            sys/class/infiniband/mlx5_1/ports/1/counters/port_rcv_data: 77
            sys/class/infiniband/mlx5_1/ports/1/hw_counters/out_of_sequence: 5
            sys/class/infiniband/mlx5_1/ports/1/hw_counters/lifespan: 10
            ",
        );
        assert_eq!(found[0].counters, [("port_rcv_data".to_owned(), 308)]);
        assert_eq!(found[0].device_counters, [("out_of_sequence".to_owned(), 5)]);
        assert_eq!((skipped.count, found[0].counter("link_downed")), (1, None));
        assert_eq!(found[0].physical_state.as_deref(), Some("Disabled"));
        assert!(!found[0].active());
    }
}
