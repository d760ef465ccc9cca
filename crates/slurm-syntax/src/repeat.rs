//! Counts per node in the repeat form: `2(x3),1`.
//!
//! Rule: sbatch manual, `SLURM_TASKS_PER_NODE` and `SLURM_JOB_CPUS_PER_NODE`: the order is that of
//! the node list, and only neighbours are joined (case S-40).

use crate::problem::{Code, Problem, quoted};
use crate::scan::digits;

/// Most counts that a text may stand for.
pub const REPEATS_MAX: usize = 65_536;

/// Prints counts, neighbours that are equal joined.
pub fn print(counts: &[u32]) -> String {
    counts
        .chunk_by(|a, b| a == b)
        .map(|run| match run {
            [count] => count.to_string(),
            _ => format!("{}(x{})", run[0], run.len()),
        })
        .collect::<Vec<_>>()
        .join(",")
}

/// Reads counts.
///
/// # Errors
/// [`Code::RepeatBad`] for malformed text and for more than [`REPEATS_MAX`] counts.
pub fn parse(text: &str) -> Result<Vec<u32>, Problem> {
    let bad = || {
        Problem::new(Code::RepeatBad, format!("{} is not a list of counts", quoted(text)))
            .hint("write counts in node order, for example 2(x3),1")
    };
    let mut counts = Vec::new();
    if text.is_empty() {
        return Ok(counts);
    }
    for part in text.split(',') {
        let (count, times) = match part.split_once("(x") {
            Some((count, times)) => {
                (count, digits(times.strip_suffix(')').ok_or_else(bad)?).ok_or_else(bad)?)
            }
            None => (part, 1),
        };
        let count = digits(count).and_then(|n| u32::try_from(n).ok()).ok_or_else(bad)?;
        if times == 0 || times > (REPEATS_MAX - counts.len()) as u64 {
            return Err(bad());
        }
        counts.extend(std::iter::repeat_n(count, times as usize));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn s40_only_neighbours_are_joined() {
        assert_eq!(print(&[2, 2, 2, 1]), "2(x3),1");
        assert_eq!(print(&[72, 72, 36]), "72(x2),36");
        assert_eq!(print(&[1, 2, 1]), "1,2,1");
        assert_eq!(parse("2(x3),1"), Ok(vec![2, 2, 2, 1]));
        for text in ["x", "2(3)", "2(x0)", "2(x", "1,", "2(x99999999)"] {
            assert_eq!(parse(text).expect_err(text).code, Code::RepeatBad);
        }
    }

    proptest! {
        #[test]
        fn print_then_parse(counts in proptest::collection::vec(0_u32..4, 0..60)) {
            prop_assert_eq!(parse(&print(&counts)), Ok(counts));
        }

        #[test]
        fn never_panics(text in "\\PC{0,40}", near in "[0-9(x),]{0,30}") {
            let _ = parse(&text);
            let _ = parse(&near);
        }
    }
}
