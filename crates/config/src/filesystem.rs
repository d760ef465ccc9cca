//! Filesystems whose saturation holds jobs back.

use crate::Config;
use crate::amount::{Duration, Size};
use crate::key::section;
use std::collections::BTreeSet;

section! {
    /// A filesystem, network filesystem or disk that jobs can saturate. Jobs that ask for its licence (`-L NAME`)
    /// wait while it is; those that run, and those that do not ask for it, go on. What counts is what this machine
    /// sees, in the figures that `GET /v1/machine` tells.
    many "filesystem" FilesystemSection {
        /// Its name as `GET /v1/machine` tells it: `work` (Lustre, Storage Scale), `server:/export` (NFS), `meta`
        /// or `storage` (BeeGFS, all servers together), `sda`.
        name: String = String::new(), "text";
        /// The licence; a `[[licence]]` section has to be there for it.
        licence: String = String::new(), "word";
        /// Saturated where it is busy for more than so many percent of the time (disks).
        busy: Option<u32> = None, "percent";
        /// Saturated where a read takes longer than so many milliseconds (disks, NFS).
        wait: Option<u32> = None, "milliseconds";
        /// Saturated above so many metadata operations a second (Lustre, Storage Scale, NFS).
        metadata: Option<u32> = None, "number";
        /// Saturated where more than this is read and written in a second.
        throughput: Option<Size> = None, "size";
        /// How long a figure must be above without a break before jobs are held.
        hold_after: Duration = Duration(60), "duration";
        /// Jobs are let go where all figures are below so many percent of their thresholds ...
        release_below: u32 = 80, "percent";
        /// ... for so long without a break.
        release_after: Duration = Duration(120), "duration";
    }
}

impl FilesystemSection {
    /// True where nothing would ever hold a job.
    fn has_no_threshold(&self) -> bool {
        self.busy.is_none()
            && self.wait.is_none()
            && self.metadata.is_none()
            && self.throughput.is_none()
    }
}

/// What is wrong with the sections.
pub(crate) fn check(
    config: &Config,
    say: &mut impl FnMut(&str, usize, &str, String, Option<String>),
) {
    let mut seen = BTreeSet::new();
    for (at, one) in config.filesystem.iter().enumerate() {
        let mut wrong = |key: &str, message: String, hint: Option<String>| {
            say("filesystem", at, key, message, hint);
        };
        if one.name.trim().is_empty() {
            wrong("name", "a [[filesystem]] needs a name".to_owned(), None);
        }
        let known = config.licence.iter().map(|licence| licence.name.as_str());
        if !known.clone().any(|name| name == one.licence) {
            let message = format!("there is no [[licence]] {:?}", one.licence);
            wrong("licence", message, crate::check::did_you_mean(&one.licence, known));
        } else if !seen.insert(&one.licence) {
            let message = format!("licence {} is another filesystem's already", one.licence);
            wrong("licence", message, None);
        }
        if one.has_no_threshold() {
            let message = "one of busy, wait, metadata and throughput is needed".to_owned();
            wrong("name", message, None);
        }
        if one.busy.is_some_and(|percent| percent >= 100) {
            wrong("busy", "nothing is busier than 100 %: at most 99".to_owned(), None);
        }
        if one.release_below == 0 || one.release_below > 100 {
            wrong("release_below", "release_below is from 1 to 100".to_owned(), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::problems as messages;

    #[test]
    fn a_filesystem_has_a_licence_and_a_threshold() {
        let licence = "[[licence]]\nname = \"work_io\"\ntotal = 100\n";
        let with =
            |rest: &str| messages(&format!("{licence}[[filesystem]]\nname = \"work\"\n{rest}"));
        assert!(with("licence = \"work_io\"\nmetadata = 10000\n").is_empty());
        assert_eq!(
            with("licence = \"work_oi\"\nthroughput = \"4G\"\n"),
            ["there is no [[licence]] \"work_oi\""]
        );
        assert_eq!(
            with("licence = \"work_io\"\n"),
            ["one of busy, wait, metadata and throughput is needed"]
        );
        let twice = "licence = \"work_io\"\nbusy = 90\n\
                     [[filesystem]]\nname = \"sda\"\nlicence = \"work_io\"\nbusy = 100\nrelease_below = 0\n";
        assert_eq!(
            with(twice),
            [
                "licence work_io is another filesystem's already",
                "nothing is busier than 100 %: at most 99",
                "release_below is from 1 to 100",
            ]
        );
    }
}
