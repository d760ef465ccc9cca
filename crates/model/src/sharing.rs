//! Sharing one GPU: how a device may be given out, and what a job asks of a part of one.
//!
//! # Rules
//! - A device is [`DeviceMode::Whole`] (one job at a time), [`DeviceMode::Shared`] (several jobs,
//!   each with thousandths and memory of it) or [`DeviceMode::Mig`] (cut into instances).
//! - A GPU count whose model names a MIG profile (`1g.10gb`, `a100_1g.10gb`) is met by instances of
//!   exactly that profile.
//! - A request with [`Request::gpu_share`](crate::Request::gpu_share), or with memory and
//!   [`Request::gpu_isolation`](crate::Request::gpu_isolation), is met by a part of a shared device
//!   that fences at least as well; memory without a share also by a MIG instance that has as much;
//!   and by a whole device where the policy says so.
//! - Every other GPU request is met by whole devices, of which nobody has a part.
//! - Share and memory count on one device, never summed over several, and use that is not muster's
//!   counts as taken.

use crate::{DeviceMilli, Mib, is_default};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How well the users of one device are kept apart, the weakest first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Nothing fences them.
    #[default]
    None,
    /// The driver gives them turns; memory is not fenced.
    TimeSlice,
    /// NVIDIA's Multi-Process Service bounds their threads and memory; one user at a time.
    Mps,
    /// Hardware instances.
    Mig,
}

impl Isolation {
    /// Every class, the weakest first.
    pub const ALL: [Self; 4] = [Self::None, Self::TimeSlice, Self::Mps, Self::Mig];

    /// The word for it in requests and configuration.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::TimeSlice => "time-slice",
            Self::Mps => "mps",
            Self::Mig => "mig",
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl std::str::FromStr for Isolation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase().replace('_', "-");
        let lower = if lower == "timeslice" { "time-slice" } else { lower.as_str() };
        Self::ALL
            .into_iter()
            .find(|class| class.word() == lower)
            .ok_or_else(|| format!("`{text}` is not one of none, time-slice, mps, mig"))
    }
}

/// How a device may be given out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceMode {
    /// To one job at a time.
    #[default]
    Whole,
    /// To several jobs at a time, or to one as a whole.
    Shared(Sharing),
    /// As hardware instances only.
    Mig(MigMode),
}

/// A device that several jobs use at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sharing {
    /// How well they are kept apart.
    pub isolation: Isolation,
    /// Into how many pieces `--gres=shard:` and `mps:` count it; 0 offers none of these.
    #[serde(skip_serializing_if = "is_default")]
    pub pieces: u32,
    /// Memory that no job is given: the driver's own.
    #[serde(skip_serializing_if = "is_default")]
    pub reserve: Mib,
}

/// A device cut into instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MigMode {
    /// Instances are made for the jobs that ask for them; else those there are are given out.
    #[serde(skip_serializing_if = "is_default")]
    pub carve: bool,
    /// The instances there are, by start.
    #[serde(skip_serializing_if = "is_default")]
    pub instances: Vec<MigInstance>,
}

/// A MIG instance that exists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigInstance {
    /// Where on the device it lies.
    pub slot: MigSlot,
    /// The driver's id of it, `MIG-...`.
    pub uuid: String,
}

/// Where a MIG instance lies on its device.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct MigSlot {
    /// The first of its memory slots.
    pub start: u8,
    /// How many memory slots it takes.
    pub size: u8,
    /// Its compute slices: the number before `g`.
    pub compute: u8,
    /// It has the media extensions (`+me`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub media: bool,
}

impl MigSlot {
    /// Its memory slots as bits.
    pub const fn mask(self) -> u16 {
        (((1u32 << self.size) - 1) << self.start) as u16
    }
}

/// What part of each GPU a job asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuShare {
    /// Thousandths of the device, 1 to 1000.
    Milli(DeviceMilli),
    /// So many of the pieces that the device is counted in (`--gres=shard:`, `mps:`), at least one.
    Pieces(u32),
}

impl GpuShare {
    /// The thousandths it is on a device counted in so many pieces, rounded down but at least one;
    /// `None` where the device is not counted in pieces or has fewer.
    pub fn on(self, pieces: u32) -> Option<DeviceMilli> {
        match self {
            Self::Milli(share) => (share <= DeviceMilli::WHOLE).then_some(share),
            Self::Pieces(count) if count > pieces || count == 0 => None,
            Self::Pieces(count) => {
                let milli = u64::from(count) * 1000 / u64::from(pieces);
                Some(DeviceMilli((milli as u32).max(1)))
            }
        }
    }
}

