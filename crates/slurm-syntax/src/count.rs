//! Counts, and counts of nodes with ranges, lists and steps.
//!
//! Rule: sbatch manual, `--nodes`: `3` is exactly three, `1-4` any number in between, `1,5` and
//! `1-15:4` sets of sizes; `k` multiplies by 1024 and `m` by 1048576.

use std::collections::BTreeSet;

use muster_model::NodeCount;

use crate::problem::{Code, Problem, quoted};
use crate::scan::{binary_count, digits};

/// Largest count accepted anywhere (tasks, CPUs, GPUs, nodes).
pub const COUNT_MAX: u64 = 1 << 30;

/// Most sizes that a list may name, counted as often as they are named.
pub const SIZES_MAX: usize = 65_536;

/// Reads a whole number of at least `least`.
///
/// # Errors
/// [`Code::CountBad`] for signs, fractions, blanks and numbers out of range.
pub fn parse_count(text: &str, least: u32) -> Result<u32, Problem> {
    match digits(text) {
        Some(n) if n >= u64::from(least) && n <= COUNT_MAX => Ok(n as u32),
        Some(_) => Err(Problem::new(
            Code::CountBad,
            format!("{} is out of range: {least} to {COUNT_MAX}", quoted(text)),
        )),
        None => Err(Problem::new(Code::CountBad, format!("{} is not a count", quoted(text)))
            .hint("write a whole number in digits")),
    }
}

/// Reads the argument of `--nodes`.
///
/// # Errors
/// [`Code::NodesBad`] for zero, reversed ranges, bad steps, unknown suffixes and trailing text.
pub fn parse_nodes(text: &str) -> Result<NodeCount, Problem> {
    if !text.contains([',', ':']) {
        let (min, max) = range(text).ok_or_else(|| bad(text))?;
        return Ok(NodeCount::Range { min, max });
    }
    let (mut sizes, mut named) = (BTreeSet::new(), 0);
    for part in text.split(',') {
        let (span, step) = match part.split_once(':') {
            Some((span, step)) => {
                (span, digits(step).filter(|&s| s > 0 && s <= COUNT_MAX).ok_or_else(|| bad(text))?)
            }
            None => (part, 1),
        };
        let (low, high) = range(span).ok_or_else(|| bad(text))?;
        named += u64::from(high - low) / step + 1;
        if named > SIZES_MAX as u64 {
            return Err(Problem::new(
                Code::NodesBad,
                format!("{} names more than {SIZES_MAX} sizes", quoted(text)),
            ));
        }
        sizes.extend((low..=high).step_by(step as usize));
    }
    Ok(NodeCount::OneOf(sizes))
}

fn range(text: &str) -> Option<(u32, u32)> {
    let (low, high) = match text.split_once('-') {
        Some((low, high)) => (number(low)?, number(high)?),
        None => (number(text)?, number(text)?),
    };
    (low <= high).then_some((low, high))
}

fn number(text: &str) -> Option<u32> {
    if text.ends_with(['g', 'G', 't', 'T', 'p', 'P']) {
        return None;
    }
    binary_count(text).filter(|&n| n > 0 && n <= COUNT_MAX).map(|n| n as u32)
}

fn bad(text: &str) -> Problem {
    let problem = Problem::new(Code::NodesBad, format!("{} is not a node count", quoted(text)));
    if let Some((low, high)) = text.split_once('-')
        && let (Some(low), Some(high)) = (number(low), number(high))
        && low > high
    {
        return problem.hint(format!("the smaller number comes first: {high}-{low}"));
    }
    problem.hint("write a number (4), a range (1-4), a list (1,5) or a range with a step (1-15:4)")
}

/// Prints the form that [`parse_nodes`] reads back.
pub fn print_nodes(nodes: &NodeCount) -> String {
    match nodes {
        NodeCount::Range { min, max } if min == max => min.to_string(),
        NodeCount::Range { min, max } => format!("{min}-{max}"),
        // A comma keeps a set of one size a set: it is printed twice.
        NodeCount::OneOf(sizes) => {
            let mut words: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            if let [only] = &words[..] {
                words.push(only.clone());
            }
            words.join(",")
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn s10_node_counts() {
        let sizes = |list: &[u32]| NodeCount::OneOf(list.iter().copied().collect());
        for (text, nodes) in [
            ("3", NodeCount::Range { min: 3, max: 3 }),
            ("1-4", NodeCount::Range { min: 1, max: 4 }),
            ("1-15:4", sizes(&[1, 5, 9, 13])),
            ("1,5", sizes(&[1, 5])),
            ("2k", NodeCount::Range { min: 2048, max: 2048 }),
            ("1m", NodeCount::exactly(1 << 20)),
            ("1,4-6", sizes(&[1, 4, 5, 6])),
        ] {
            assert_eq!(parse_nodes(text), Ok(nodes), "{text}");
        }
        for text in ["4-1", "x", "1-4x", "", "0", "-1", "1-", "1,", "1-4:0", "1:", "1.5", "2g"] {
            assert_eq!(parse_nodes(text).expect_err(text).code, Code::NodesBad);
        }
        assert!(parse_nodes("1-1000000000:1").is_err(), "bounded");
        assert!(parse_nodes("4-1").unwrap_err().hints[0].contains("1-4"));
    }

    #[test]
    fn counts_have_a_least_value() {
        assert_eq!(parse_count("4", 1), Ok(4));
        assert_eq!(parse_count("0", 0), Ok(0));
        for text in ["0", "-1", "4.0", "", "four", "99999999999"] {
            assert_eq!(parse_count(text, 1).expect_err(text).code, Code::CountBad);
        }
    }

    proptest! {
        #[test]
        fn print_then_parse(sizes in proptest::collection::btree_set(1_u32..5000, 1..20), low in 1_u32..100, extra in 0_u32..100) {
            let set = NodeCount::OneOf(sizes);
            prop_assert_eq!(parse_nodes(&print_nodes(&set)), Ok(set));
            let range = NodeCount::Range { min: low, max: low + extra };
            prop_assert_eq!(parse_nodes(&print_nodes(&range)), Ok(range));
        }

        #[test]
        fn never_panics(text in "\\PC{0,40}", near in "[0-9,:km-]{0,20}") {
            let _ = parse_nodes(&text);
            let _ = parse_nodes(&near);
            let _ = parse_count(&text, 1);
        }
    }
}
