//! What NVIDIA says to do about each Xid, for Ampere and newer.
//!
//! Source: <https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html>; what muster makes
//! of it ([`Class`]) is its own.

/// What an Xid asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Nothing: it tells of something, or follows another.
    Information,
    /// To be looked at when it comes again.
    Watch,
    /// The program did wrong, or its part of the GPU did: start it again.
    Application,
    /// Somebody has to change the software.
    Administrator,
    /// No new jobs, then a reset of the GPU.
    DrainReset,
    /// No new jobs, then a new start of the machine.
    DrainReboot,
    /// No new jobs, then hands on the machine.
    DrainHands,
}

impl Class {
    /// Whether the machine should get no new jobs.
    pub fn drains(self) -> bool {
        self >= Self::DrainReset
    }

    /// The word for it in labels.
    pub fn word(self) -> &'static str {
        match self {
            Self::Information => "information",
            Self::Watch => "watch",
            Self::Application => "application",
            Self::Administrator => "administrator",
            Self::DrainReset => "drain_reset",
            Self::DrainReboot => "drain_reboot",
            Self::DrainHands => "drain_hands",
        }
    }
}

/// One line of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What happened, in a few words.
    pub what: &'static str,
    /// NVIDIA's immediate action, in its own word.
    pub action: &'static str,
    /// What muster makes of it.
    pub class: Class,
}

const fn entry(what: &'static str, action: &'static str, class: Class) -> Entry {
    Entry { what, action, class }
}

/// The entry of an Xid; `None` for numbers that the catalogue lacks.
pub fn entry_of(xid: u32) -> Option<Entry> {
    use Class::{
        Administrator, Application, DrainHands, DrainReboot, DrainReset, Information, Watch,
    };
    Some(match xid {
        8 | 11 | 25 | 32 | 80 => entry("stopped or bad commands", "RESTART_APP", Application),
        13 => entry("exception in the graphics engine", "RESTART_APP", Application),
        31 => entry("memory page fault", "RESTART_APP", Application),
        39..=41 | 60 | 68..=72 | 75..=77 | 82..=86 | 88..=89 | 96..=105 | 126..=135 | 139 => {
            entry("error in an engine", "RESTART_APP", Application)
        }
        43 => entry("stopped processing", "IGNORE", Information),
        45 => entry("channel removed after another error", "WORKFLOW_XID_45", Information),
        46 | 62 | 109 | 110 | 119 | 120 | 136 | 140 | 143 | 155 | 156 | 158 => {
            entry("hung, or a controller of it stopped", "RESET_GPU", DrainReset)
        }
        48 => entry("double-bit memory error", "WORKFLOW_XID_48", DrainReset),
        54 => entry("auxiliary power is missing", "CHECK_MECHANICALS", DrainHands),
        63 => entry("a row's replacement is recorded", "IGNORE", Watch),
        64 => entry("a row could not be replaced", "RESET_GPU", DrainReset),
        44 | 66 | 92 | 93 | 106 | 107 | 121 | 141 => entry("various", "IGNORE", Watch),
        74 => entry("NVLink error", "WORKFLOW_NVLINK_ERR", DrainReset),
        78 => entry("virtual GPU could not start", "UPDATE_SWFW", Administrator),
        79 => entry("fell off the bus", "RESTART_BM", DrainReboot),
        94 => entry("memory error, contained", "RESTART_APP", Application),
        95 => entry("memory error, not contained", "RESET_GPU", DrainReset),
        137 => entry("NVLink privilege error", "IGNORE", Application),
        144..=150 => entry("NVLink error", "WORKFLOW_NVLINK5_ERR", Watch),
        151 => entry("key rotation error", "RESTART_VM", Administrator),
        154 => entry("recovery action changed", "XID_154_EVAL", Watch),
        157 => entry("retirement of a resource failed", "IGNORE", Watch),
        _ => return None,
    })
}

/// What an Xid asks for, the text of its message heeded: NVLink errors say whether they are fatal,
/// and 154 names the action. A number that nobody knows is watched.
pub fn class_of(xid: u32, message: &str) -> Class {
    match xid {
        144..=150 if has_word(message, "Fatal") => Class::DrainReset,
        154 if message.contains("Reboot") => Class::DrainReboot,
        154 if message.contains("Reset") || message.contains("Drain") => Class::DrainReset,
        154 if message.contains("(None)") => Class::Information,
        _ => entry_of(xid).map_or(Class::Watch, |entry| entry.class),
    }
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|letter: char| !letter.is_alphanumeric()).any(|found| found == word)
}

#[cfg(test)]
mod tests {
    use super::{Class, class_of, entry_of};

    #[test]
    fn only_what_the_hardware_did_drains() {
        for (xid, class) in [
            (13, Class::Application),
            (31, Class::Application),
            (43, Class::Information),
            (45, Class::Information),
            (48, Class::DrainReset),
            (54, Class::DrainHands),
            (63, Class::Watch),
            (74, Class::DrainReset),
            (79, Class::DrainReboot),
            (94, Class::Application),
            (95, Class::DrainReset),
            (119, Class::DrainReset),
            (157, Class::Watch),
            (9_999, Class::Watch),
        ] {
            assert_eq!(class_of(xid, ""), class, "{xid}");
        }
        assert!(!Class::Application.drains() && Class::DrainReboot.drains());
        assert_eq!(entry_of(79).map(|entry| entry.action), Some("RESTART_BM"));
        assert_eq!(entry_of(1), None);
    }

    #[test]
    fn some_messages_say_what_to_do() {
        assert_eq!(class_of(149, "NETIR_LINK_EVT Fatal XC0 i0 Link 05"), Class::DrainReset);
        assert_eq!(class_of(149, "NETIR_LINK_EVT Nonfatal XC0 i0 Link 05"), Class::Watch);
        assert_eq!(
            class_of(
                154,
                "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
            ),
            Class::DrainReboot
        );
        assert_eq!(
            class_of(154, "recovery action changed to 0x1 (GPU Reset Required)"),
            Class::DrainReset
        );
        assert_eq!(class_of(154, "changed to 0x0 (None)"), Class::Information);
    }
}