/// What of each device a request asks for, by the rules in the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceWish {
    /// The whole device.
    Whole,
    /// A part of one.
    Part {
        /// How much, where it says so.
        share: Option<GpuShare>,
        /// Fenced at least so well.
        isolation: Isolation,
        /// A whole device will do too.
        or_whole: bool,
    },
}

impl crate::Request {
    /// What of each device it asks for, where a count names no MIG profile.
    pub fn device_wish(&self, policy: &crate::DevicePolicy) -> DeviceWish {
        let by_memory =
            self.gpu_memory.is_some() && (self.gpu_isolation.is_some() || policy.memory_is_part);
        if self.gpu_share.is_none() && !by_memory {
            return DeviceWish::Whole;
        }
        DeviceWish::Part {
            share: self.gpu_share,
            isolation: self.gpu_isolation.unwrap_or_default(),
            or_whole: policy.whole_for_parts,
        }
    }
}

/// What a part of a shared device with so much memory to give comes to: its thousandths and memory.
///
/// A share brings its part of the memory unless the request says how much; memory alone brings the
/// share that it is of the device, rounded down so that memory alone decides. `None` where the device can never give it.
pub fn part_of(
    sharing: &Sharing,
    device_memory: Mib,
    share: Option<GpuShare>,
    memory: Option<Mib>,
) -> Option<(DeviceMilli, Mib)> {
    let there = device_memory.minus_or_zero(sharing.reserve);
    let (milli, memory) = match (share, memory) {
        (Some(share), memory) => {
            let milli = share.on(sharing.pieces)?;
            let part = u128::from(there.0) * u128::from(milli.0) / 1000;
            (milli, memory.unwrap_or(Mib(part as u64)))
        }
        (None, Some(memory)) => {
            let milli = u128::from(memory.0) * 1000 / u128::from(there.0.max(1));
            (DeviceMilli(u32::try_from(milli).unwrap_or(u32::MAX).max(1)), memory)
        }
        (None, None) => (DeviceMilli::WHOLE, there),
    };
    (milli <= DeviceMilli::WHOLE && memory <= there).then_some((milli, memory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t37_pieces_become_thousandths_rounded_down() {
        let of = |pieces| GpuShare::Pieces(200).on(pieces).map(|m| m.0 / 10);
        assert_eq!([1300, 1200, 1100, 1000].map(of), [15, 16, 18, 20].map(Some));
        assert_eq!(of(100), None);
    }

    #[test]
    fn c25_memory_counts_on_one_card_with_the_drivers_reserve() {
        let fits = |reserve: u64| {
            let sharing = Sharing { reserve: Mib(reserve), ..Sharing::default() };
            let there = Mib(46_068 - reserve);
            let (_, each) = part_of(&sharing, Mib(46_068), None, Some(Mib(2000))).expect("fits");
            there.0 / each.0
        };
        assert_eq!(fits(0), 23);
        assert_eq!(fits(46_068 * 3 / 100), 22);
    }

    #[test]
    fn a_share_brings_its_memory_and_memory_its_share() {
        let sharing = Sharing { pieces: 5, ..Sharing::default() };
        let part = |share, memory| part_of(&sharing, Mib(40_960), share, memory);
        let half = Some(GpuShare::Milli(DeviceMilli(500)));
        assert_eq!(part(half, None), Some((DeviceMilli(500), Mib(20_480))));
        assert_eq!(part(half, Some(Mib(1))), Some((DeviceMilli(500), Mib(1))));
        assert_eq!(part(None, Some(Mib(20_000))), Some((DeviceMilli(488), Mib(20_000))));
        assert_eq!(part(Some(GpuShare::Pieces(3)), None), Some((DeviceMilli(600), Mib(24_576))));
        assert_eq!(part(Some(GpuShare::Pieces(6)), None), None);
        assert_eq!(part(None, Some(Mib(40_961))), None);
    }

    #[test]
    fn classes_have_words() {
        for class in Isolation::ALL {
            assert_eq!(class.to_string().parse(), Ok(class));
        }
        assert_eq!("timeslice".parse(), Ok(Isolation::TimeSlice));
        assert!("hard".parse::<Isolation>().is_err());
    }
}
