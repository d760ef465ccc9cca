//! What network cards say of themselves, as `ethtool` shows it: link modes, speed, duplex, pauses
//! and rings, through the kernel's netlink (Linux 5.6 and newer).
//!
//! Numbers are those of `linux/ethtool_netlink.h`, described in
//! <https://docs.kernel.org/networking/ethtool-netlink.html>.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use netlink_packet_core::{NetlinkPayload, NlaBuffer, NlasIterator};

use super::netlink::{Family, attribute, messages};
use crate::files::{ReadError, Skipped, bytes_up_to};

/// Cards are asked again after so long: drivers take a lock that all of networking has in common.
const EVERY: Duration = Duration::from_secs(15);

/// The answers in a captured tree, one after the other.
const CAPTURED: &str = "commands/ethtool.netlink";
const CAPTURED_BYTES_MAX: u64 = 16 << 20;

// What is asked (`ETHTOOL_MSG_*_GET`).
const ASK_MODES: u8 = 4;
const ASK_STATE: u8 = 6;
const ASK_RINGS: u8 = 15;
const ASK_PAUSE: u8 = 21;

// What is answered (`ETHTOOL_MSG_*_GET_REPLY`).
const MODES: u8 = 4;
const STATE: u8 = 6;
const RINGS: u8 = 16;
const PAUSE: u8 = 22;

/// The first attribute of every question and answer.
const HEADER: u16 = 1;
/// What marks an attribute that is made of others (`NLA_F_NESTED`).
const NESTED: u16 = 1 << 15;
/// `ETHTOOL_A_HEADER_FLAGS`, and its bit that asks for statistics too.
const HEADER_FLAGS: u16 = 3;
const FLAG_STATS: u32 = 4;

/// A network card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Card {
    /// Its interface.
    pub name: String,
    /// The interface's number.
    pub index: Option<u32>,
    /// Bytes a second that its link carries now.
    pub speed: Option<u64>,
    /// Both directions at once.
    pub full_duplex: Option<bool>,
    /// Whether it settles speed and duplex with the other end.
    pub negotiates: Option<bool>,
    /// The link modes that it can do, `25000baseCR/Full`.
    pub modes: Vec<String>,
    /// The lanes that its link uses.
    pub lanes: Option<u32>,
    /// Why there is no link.
    pub down_because: Option<&'static str>,
    /// What it does when it is overrun.
    pub pause: Pause,
    /// Its rings of packets.
    pub rings: Rings,
}

/// Pauses: a card that is overrun asks the other end to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// It waits when asked.
    pub heeds: Option<bool>,
    /// It asks.
    pub asks: Option<bool>,
    /// How often it was asked.
    pub received: Option<u64>,
    /// How often it asked.
    pub sent: Option<u64>,
}

/// Packets that wait in a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rings {
    /// That came: so many fit.
    pub rx: Option<u32>,
    /// And could fit at most.
    pub rx_max: Option<u32>,
    /// That go.
    pub tx: Option<u32>,
    /// And at most.
    pub tx_max: Option<u32>,
}

impl Card {
    /// Bytes a second of the fastest link that it can do.
    pub fn speed_max(&self) -> Option<u64> {
        self.modes.iter().filter_map(|mode| mode_speed(mode)).max()
    }
}

/// Asks this machine's cards, or reads what a captured machine's answered.
#[derive(Default)]
pub struct Reader {
    last: Option<(Instant, Vec<Card>)>,
}

impl Reader {
    /// All cards, by the order of the interfaces' names.
    ///
    /// # Errors
    /// The kernel does not know the question, or refuses; a captured tree is without.
    pub fn read(&mut self, root: &Path, skipped: &mut Skipped) -> Result<Vec<Card>, ReadError> {
        if root != Path::new("/") {
            return Ok(cards(&bytes_up_to(root, CAPTURED, CAPTURED_BYTES_MAX)?, skipped));
        }
        if let Some((at, cards)) = &self.last
            && at.elapsed() < EVERY
        {
            return Ok(cards.clone());
        }
        let found = cards(&ask()?, skipped);
        self.last = Some((Instant::now(), found.clone()));
        Ok(found)
    }
}

