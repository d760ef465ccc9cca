//! `[slurm]`: a running Slurm that jobs are handed to.

use crate::Config;
use crate::amount::Duration;
use crate::check::Say;
use crate::key::section;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The partition of this machine where none is described.
const MAIN: &str = "main";

section! {
    /// A running Slurm that jobs are handed to, beside this machine. It is used where `partitions`
    /// names any.
    one "slurm" SlurmSection {
        /// The partitions that stand for some of Slurm's, as muster's name = Slurm's name, such as
        /// `{ hpc = "main" }`. Nodes, limits and default memory are those that Slurm says.
        partitions: BTreeMap<String, String> = BTreeMap::new(), "table of names", restart;
        /// Slurm's configuration file; without it the machine's own.
        conf: Option<PathBuf> = None, "path", restart;
        /// The folder of Slurm's commands; without it `PATH` and where sites put them, muster's own
        /// links passed over.
        commands: Option<PathBuf> = None, "path", restart;
        /// A slurmrestd that is asked for jobs, nodes and reservations before the commands are:
        /// `unix:/path/of/its/socket` or `http://host:port`, with the token in the daemon's
        /// `SLURM_JWT`.
        rest: Option<String> = None, "text", restart;
        /// Slurm is asked how its jobs stand no more often than this.
        poll_least: Duration = Duration(2), "duration", restart;
        /// Slurm is asked at least this often, also while nothing changes there.
        poll_most: Duration = Duration(30), "duration", restart;
        /// At most so many of Slurm's commands that ask are run in a minute; a look takes three.
        requests_per_minute: u32 = 120, "number", restart;
    }
}

impl SlurmSection {
    /// True where jobs are handed to a Slurm.
    pub fn is_used(&self) -> bool {
        !self.partitions.is_empty()
    }
}

pub(crate) fn check(config: &Config, say: &mut Say) {
    let slurm = &config.slurm;
    for (name, theirs) in &slurm.partitions {
        let named = config.partition.iter().any(|partition| partition.name == *name);
        if named || (config.partition.is_empty() && name == MAIN) {
            let message = format!(
                "partition {name} stands for Slurm's {theirs} and for this \
                                   machine's nodes: a partition has nodes of one engine"
            );
            let hint = "give Slurm's another name, such as slurm".to_owned();
            say("slurm", 0, "partitions", message, Some(hint));
        }
        if name.trim().is_empty() || theirs.trim().is_empty() {
            say(
                "slurm",
                0,
                "partitions",
                "a partition needs a name on both sides".to_owned(),
                None,
            );
        }
    }
    if slurm.poll_least.0 == 0 || slurm.poll_most < slurm.poll_least {
        let message = "poll_least is at least a second, and poll_most no less than it".to_owned();
        say("slurm", 0, "poll_least", message, None);
    }
    if slurm.requests_per_minute == 0 {
        let message = "requests_per_minute is at least 1".to_owned();
        say("slurm", 0, "requests_per_minute", message, None);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::problems;

    #[test]
    fn a_partition_is_slurms_or_this_machines() {
        assert!(problems("[slurm]\npartitions = { hpc = \"main\" }\n").is_empty());
        let said = problems("[slurm]\npartitions = { main = \"main\" }\n");
        assert!(said[0].contains("one engine"), "{said:?}");
        let both =
            "[slurm]\npartitions = { a = \"x\" }\n[[partition]]\nname = \"a\"\nnodes = [\"all\"]\n";
        assert_eq!(problems(both).len(), 1);
        let free = both.replace("{ a =", "{ main =");
        assert!(problems(&free).is_empty());
    }

    #[test]
    fn bounds_of_polling_make_sense() {
        assert_eq!(problems("[slurm]\npoll_least = \"0s\"\n").len(), 1);
        assert_eq!(problems("[slurm]\npoll_least = \"1m\"\npoll_most = \"5s\"\n").len(), 1);
        assert_eq!(problems("[slurm]\nrequests_per_minute = 0\n").len(), 1);
    }
}
