//! Acting: what muster has Slurm do, each act as the words of one `scontrol`.
//!
//! Every act may be repeated.

mod jobs;
mod lease;

pub use jobs::{Release, give_back, hold, let_go, release};
pub use lease::{Lease, comment};

use crate::{Commands, SlurmError};
use muster_model::IndexRanges;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// So many acts go to one `scontrol`: what it complains of is read to a bound.
const AT_ONCE: usize = 25;

/// Carries acts out, in order; what Slurm had against some of them. An act that fails does not
/// keep the next ones.
///
/// # Errors
/// [`SlurmError`] where `scontrol` cannot be run at all or slurmctld cannot be reached; acts before
/// that may have been done.
pub fn carry_out(commands: &Commands, acts: &[Vec<String>]) -> Result<Vec<String>, SlurmError> {
    let mut complaints = Vec::new();
    let fits = |act: &Vec<String>| act.iter().all(|word| is_plain(word));
    for chunk in acts.chunk_by(|one, next| fits(one) == fits(next)) {
        // Within a line no word can have a space in it.
        if !fits(&chunk[0]) {
            for act in chunk {
                let words: Vec<&str> = act.iter().map(String::as_str).collect();
                match commands.scontrol(&words) {
                    Err(SlurmError::Failed { said, .. }) if !is_unreached(&said) => {
                        complaints.push(said);
                    }
                    done => drop(done?),
                }
            }
            continue;
        }
        for lines in chunk.chunks(AT_ONCE) {
            let lines: Vec<String> = lines.iter().map(|act| act.join(" ")).collect();
            let said = commands.scontrol_lines(&lines)?;
            if is_unreached(&said) {
                return Err(SlurmError::Failed { command: "scontrol".to_owned(), said });
            }
            complaints.extend(said.lines().map(str::to_owned).filter(|line| !line.is_empty()));
        }
    }
    Ok(complaints)
}

/// The same with what is alike for tasks of an array said once: `JobId=12_3` and `JobId=12_4` with
/// the same words behind become `JobId=12_[3-4]`, which is one call of slurmctld.
///
/// Not where nodes are required: `scontrol` takes those for a wish to resize, and then only one
/// number (`Invalid job ID 12_[3-4]`).
pub fn together(acts: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let mut merged: Vec<Vec<String>> = Vec::new();
    // Where what is told of an array stands, with the tasks so far.
    let mut told: BTreeMap<(u32, Vec<String>), (usize, Vec<u32>)> = BTreeMap::new();
    for act in acts {
        if let Some((array, index)) = task_of(&act) {
            match told.entry((array, act[2..].to_vec())) {
                Entry::Occupied(mut others) => {
                    others.get_mut().1.push(index);
                    continue;
                }
                Entry::Vacant(first) => drop(first.insert((merged.len(), vec![index]))),
            }
        }
        merged.push(act);
    }
    for ((array, _), (at, tasks)) in told {
        if tasks.len() > 1 {
            let tasks: IndexRanges = tasks.into_iter().collect();
            merged[at][1] = format!("JobId={array}_[{tasks}]");
        }
    }
    merged
}

/// The array and the index that an update is about, where it is about one task and could be about
/// several.
fn task_of(act: &[String]) -> Option<(u32, u32)> {
    let (array, index) = act.get(1)?.strip_prefix("JobId=")?.split_once('_')?;
    let resizes = act.iter().any(|word| word.starts_with("ReqNodeList="));
    (!resizes).then_some((array.parse().ok()?, index.parse().ok()?))
}

/// True where a complaint is that slurmctld was not reached, and no word of slurmctld's: munge
/// fails, or it is down or restarting. Slurm's own texts for these errors.
fn is_unreached(said: &str) -> bool {
    let texts = [
        "Protocol authentication error",
        "Unable to contact slurm controller",
        "Socket timed out",
        "Zero Bytes were transmitted or received",
        "Slurm backup controller in standby mode",
    ];
    texts.iter().any(|text| said.contains(text))
}

/// True for what stays one word in a line of `scontrol`.
fn is_plain(value: &str) -> bool {
    let parts = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'' | '\\');
    !value.is_empty() && !value.contains(parts)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `scontrol` of 22.05 said it while munged was stopped; and a refusal.
    #[test]
    fn a_munge_that_fails_is_no_refusal() {
        let munge = "scontrol: error: Munge encode failed: Failed to access \"/x\": No such file \
            or directory (Did you start munged?)\nslurm_update error: Protocol authentication error";
        assert!(is_unreached(munge));
        assert!(!is_unreached("Access/permission denied\nslurm_update error: Invalid job id"));
    }

    #[test]
    fn tasks_that_are_told_the_same_are_told_at_once() {
        let of = |job: &str, more: &str| words(&["update", &format!("JobId={job}"), more]);
        let acts = vec![
            of("7", "A=1"),
            of("12_3", "A=1"),
            of("12_10", "A=2"),
            of("12_4", "A=1"),
            of("13_1", "A=1"),
            of("12_9", "A=1"),
            of("12_5", "ReqNodeList=n1"),
            of("12_6", "ReqNodeList=n1"),
            of("14_[1-4]", "A=1"),
            words(&["update", "ReservationName=r"]),
        ];
        let told: Vec<String> = together(acts).iter().map(|act| act[1..].join(" ")).collect();
        let right = [
            "JobId=7 A=1",
            "JobId=12_[3-4,9] A=1",
            "JobId=12_10 A=2",
            "JobId=13_1 A=1",
            "JobId=12_5 ReqNodeList=n1",
            "JobId=12_6 ReqNodeList=n1",
            "JobId=14_[1-4] A=1",
            "ReservationName=r",
        ];
        assert_eq!(told, right);
    }
}