/// What the kernel answers to all questions; those that it does not know are left out.
fn ask() -> Result<Vec<u8>, ReadError> {
    let mut family = Family::open("ethtool").map_err(|error| refused(&error))?;
    let (mut answers, mut refusal) = (Vec::new(), None);
    for command in [ASK_MODES, ASK_STATE, ASK_RINGS, ASK_PAUSE] {
        let flags = if command == ASK_PAUSE { FLAG_STATS } else { 0 };
        let header = attribute(NESTED | HEADER, &attribute(HEADER_FLAGS, &flags.to_ne_bytes()));
        match family.dump(command, header) {
            Ok(answer) => answers.extend_from_slice(&answer),
            Err(error) => refusal = Some(error),
        }
    }
    match refusal {
        Some(error) if answers.is_empty() => Err(refused(&error)),
        _ => Ok(answers),
    }
}

fn refused(error: &io::Error) -> ReadError {
    const ENOENT: i32 = 2;
    const EPROTONOSUPPORT: i32 = 93;
    const EOPNOTSUPP: i32 = 95;
    const EAFNOSUPPORT: i32 = 97;
    let name = "netlink of ethtool".to_owned();
    match error.raw_os_error() {
        // An old kernel, or none with netlink.
        Some(ENOENT | EPROTONOSUPPORT | EAFNOSUPPORT) => ReadError::Absent(name),
        Some(EOPNOTSUPP) => ReadError::Unsupported(name),
        _ if error.kind() == io::ErrorKind::PermissionDenied => ReadError::Denied(name),
        _ => ReadError::Failed(name, error.to_string()),
    }
}

/// The cards of which these answers tell.
pub fn cards(answers: &[u8], skipped: &mut Skipped) -> Vec<Card> {
    let mut found: BTreeMap<String, Card> = BTreeMap::new();
    for payload in messages(answers) {
        let message = match payload {
            Ok(NetlinkPayload::InnerMessage(message)) => message,
            Ok(_) => continue,
            Err(error) => {
                skipped.note(&error.to_string());
                continue;
            }
        };
        let all = Attributes::of(&message.attributes);
        let header = all.nested(HEADER);
        let Some(name) = header.text(2) else {
            skipped.note("an answer about no interface");
            continue;
        };
        let card = found.entry(name.clone()).or_default();
        card.name = name;
        card.index = header.number(1).or(card.index);
        match message.command {
            MODES => modes(card, &all),
            STATE => card.down_because = all.byte(5).and_then(reason),
            RINGS => {
                let (rx, rx_max) = (all.number(6), all.number(2));
                card.rings = Rings { rx, rx_max, tx: all.number(9), tx_max: all.number(5) };
            }
            PAUSE => {
                let counts = all.nested(5);
                card.pause = Pause {
                    heeds: all.byte(3).map(|on| on != 0),
                    asks: all.byte(4).map(|on| on != 0),
                    received: counts.long(3),
                    sent: counts.long(2),
                };
            }
            _ => {}
        }
    }
    found.into_values().collect()
}

fn modes(card: &mut Card, all: &Attributes<'_>) {
    /// What is said of a speed that nobody knows.
    const NO_SPEEDS: [u32; 3] = [0, u32::MAX, 65_535];
    card.negotiates = all.byte(2).map(|on| on != 0);
    card.speed = all
        .number(5)
        .filter(|megabits| !NO_SPEEDS.contains(megabits))
        .map(|megabits| u64::from(megabits) * 125_000);
    card.full_duplex = match all.byte(6) {
        Some(0) => Some(false),
        Some(1) => Some(true),
        _ => None,
    };
    card.lanes = all.number(9).filter(|lanes| *lanes > 0);
    // Every bit of the set is one that the card can do; those that it offers have a value too.
    let bits = all.nested(3);
    let bits = bits.nested(3);
    let names = bits.0.iter().filter(|bit| bit.kind() == 1);
    let names = names.filter_map(|bit| Attributes::of(bit.value()).text(2));
    // Ports, pauses and error correction are in the same set.
    card.modes = names.filter(|name| mode_speed(name).is_some()).collect();
}

/// `25000baseCR/Full` carries 25,000 Mb a second.
fn mode_speed(mode: &str) -> Option<u64> {
    let (megabits, _) = mode.split_once("base")?;
    megabits.parse::<u64>().ok()?.checked_mul(125_000)
}

