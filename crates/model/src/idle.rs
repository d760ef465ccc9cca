//! GPUs that a running job has and does not use.

use crate::{Seconds, Timestamp, is_default};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What was measured of a running job's GPUs: all of them do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IdleGpus {
    /// How many it has.
    pub gpus: u32,
    /// Since when none of them has done anything.
    pub since: Timestamp,
    /// When they are taken back if that stays so; `None` where its owner is told, and no more.
    #[serde(default, skip_serializing_if = "is_default")]
    pub until: Option<Timestamp>,
    /// They were taken back after so long.
    #[serde(default, skip_serializing_if = "is_default")]
    pub taken_after: Option<Seconds>,
}

impl fmt::Display for IdleGpus {
    /// One sentence for people, lower case, no full stop. Instants are left to the caller, who
    /// knows the reader's time zone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.taken_after {
            Some(after) => write!(f, "{}", did_nothing(self.gpus, after)),
            None if self.gpus == 1 => f.write_str("its GPU does nothing"),
            None => write!(f, "its {} GPUs do nothing", self.gpus),
        }
    }
}

/// `its 2 GPUs did nothing for 45 minutes`.
pub(crate) fn did_nothing(gpus: u32, after: Seconds) -> String {
    let whose = if gpus == 1 { "its GPU".to_owned() } else { format!("its {gpus} GPUs") };
    let time = match after.0 / 60 {
        0 => format!("{} seconds", after.0),
        1 => "a minute".to_owned(),
        minutes => format!("{minutes} minutes"),
    };
    format!("{whose} did nothing for {time}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_how_many_and_for_how_long() {
        let idle =
            IdleGpus { gpus: 2, since: Timestamp::from_secs(60), until: None, taken_after: None };
        assert_eq!(idle.to_string(), "its 2 GPUs do nothing");
        assert_eq!(IdleGpus { gpus: 1, ..idle }.to_string(), "its GPU does nothing");
        for (after, text) in [
            (2_700, "its GPU did nothing for 45 minutes"),
            (60, "its GPU did nothing for a minute"),
            (9, "its GPU did nothing for 9 seconds"),
        ] {
            let taken = IdleGpus { gpus: 1, taken_after: Some(Seconds(after)), ..idle };
            assert_eq!(taken.to_string(), text);
        }
    }
}
