//! The closed list of error and warning codes of this crate.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($variant:ident $word:literal $summary:literal,)+) => {
        /// The kind of a problem; the word is stable and names a page in `docs/errors`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Code {
            $(
                #[doc = $summary]
                #[serde(rename = $word)]
                $variant,
            )+
        }

        impl Code {
            /// Every code, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The stable word, for example `E_TIME_BAD`.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// One sentence on what the code means.
            pub fn summary(self) -> &'static str {
                match self {
                    $(Self::$variant => $summary,)+
                }
            }
        }
    };
}

codes! {
    TimeBad "E_TIME_BAD" "A time limit or other duration cannot be read.",
    TimeOrder "E_TIME_ORDER" "The minimum time is longer than the time limit.",
    WhenBad "E_WHEN_BAD" "A begin time or deadline cannot be read.",
    WhenOrder "E_WHEN_ORDER" "A deadline has passed, or lies before the job could begin and end.",
    MemoryBad "E_MEMORY_BAD" "A memory size cannot be read.",
    CountBad "E_COUNT_BAD" "A count cannot be read or is out of range.",
    NodesBad "E_NODES_BAD" "A node count or range of node counts cannot be read.",
    HostListBad "E_HOSTLIST_BAD" "A list of host names cannot be read.",
    HostListLong "E_HOSTLIST_LONG" "A list of host names stands for more hosts than the bound allows.",
    GresBad "E_GRES_BAD" "A list of generic resources (GRES) cannot be read.",
    TresBad "E_TRES_BAD" "A list of trackable resources (TRES) cannot be read.",
    ArrayBad "E_ARRAY_BAD" "A job array specification cannot be read or has an index that is too large.",
    DependencyBad "E_DEPENDENCY_BAD" "A dependency cannot be read.",
    PatternBad "E_PATTERN_BAD" "A file name pattern cannot be used.",
    ExportBad "E_EXPORT_BAD" "The list of exported variables cannot be read.",
    SignalBad "E_SIGNAL_BAD" "A signal specification cannot be read.",
    ConstraintBad "E_CONSTRAINT_BAD" "A constraint on node features cannot be read.",
    ConstraintRefused "E_CONSTRAINT_REFUSED" "A constraint can be read, but muster cannot honour it.",
    AffinityBad "E_AFFINITY_BAD" "A rule on labels, taints or other jobs cannot be read.",
    TopologyBad "E_TOPOLOGY_BAD" "A wish for near nodes, or a topology.conf, cannot be read.",
    LicenseBad "E_LICENSE_BAD" "A list of licences cannot be read.",
    NameBad "E_NAME_BAD" "A name is empty, too long or has a character that names may not have.",
    ValueBad "E_VALUE_BAD" "The value is not one of the words that this option takes.",
    RepeatBad "E_REPEAT_BAD" "A list of counts per node such as `2(x3),1` cannot be read.",
    ExitCodeBad "E_EXIT_CODE_BAD" "An exit code text such as `0:9` cannot be read.",
    StateBad "E_STATE_BAD" "A job state is not one of Slurm's names or codes.",
    ScriptEmpty "E_SCRIPT_EMPTY" "The batch script is empty.",
    ScriptInterpreter "E_SCRIPT_INTERPRETER" "The batch script does not start with `#!`.",
    ScriptNul "E_SCRIPT_NUL" "The batch script contains a NUL character.",
    ScriptEncoding "E_SCRIPT_ENCODING" "The batch script is text in another encoding than UTF-8.",
    ScriptDos "E_SCRIPT_DOS" "The batch script has DOS line endings.",
    ScriptLarge "E_SCRIPT_LARGE" "The batch script is larger than the bound allows.",
    LineLong "E_LINE_LONG" "A directive line is longer than the bound allows.",
    LineQuote "E_LINE_QUOTE" "A quote is opened in a directive line and not closed.",
    LineWord "E_LINE_WORD" "A word in a directive line is not an option.",
    OptionUnknown "E_OPTION_UNKNOWN" "No option of this name exists.",
    OptionAmbiguous "E_OPTION_AMBIGUOUS" "A shortened option could be more than one.",
    OptionArgument "E_OPTION_ARGUMENT" "An option lacks its argument, or has one that it does not take.",
    OptionRefused "E_OPTION_REFUSED" "muster knows this option and cannot do what it asks.",
    OptionPlace "E_OPTION_PLACE" "The option exists, but not here.",
    OptionsMany "E_OPTIONS_MANY" "There are more options or components than the bound allows.",
    Conflict "E_CONFLICT" "Two options exclude one another.",
    Missing "E_MISSING" "An option needs another one that is not there.",
    Impossible "E_IMPOSSIBLE" "The amounts asked for contradict one another, so the job could never start.",
    WarnNotDone "W_NOT_DONE" "The option is accepted, but part of what it asks is not done.",
    WarnDeprecated "W_DEPRECATED" "The spelling still works and has a newer form.",
    WarnChanged "W_CHANGED" "One option changes what another asks for.",
}

impl Code {
    /// True for codes that do not stop a submission.
    pub fn is_warning(self) -> bool {
        self.word().starts_with("W_")
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_distinct_and_say_whether_they_warn() {
        let mut words: Vec<_> = Code::ALL.iter().map(|code| code.word()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Code::ALL.len());
        assert!(words.iter().all(|word| word.starts_with("E_") || word.starts_with("W_")));
    }
}
