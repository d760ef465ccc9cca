//! `[[gpu]]`: how GPUs may be given out.

use crate::amount::Size;
use crate::check::Say;
use crate::key::section;
use muster_model::sharing::{DeviceMode, Isolation, MigMode, Sharing};
use muster_model::{CpuSet, Mib};
use serde::{Deserialize, Serialize};

section! {
    /// How GPUs may be given out; without any, each to one job at a time. Of several that speak of
    /// one GPU the last counts.
    many "gpu" GpuSection {
        /// The nodes as host lists, `["gpu[1-4]"]`; `["all"]` is every node.
        nodes: Vec<String> = vec!["all".to_owned()], "list of host lists";
        /// Which GPUs of these nodes, `0-3,6`; empty is all.
        indices: String = String::new(), "list of numbers";
        /// `whole` (one job at a time), `shared` (several, each with a share) or `mig` (cut into
        /// instances; on practice nodes as jobs ask for them, else as the driver has them).
        mode: GpuModeWord = GpuModeWord::Whole, "word";
        /// How the jobs on a shared GPU are kept apart: `none`, `time_slice` or `mps`.
        isolation: Isolation = Isolation::TimeSlice, "word";
        /// Into how many pieces `--gres=shard:` and `--gres=mps:` count a shared GPU; 0 is 100 for
        /// `mps` and none else.
        pieces: u32 = 0, "number";
        /// Memory of a shared GPU that no job is given: the driver's own.
        reserve: Option<Size> = None, "size";
    }
}

/// How a GPU may be given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuModeWord {
    /// To one job at a time.
    #[default]
    Whole,
    /// To several.
    Shared,
    /// As MIG instances.
    Mig,
}

impl GpuSection {
    /// The GPUs it speaks of; `None` is all of a node.
    pub fn which(&self) -> Option<CpuSet> {
        CpuSet::parse(self.indices.trim()).ok().filter(|set| !set.is_empty())
    }

    /// How they may be given out; where they are cut into instances, without saying which.
    pub fn device_mode(&self) -> DeviceMode {
        match self.mode {
            GpuModeWord::Whole => DeviceMode::Whole,
            GpuModeWord::Mig => DeviceMode::Mig(MigMode::default()),
            GpuModeWord::Shared => DeviceMode::Shared(Sharing {
                isolation: self.isolation,
                pieces: match (self.pieces, self.isolation) {
                    (0, Isolation::Mps) => 100,
                    (pieces, _) => pieces,
                },
                reserve: self.reserve.map_or(Mib::ZERO, Into::into),
            }),
        }
    }
}

/// What is wrong with the sections.
pub(crate) fn check(sections: &[GpuSection], say: &mut Say<'_>) {
    for (i, section) in sections.iter().enumerate() {
        let text = section.indices.trim();
        if !text.is_empty() && CpuSet::parse(text).is_err() {
            let hint = Some("write numbers and ranges such as 0-3,6".to_owned());
            say("gpu", i, "indices", format!("{text:?} is no list of GPUs"), hint);
        }
        if section.pieces > 100_000 {
            say("gpu", i, "pieces", "a GPU has at most 100000 pieces".to_owned(), None);
        }
        if section.isolation == Isolation::Mig {
            let hint = Some("write mode = \"mig\"".to_owned());
            say("gpu", i, "isolation", "instances are a mode of their own".to_owned(), hint);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use muster_model::sharing::{DeviceMode, Isolation};

    #[test]
    fn sections_become_modes() {
        let text = "[[gpu]]\nmode = \"shared\"\nisolation = \"mps\"\nreserve = \"1G\"\n\
                    [[gpu]]\nnodes = [\"n1\"]\nindices = \"0-1\"\nmode = \"mig\"\n";
        let config = Config::parse(text, "m").expect("good");
        let DeviceMode::Shared(sharing) = config.gpu[0].device_mode() else { panic!("not shared") };
        assert_eq!((sharing.isolation, sharing.pieces), (Isolation::Mps, 100));
        assert_eq!((sharing.reserve.0, config.gpu[0].which()), (1024, None));
        assert_eq!(config.gpu[1].which().map(|set| set.len()), Some(2));
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_line() {
        let text = "[[gpu]]\nindices = \"a-b\"\nisolation = \"mig\"\n";
        let error = Config::parse(text, "m").expect_err("bad");
        let lines: Vec<Option<u32>> = error.problems.iter().map(|p| p.line).collect();
        assert_eq!(lines, [Some(2), Some(3)], "{error}");
    }
}
