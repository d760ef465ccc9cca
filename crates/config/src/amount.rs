//! Durations, sizes and practice nodes as the file writes them.

use muster_model::{Mib, Seconds, TimeLimit};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A duration: `90s`, `30m`, `12h`, `7d`, `2w`; a bare number is seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Bare", into = "String")]
pub struct Duration(pub u64);

/// A time limit: a duration, or `unlimited`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Bare", into = "String")]
pub struct Limit(pub Option<Duration>);

/// An amount of memory: `512M`, `4G`, `1T` (powers of 1024); a bare number is MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Bare", into = "String")]
pub struct Size(pub u64);

/// Invented nodes: `NODESxGPUS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Bare", into = "String")]
pub struct Practice {
    /// How many nodes.
    pub nodes: u32,
    /// GPUs a node.
    pub gpus: u32,
}

/// A number or a text in the file.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Bare {
    Number(u64),
    Text(String),
}

impl Bare {
    pub(crate) fn text(self) -> String {
        match self {
            Self::Number(n) => n.to_string(),
            Self::Text(text) => text,
        }
    }
}

macro_rules! from_text {
    ($($name:ident),*) => {$(
        impl TryFrom<Bare> for $name {
            type Error = String;
            fn try_from(bare: Bare) -> Result<Self, String> {
                bare.text().parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    )*};
}

from_text!(Duration, Limit, Size, Practice);

/// A number with one of these units behind it.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let unit = unit.trim();
    let factor = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1;
    number.checked_mul(factor)
}

impl FromStr for Duration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const UNITS: &[(&str, u64)] =
            &[("", 1), ("s", 1), ("m", 60), ("h", 3600), ("d", 86_400), ("w", 604_800)];
        with_unit(text, UNITS).map(Self).ok_or_else(|| {
            format!("expected a duration such as 90s, 30m, 12h or 7d, found {text:?}")
        })
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("unlimited") {
            return Ok(Self(None));
        }
        let limit = text.parse::<Duration>().map_err(|error| {
            error.replace("expected a duration", "expected unlimited or a duration")
        })?;
        Ok(Self(Some(limit)))
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const G: u64 = 1024;
        const UNITS: &[(&str, u64)] = &[
            ("", 1),
            ("M", 1),
            ("MB", 1),
            ("MiB", 1),
            ("G", G),
            ("GB", G),
            ("GiB", G),
            ("T", G * G),
            ("TB", G * G),
            ("TiB", G * G),
        ];
        with_unit(text, UNITS)
            .map(Self)
            .ok_or_else(|| format!("expected a size such as 512M, 80G or 1T, found {text:?}"))
    }
}

impl Practice {
    /// The most practice nodes.
    pub const NODES_MAX: u32 = 1_024;
    /// The most GPUs on one.
    pub const GPUS_MAX: u32 = 16;

    pub(crate) fn is_fine(self) -> bool {
        (1..=Self::NODES_MAX).contains(&self.nodes) && self.gpus <= Self::GPUS_MAX
    }
}

impl FromStr for Practice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const NODES_MAX: u32 = Practice::NODES_MAX;
        const GPUS_MAX: u32 = Practice::GPUS_MAX;
        let wrong = || {
            format!(
                "expected NODESxGPUS such as 4x8 (1 to {NODES_MAX} nodes with up to {GPUS_MAX} \
                 GPUs each), found {text:?}"
            )
        };
        let (nodes, gpus) = text.split_once(['x', 'X']).ok_or_else(wrong)?;
        let nodes = nodes.parse().map_err(|_| wrong())?;
        let gpus = gpus.parse().map_err(|_| wrong())?;
        let size = Self { nodes, gpus };
        if size.is_fine() { Ok(size) } else { Err(wrong()) }
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0s"),
            s if s % 86_400 == 0 => write!(f, "{}d", s / 86_400),
            s if s % 3600 == 0 => write!(f, "{}h", s / 3600),
            s if s % 60 == 0 => write!(f, "{}m", s / 60),
            s => write!(f, "{s}s"),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(limit) => limit.fmt(f),
            None => f.write_str("unlimited"),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Mib(self.0).fmt(f)
    }
}

impl fmt::Display for Practice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.nodes, self.gpus)
    }
}

impl From<Duration> for Seconds {
    fn from(duration: Duration) -> Self {
        Self(duration.0)
    }
}

impl From<Seconds> for Duration {
    fn from(seconds: Seconds) -> Self {
        Self(seconds.0)
    }
}

impl From<Limit> for TimeLimit {
    fn from(limit: Limit) -> Self {
        limit.0.map_or(Self::Unlimited, |d| Self::Of(d.into()))
    }
}

impl From<Size> for Mib {
    fn from(size: Size) -> Self {
        Self(size.0)
    }
}

impl From<Mib> for Size {
    fn from(size: Mib) -> Self {
        Self(size.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_print_what_they_read() {
        for text in ["0s", "90s", "30m", "12h", "7d"] {
            assert_eq!(text.parse::<Duration>().unwrap().to_string(), text);
        }
        for text in ["512M", "80G", "1T"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
        for text in ["4x8", "1x0"] {
            assert_eq!(text.parse::<Practice>().unwrap().to_string(), text);
        }
        assert_eq!("unlimited".parse::<Limit>().unwrap(), Limit(None));
    }

    #[test]
    fn wrong_amounts_say_what_is_right() {
        for text in ["", "7y", "-1s", "99999999999999999999d"] {
            assert!(text.parse::<Duration>().unwrap_err().contains("such as 90s"), "{text}");
        }
        for text in ["", "4", "0x8", "4x999", "4x8:4", "axb"] {
            assert!(text.parse::<Practice>().unwrap_err().contains("such as 4x8"), "{text}");
        }
        assert!("80Q".parse::<Size>().is_err());
    }
}