/// `enum ethtool_link_ext_state` in words.
fn reason(state: u8) -> Option<&'static str> {
    const REASONS: [&str; 11] = [
        "autonegotiation failed",
        "link training failed",
        "the ends do not agree",
        "bad signal",
        "no cable",
        "the cable is faulty",
        "the module cannot be read",
        "calibration failed",
        "the module wants more power than there is",
        "too hot",
        "the module",
    ];
    REASONS.get(usize::from(state)).copied()
}

/// The attributes of a message or of one of its attributes.
struct Attributes<'a>(Vec<NlaBuffer<&'a [u8]>>);

impl<'a> Attributes<'a> {
    /// Up to one that is cut.
    fn of(bytes: &'a [u8]) -> Self {
        Self(NlasIterator::new(bytes).flatten().collect())
    }

    fn value(&self, kind: u16) -> Option<&'a [u8]> {
        let found = self.0.iter().find(|attribute| attribute.kind() == kind)?;
        // The value lives as long as the message, not as long as the one who looks at it.
        found.into_inner().get(4..usize::from(found.length()))
    }

    fn nested(&self, kind: u16) -> Attributes<'a> {
        Attributes::of(self.value(kind).unwrap_or_default())
    }

    fn byte(&self, kind: u16) -> Option<u8> {
        self.value(kind)?.first().copied()
    }

    fn number(&self, kind: u16) -> Option<u32> {
        Some(u32::from_ne_bytes(self.value(kind)?.try_into().ok()?))
    }

    /// All ones is how the kernel says that a card does not count.
    fn long(&self, kind: u16) -> Option<u64> {
        let count = u64::from_ne_bytes(self.value(kind)?.try_into().ok()?);
        (count != u64::MAX).then_some(count)
    }

    fn text(&self, kind: u16) -> Option<String> {
        let bytes = self.value(kind)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{Card, Pause, Reader, Rings, cards, mode_speed};
    use crate::files::{ReadError, Skipped};
    use crate::network::netlink::attribute;
    use crate::test_tree::tree;

    /// What the kernel answered of a virtual machine's `lo`, `eth0` and others.
    const CAPTURED: &[u8] = include_bytes!("../../tests/ethtool/virtio.netlink");

    fn read(answers: &[u8]) -> (Vec<Card>, Skipped) {
        let mut skipped = Skipped::default();
        (cards(answers, &mut skipped), skipped)
    }

    /// A message of generic netlink with these attributes.
    fn message(command: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
        let rest = attributes.concat();
        let mut bytes = (20 + rest.len() as u32).to_ne_bytes().to_vec();
        bytes.extend([20, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, command, 1, 0, 0]);
        bytes.extend(rest);
        bytes
    }

    fn header(name: &str) -> Vec<u8> {
        let name = attribute(2, &[name.as_bytes(), &[0]].concat());
        attribute(0x8001, &[attribute(1, &7_u32.to_ne_bytes()), name].concat())
    }

    fn number(kind: u16, value: u32) -> Vec<u8> {
        attribute(kind, &value.to_ne_bytes())
    }

    /// A card for 25 and 10 Gb whose link came up with 10, in the kernel's words.
    fn slow_card() -> Vec<u8> {
        let bit = |index: u32, name: &str, offered: bool| {
            let name = attribute(2, &[name.as_bytes(), &[0]].concat());
            let value = if offered { attribute(3, &[]) } else { Vec::new() };
            attribute(0x8001, &[number(1, index), name, value].concat())
        };
        let bits = [
            bit(6, "Autoneg", true),
            bit(7, "FIBRE", true),
            bit(13, "Pause", true),
            bit(31, "25000baseCR/Full", false),
            bit(42, "10000baseCR/Full", true),
        ];
        let ours = [number(2, 92), attribute(0x8003, &bits.concat())].concat();
        let modes = [
            header("eth0"),
            attribute(2, &[1]),
            attribute(0x8003, &ours),
            number(5, 10_000),
            attribute(6, &[1]),
            number(9, 1),
        ];
        let counts = [attribute(2, &3_u64.to_ne_bytes()), attribute(3, &41_u64.to_ne_bytes())];
        let pause = [
            header("eth0"),
            attribute(2, &[0]),
            attribute(3, &[1]),
            attribute(4, &[0]),
            attribute(0x8005, &counts.concat()),
        ];
        let rings =
            [header("eth0"), number(2, 8_192), number(5, 8_192), number(6, 512), number(9, 1_024)];
        [message(4, &modes), message(22, &pause), message(16, &rings)].concat()
    }

    #[test]
    fn a_link_below_what_its_card_can_do_is_seen_with_its_pauses() {
        let (found, skipped) = read(&slow_card());
        assert_eq!(skipped, Skipped::default());
        let card = &found[0];
        assert_eq!((found.len(), card.name.as_str(), card.index), (1, "eth0", Some(7)));
        assert_eq!(card.modes, ["25000baseCR/Full", "10000baseCR/Full"]);
        assert_eq!(card.speed, Some(1_250_000_000));
        assert_eq!(card.speed_max(), Some(3_125_000_000));
        assert_eq!((card.full_duplex, card.negotiates), (Some(true), Some(true)));
        assert_eq!(card.lanes, Some(1));
        let counted = (Some(41), Some(3));
        assert_eq!((card.pause.received, card.pause.sent), counted);
        assert_eq!((card.pause.heeds, card.pause.asks), (Some(true), Some(false)));
        let (rx, tx) = ((Some(512), Some(8_192)), (Some(1_024), Some(8_192)));
        assert_eq!(card.rings, Rings { rx: rx.0, rx_max: rx.1, tx: tx.0, tx_max: tx.1 });
    }

    #[test]
    fn what_a_card_does_not_say_is_not_known() {
        let down = [
            message(4, &[header("eth1"), number(5, u32::MAX), attribute(6, &[0xff])]),
            message(6, &[header("eth1"), attribute(2, &[0]), attribute(5, &[4])]),
            message(22, &[header("eth1"), attribute(0x8005, &attribute(2, &[0xff; 8]))]),
            message(99, &[header("eth1"), number(1, 1)]),
        ];
        let (found, skipped) = read(&down.concat());
        assert_eq!((found.len(), skipped.count), (1, 0));
        let known = Card {
            name: "eth1".to_owned(),
            index: Some(7),
            down_because: Some("no cable"),
            ..Card::default()
        };
        assert_eq!(found[0], known);
        assert_eq!((found[0].pause, found[0].speed_max()), (Pause::default(), None));
    }

    #[test]
    fn a_real_kernels_answers_are_read() {
        let (found, skipped) = read(CAPTURED);
        assert_eq!(skipped, Skipped::default());
        let card = found.iter().find(|card| card.name == "eth0").expect("eth0");
        // As `ethtool eth0` and `ethtool -g eth0` showed it there.
        assert_eq!((card.speed, card.full_duplex, card.negotiates), (None, None, Some(false)));
        let fits = Some(256);
        assert_eq!(card.rings, Rings { rx: fits, rx_max: fits, tx: fits, tx_max: fits });
        assert_eq!((card.pause, card.modes.len()), (Pause::default(), 0));
    }

    #[test]
    fn answers_that_are_cut_or_spoilt_at_any_place_end_the_reading_and_nothing_else() {
        let whole = slow_card();
        for at in 0..whole.len() {
            read(&whole[..at]);
            for value in [0, 1, 0xff] {
                let mut spoilt = whole.clone();
                spoilt[at] = value;
                read(&spoilt);
            }
        }
        assert_eq!(read(&whole[..whole.len() - 1]).1.count, 1);
        assert_eq!(read(&message(4, &[number(5, 1)])).1.count, 1);
    }

    #[test]
    fn this_machine_answers_or_says_why_not() {
        let read = Reader::default().read("/".as_ref(), &mut Skipped::default());
        match read {
            Ok(cards) => assert!(cards.iter().all(|card| !card.name.is_empty()), "{cards:?}"),
            Err(why) => println!("{why}"),
        }
        let captured = Reader::default().read(tree("").path(), &mut Skipped::default());
        assert!(matches!(captured, Err(ReadError::Absent(_))));
    }

    #[test]
    fn modes_tell_their_speed() {
        for (mode, megabits) in
            [("100baseT/Half", 100), ("2500baseX/Full", 2_500), ("800000baseCR8/Full", 800_000)]
        {
            assert_eq!(mode_speed(mode), Some(megabits * 125_000), "{mode}");
        }
        for other in ["Autoneg", "Asym_Pause", "FEC_baseR", ""] {
            assert_eq!(mode_speed(other), None, "{other}");
        }
    }
}
