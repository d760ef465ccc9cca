//! The reservation behind which a partition is handed over.

use super::words;
use crate::read::lease_name;
use std::collections::BTreeSet;

/// The lease of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The partition.
    pub partition: String,
    /// It ends so many seconds from when it is made or extended.
    pub seconds: u32,
}

/// Sets the comment of a node.
pub fn comment(node: &str, text: &str) -> Vec<String> {
    words(&["update", &format!("NodeName={node}"), &format!("Comment={text}")])
}

impl Lease {
    /// Takes the partition over: plain jobs wait from now on.
    ///
    /// `FLEX` lets jobs in it outlast it, `IGNORE_JOBS` lets it begin over running ones,
    /// `OVERLAP` lets the site make reservations of its own, and `NO_HOLD_JOBS` lets jobs that
    /// wait in it be scheduled by Slurm once it lapses.
    pub fn create(&self, user: &str) -> Vec<String> {
        words(&[
            "create",
            &self.name(),
            &format!("PartitionName={}", self.partition),
            "Nodes=ALL",
            "StartTime=now",
            &self.end(),
            &format!("Users={user}"),
            "Flags=FLEX,IGNORE_JOBS,OVERLAP,NO_HOLD_JOBS",
        ])
    }

    /// Puts its end off.
    pub fn extend(&self) -> Vec<String> {
        words(&["update", &self.name(), &self.end()])
    }

    /// Lets users in whose jobs are about to start, and others out again.
    pub fn admit(&self, add: &BTreeSet<&str>, remove: &BTreeSet<&str>) -> Vec<Vec<String>> {
        let one = |sign: char, user: &str| {
            words(&["update", &self.name(), &format!("Users{sign}={user}")])
        };
        let add = add.iter().map(|user| one('+', user));
        add.chain(remove.iter().map(|user| one('-', user))).collect()
    }

    /// Gives the partition back: ends it now. Slurm deletes no reservation in which jobs run, and
    /// forgets one that is over.
    pub fn cut(&self) -> Vec<String> {
        words(&["update", &self.name(), "EndTime=now"])
    }

    fn name(&self) -> String {
        format!("ReservationName={}", lease_name(&self.partition))
    }

    fn end(&self) -> String {
        format!("EndTime=now+{}", self.seconds)
    }
}
