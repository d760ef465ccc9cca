//! Amounts of resources: integers in base units, with checked arithmetic only.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! amount {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $int);

        impl $name {
            /// Nothing.
            pub const ZERO: Self = Self(0);

            /// The sum, or the largest amount where the sum does not fit.
            #[must_use]
            pub const fn plus(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }

            /// What is left after taking `other`, or `None` where there is less than that.
            #[must_use]
            pub const fn minus(self, other: Self) -> Option<Self> {
                match self.0.checked_sub(other.0) {
                    Some(rest) => Some(Self(rest)),
                    None => None,
                }
            }

            /// What is left after taking `other`, at least zero.
            #[must_use]
            pub const fn minus_or_zero(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// `n` times this amount, or the largest amount where that does not fit.
            #[must_use]
            pub const fn times(self, n: $int) -> Self {
                Self(self.0.saturating_mul(n))
            }

            /// True where there is nothing.
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }
        }
    };
}

amount!(
    /// CPU time share in millicores: 1000 is one CPU as Slurm counts them.
    Cpus(u64)
);
amount!(
    /// Memory in MiB.
    Mib(u64)
);
amount!(
    /// A share of one device in thousandths: 1000 is the whole device.
    DeviceMilli(u32)
);

impl Cpus {
    /// So many whole CPUs.
    pub const fn whole(count: u32) -> Self {
        Self(count as u64 * 1000)
    }

    /// The number of whole CPUs needed to hold this share (rounded up).
    pub const fn count(self) -> u32 {
        self.0.div_ceil(1000) as u32
    }
}

impl DeviceMilli {
    /// A whole device.
    pub const WHOLE: Self = Self(1000);
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1000) {
            write!(f, "{}", self.0 / 1000)
        } else {
            write!(f, "{}m", self.0)
        }
    }
}

impl fmt::Display for Mib {
    /// Prints the largest binary unit that divides the amount: `512M`, `4G`, `1T`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const GIB: u64 = 1024;
        const TIB: u64 = 1024 * 1024;
        match self.0 {
            0 => f.write_str("0"),
            m if m % TIB == 0 => write!(f, "{}T", m / TIB),
            m if m % GIB == 0 => write!(f, "{}G", m / GIB),
            m => write!(f, "{m}M"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_with_the_largest_unit_that_divides() {
        assert_eq!(Mib(1536).to_string(), "1536M");
        assert_eq!(Mib(4096).to_string(), "4G");
        assert_eq!(Mib(2 * 1024 * 1024).to_string(), "2T");
        assert_eq!(Cpus::whole(2).to_string(), "2");
        assert_eq!(Cpus(1500).to_string(), "1500m");
    }

    #[test]
    fn taking_more_than_there_is_is_none() {
        assert_eq!(Mib(1).minus(Mib(2)), None);
        assert_eq!(Mib(3).minus(Mib(2)), Some(Mib(1)));
        assert_eq!(Cpus(1001).count(), 2);
    }
}
