//! Acting: what muster has Slurm do, each act as the words of one `scontrol`.
//!
//! Every act may be repeated.

mod jobs;
mod lease;

pub use jobs::{Release, give_back, release};
pub use lease::Lease;

use crate::{Commands, SlurmError};

/// So many acts go to one `scontrol`: what it complains of is read to a bound.
const AT_ONCE: usize = 25;

/// Carries acts out, in order; what Slurm had against some of them. An act that fails does not
/// keep the next ones.
///
/// # Errors
/// [`SlurmError`] where `scontrol` cannot be run at all; acts before that may have been done.
pub fn carry_out(commands: &Commands, acts: &[Vec<String>]) -> Result<Vec<String>, SlurmError> {
    let mut complaints = Vec::new();
    let fits = |act: &Vec<String>| act.iter().all(|word| is_plain(word));
    for chunk in acts.chunk_by(|one, next| fits(one) == fits(next)) {
        // Within a line no word can have a space in it.
        if !fits(&chunk[0]) {
            for act in chunk {
                let words: Vec<&str> = act.iter().map(String::as_str).collect();
                match commands.scontrol(&words) {
                    Err(SlurmError::Failed { said, .. }) => complaints.push(said),
                    done => drop(done?),
                }
            }
            continue;
        }
        for lines in chunk.chunks(AT_ONCE) {
            let lines: Vec<String> = lines.iter().map(|act| act.join(" ")).collect();
            let said = commands.scontrol_lines(&lines)?;
            complaints.extend(said.lines().map(str::to_owned).filter(|line| !line.is_empty()));
        }
    }
    Ok(complaints)
}

/// True for what stays one word in a line of `scontrol`.
fn is_plain(value: &str) -> bool {
    let parts = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'' | '\\');
    !value.is_empty() && !value.contains(parts)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}
