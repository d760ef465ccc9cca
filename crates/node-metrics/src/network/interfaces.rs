//! Interfaces by `/sys/class/net`: what ifstat, `ip -s link` and `sar -n DEV` count, and the state,
//! speed and duplex that ethtool shows.

use std::path::Path;

use crate::counter::{Change, Pair, Width, changes, per_second};
use crate::files::{ReadError, Skipped, names, number, text};

const CLASS: &str = "sys/class/net";

/// The counters of an interface, by their file names.
pub const COUNTERS: [&str; 23] = [
    "rx_bytes",
    "rx_packets",
    "rx_errors",
    "rx_dropped",
    "rx_fifo_errors",
    "rx_frame_errors",
    "rx_compressed",
    "multicast",
    "tx_bytes",
    "tx_packets",
    "tx_errors",
    "tx_dropped",
    "tx_fifo_errors",
    "collisions",
    "tx_carrier_errors",
    "tx_compressed",
    "rx_crc_errors",
    "rx_length_errors",
    "rx_missed_errors",
    "rx_over_errors",
    "tx_aborted_errors",
    "tx_heartbeat_errors",
    "tx_window_errors",
];

/// Where the bytes and packets stand in [`COUNTERS`].
const RX_BYTES: usize = 0;
const RX_PACKETS: usize = 1;
const TX_BYTES: usize = 8;
const TX_PACKETS: usize = 9;

/// What is said of a link whose speed nobody knows: down, virtual, or all ones in 16 or 32 bits.
const NO_SPEEDS: [i64; 4] = [0, -1, 65_535, 4_294_967_295];

/// One interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number; another one under the same name is another interface.
    pub index: Option<u32>,
    /// Whether a device is behind it; bonds, bridges and the like count the same traffic again.
    pub device: bool,
    /// The driver of that device.
    pub driver: Option<String>,
    /// `up`, `down`, `unknown` and so on.
    pub state: Option<String>,
    /// Whether there is a carrier; unknown while the interface is switched off.
    pub carrier: Option<bool>,
    /// How often the carrier came or went.
    pub carrier_changes: Option<u64>,
    /// Bytes a second in one direction, where the link says.
    pub speed: Option<u64>,
    /// Both directions at once, where the link says.
    pub full_duplex: Option<bool>,
    /// The largest packet.
    pub mtu: Option<u64>,
    /// The counters of [`COUNTERS`], in that order.
    pub counters: Vec<Option<u64>>,
}

impl Interface {
    /// A counter by its name.
    pub fn counter(&self, name: &str) -> Option<u64> {
        let at = COUNTERS.iter().position(|known| *known == name)?;
        self.counters.get(at).copied().flatten()
    }

    /// It has a carrier, but nobody knows how fast it is.
    pub fn speed_unknown(&self) -> bool {
        self.carrier == Some(true) && self.device && self.speed.is_none()
    }
}

/// Every interface.
///
/// # Errors
/// There is no such directory.
pub fn interfaces(root: &Path, skipped: &mut Skipped) -> Result<Vec<Interface>, ReadError> {
    if !root.join(CLASS).is_dir() {
        return Err(ReadError::Absent(CLASS.to_owned()));
    }
    // The bonding driver puts files of its own beside the interfaces.
    let found = names(root, CLASS)
        .into_iter()
        .filter(|name| root.join(CLASS).join(name).join("statistics").is_dir());
    Ok(found.map(|name| interface(root, name, skipped)).collect())
}

fn interface(root: &Path, name: String, skipped: &mut Skipped) -> Interface {
    let base = format!("{CLASS}/{name}");
    let file = |file: &str| text(root, &format!("{base}/{file}"));
    let mut count = |counter: &str| {
        let text = file(&format!("statistics/{counter}"))?;
        let value = text.parse().ok();
        if value.is_none() {
            skipped.note(&format!("{name} {counter}: {text}"));
        }
        value
    };
    let counters = COUNTERS.iter().map(|counter| count(counter)).collect();
    let speed = number::<i64>(root, &format!("{base}/speed"))
        .filter(|megabits| !NO_SPEEDS.contains(megabits) && *megabits > 0);
    let driver = std::fs::read_link(root.join(&base).join("device/driver")).ok();
    Interface {
        index: number(root, &format!("{base}/ifindex")),
        device: root.join(&base).join("device").exists(),
        driver: driver.and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned())),
        state: file("operstate"),
        carrier: file("carrier").map(|text| text == "1"),
        carrier_changes: number(root, &format!("{base}/carrier_changes")),
        speed: speed.map(|megabits| megabits as u64 * 125_000),
        full_duplex: match file("duplex").as_deref() {
            Some("full") => Some(true),
            Some("half") => Some(false),
            _ => None,
        },
        mtu: number(root, &format!("{base}/mtu")),
        name,
        counters,
    }
}

/// What an interface carried, a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Bytes that came.
    pub rx_bytes: Option<f64>,
    /// Packets that came.
    pub rx_packets: Option<f64>,
    /// Bytes that went.
    pub tx_bytes: Option<f64>,
    /// Packets that went.
    pub tx_packets: Option<f64>,
    /// The share of what the link can carry, 0 to 1; none where its speed is not known.
    pub used: Option<f64>,
}

