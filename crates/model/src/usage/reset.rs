//! When meters are cleared.

use crate::Timestamp;
use serde::{Deserialize, Serialize};

/// When all use is cleared (slurm.conf manual, `PriorityUsageResetPeriod`). The calendar is UTC's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageReset {
    /// Never.
    #[default]
    Never,
    /// At midnight.
    Daily,
    /// On Sunday at midnight.
    Weekly,
    /// On the first of each month.
    Monthly,
    /// On the first of January, April, July and October.
    Quarterly,
    /// On the first of January.
    Yearly,
}

impl UsageReset {
    /// The last instant at or before this one at which meters were cleared.
    pub fn last_before(self, now: Timestamp) -> Option<Timestamp> {
        let today = now.secs().div_euclid(86_400);
        let day = match self {
            Self::Never => return None,
            Self::Daily => today,
            // The first day of 1970 was a Thursday, four days after a Sunday.
            Self::Weekly => today - (today + 4).rem_euclid(7),
            Self::Monthly | Self::Quarterly | Self::Yearly => {
                let (year, month) = year_and_month(today);
                first_of(
                    year,
                    match self {
                        Self::Monthly => month,
                        Self::Quarterly => (month - 1) / 3 * 3 + 1,
                        _ => 1,
                    },
                )
            }
        };
        Some(Timestamp::from_secs(day * 86_400))
    }
}

/// Year and month of a day counted from 1970-01-01, in the Gregorian calendar.
fn year_and_month(day: i64) -> (i64, i64) {
    // Years begin in March here, so that the leap day is the last: 400 years are 146097 days.
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month)
}

/// The first day of a month, counted from 1970-01-01.
fn first_of(year: i64, month: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_begin_where_the_calendar_says() {
        // Thursday, 2024-02-29T12:00:00Z.
        let noon = Timestamp::from_secs(1_709_208_000);
        for (period, secs) in [
            (UsageReset::Daily, 1_709_164_800),
            (UsageReset::Weekly, 1_708_819_200),
            (UsageReset::Monthly, 1_706_745_600),
            (UsageReset::Quarterly, 1_704_067_200),
            (UsageReset::Yearly, 1_704_067_200),
        ] {
            assert_eq!(period.last_before(noon), Some(Timestamp::from_secs(secs)), "{period:?}");
        }
        assert_eq!(UsageReset::Never.last_before(noon), None);
        let first = UsageReset::Monthly.last_before(Timestamp::from_secs(1_709_251_200));
        assert_eq!(first, Some(Timestamp::from_secs(1_709_251_200)));
    }
}