/// What an interface carried between two readings so many seconds apart; `width` is that of its
/// driver's counters.
pub fn rates(before: &Interface, after: &Interface, width: Width, seconds: f64) -> Rates {
    if before.name != after.name || before.index != after.index {
        return Rates::default();
    }
    let pair = |at: usize| Pair {
        before: before.counters.get(at).copied().flatten(),
        after: after.counters.get(at).copied().flatten(),
        width,
    };
    let found = changes([pair(RX_BYTES), pair(RX_PACKETS), pair(TX_BYTES), pair(TX_PACKETS)]);
    let [rx_bytes, rx_packets, tx_bytes, tx_packets] =
        found.map(Change::count).map(|count| per_second(count, seconds));
    Rates { rx_bytes, rx_packets, tx_bytes, tx_packets, used: used(after, rx_bytes, tx_bytes) }
}

fn used(interface: &Interface, rx: Option<f64>, tx: Option<f64>) -> Option<f64> {
    let (rx, tx) = (rx?, tx?);
    let carried = if interface.full_duplex == Some(false) { rx + tx } else { rx.max(tx) };
    Some(carried / interface.speed? as f64)
}

#[cfg(test)]
mod tests {
    use super::{Interface, interfaces, rates};
    use crate::counter::Width;
    use crate::files::Skipped;
    use crate::test_tree::tree;

    fn read(lines: &str) -> (Vec<Interface>, Skipped) {
        let root = tree(lines);
        let mut skipped = Skipped::default();
        (interfaces(root.path(), &mut skipped).expect("interfaces"), skipped)
    }

    /// An interface with these bytes in and out.
    fn with(rx: u64, tx: u64, rx_packets: u64) -> Interface {
        let (mut found, _) = read(&format!(
            r"
            sys/class/net/eth0/ifindex: 2
            sys/class/net/eth0/statistics/rx_bytes: {rx}
            sys/class/net/eth0/statistics/tx_bytes: {tx}
            sys/class/net/eth0/statistics/rx_packets: {rx_packets}
            sys/class/net/eth0/statistics/tx_packets: 0
            sys/class/net/eth0/speed: 25000
            sys/class/net/eth0/duplex: full
            "
        ));
        found.remove(0)
    }

    #[test]
    fn m03_a_speed_that_nobody_knows_costs_no_counter() {
        let (found, skipped) = read(
            r"
            sys/class/net/a/speed: -1
            sys/class/net/a/statistics/rx_bytes: 1
            sys/class/net/b/speed: Invalid argument
            sys/class/net/b/statistics/rx_bytes: 2
            sys/class/net/c/speed: 65535
            sys/class/net/c/carrier: 1
            sys/class/net/c/device/vendor: 0x15b3
            sys/class/net/c/statistics/rx_bytes: 3
            sys/class/net/d/speed: 25000
            sys/class/net/d/carrier: 1
            sys/class/net/d/device/vendor: 0x15b3
            sys/class/net/d/statistics/rx_bytes: 4
            sys/class/net/bonding_masters: bond0
            ",
        );
        let speeds: Vec<Option<u64>> = found.iter().map(|one| one.speed).collect();
        assert_eq!(speeds, [None, None, None, Some(3_125_000_000)]);
        let bytes: Vec<Option<u64>> = found.iter().map(|one| one.counter("rx_bytes")).collect();
        assert_eq!(bytes, [Some(1), Some(2), Some(3), Some(4)]);
        let unknown: Vec<bool> = found.iter().map(Interface::speed_unknown).collect();
        assert_eq!((unknown, skipped.count), (vec![false, false, true, false], 0));
    }

    #[test]
    fn m15_a_new_interface_and_a_fall_give_no_rate() {
        let mut old = with(5_000_000_000, 0, 10);
        old.index = Some(7);
        assert_eq!(rates(&old, &with(1_200, 0, 1), Width::Bits64, 10.0).rx_bytes, None);
        let rate = rates(&with(1_200, 0, 1), &with(601_200, 0, 2), Width::Bits64, 10.0);
        assert_eq!(rate.rx_bytes, Some(60_000.0));
        let (before, after) = (with(4_294_000_000, 0, 10), with(5_000, 0, 20));
        assert_eq!(rates(&before, &after, Width::Bits64, 10.0).rx_bytes, None);
        assert_eq!(rates(&before, &after, Width::Bits32, 10.0).rx_bytes, Some(97_229.6));
    }

    #[test]
    fn use_is_that_of_sar() {
        let rate = |after: Interface| rates(&with(0, 0, 0), &after, Width::Bits64, 1.0);
        assert_eq!(rate(with(2_500_000_000, 100_000_000, 0)).used, Some(0.8));
        let mut half = with(1_000_000_000, 500_000_000, 0);
        half.full_duplex = Some(false);
        assert_eq!(rate(half).used, Some(0.48));
        let mut unknown = with(5, 5, 0);
        unknown.speed = None;
        assert_eq!(rate(unknown).used, None);
    }

    #[test]
    fn a_counter_that_is_no_number_is_noted_alone() {
        let (found, skipped) = read(
            "sys/class/net/x/statistics/rx_bytes: N/A\nsys/class/net/x/statistics/tx_bytes: 5\n\
             sys/class/net/x/operstate: down\nsys/class/net/x/mtu: 9000\n",
        );
        assert_eq!((found[0].counter("rx_bytes"), found[0].counter("tx_bytes")), (None, Some(5)));
        assert_eq!(
            (found[0].state.as_deref(), found[0].mtu, skipped.count),
            (Some("down"), Some(9_000), 1)
        );
        assert!(interfaces("/nowhere".as_ref(), &mut Skipped::default()).is_err());
    }
}
