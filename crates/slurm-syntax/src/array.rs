//! Job array specifications: `0-15:4`, `1,3,5-7%2`.
//!
//! Rule: sbatch manual, `--array`, and Slurm's job array page: indices run from zero to one below
//! `MaxArraySize`; `%n` lets n tasks run at once and `%0` lets all. A throttle that cannot be read
//! is an error here: a failed parse must not lift a limit.

use muster_model::{ArraySpec, IndexRanges};

use crate::problem::{Code, Problem, quoted};
use crate::scan::digits;

/// Slurm's default for `MaxArraySize`: the largest index is one below.
pub const ARRAY_SIZE_DEFAULT: u32 = 1001;

/// Most comma-separated parts in one specification.
pub const ARRAY_PARTS_MAX: usize = 10_000;

/// Reads the argument of `--array`; `array_size_max` is the site's `MaxArraySize`.
///
/// # Errors
/// [`Code::ArrayBad`] for reversed ranges, zero steps, bad throttles and indices that are too large.
pub fn parse(text: &str, array_size_max: u32) -> Result<ArraySpec, Problem> {
    let (indices, throttle) = match text.split_once('%') {
        Some((indices, throttle)) => (indices, Some(parse_throttle(text, throttle)?)),
        None => (text, None),
    };
    Ok(ArraySpec {
        indices: parse_indices(indices, array_size_max)?,
        throttle: throttle.filter(|&throttle| throttle > 0),
    })
}

/// Reads a list of indices without a throttle: `0,4,8-11`.
///
/// # Errors
/// As [`parse`].
pub fn parse_indices(text: &str, array_size_max: u32) -> Result<IndexRanges, Problem> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    let mut steps = 0_usize;
    for (i, part) in text.split(',').enumerate() {
        if i == ARRAY_PARTS_MAX {
            return Err(Problem::new(
                Code::ArrayBad,
                format!("an array has more than {ARRAY_PARTS_MAX} parts"),
            ));
        }
        let (low, high, step) = span(part).ok_or_else(|| bad(text, part))?;
        if high >= u64::from(array_size_max) {
            return Err(Problem::new(
                Code::ArrayBad,
                format!("index {high} in {} is too large", quoted(text)),
            )
            .hint(format!("the largest index here is {}", array_size_max.saturating_sub(1))));
        }
        let (low, high) = (low as u32, high as u32);
        if step == 1 {
            ranges.push((low, high));
        } else {
            steps += ((high - low) as usize) / step as usize;
            if steps > array_size_max as usize {
                return Err(bad(text, part));
            }
            ranges.extend((low..=high).step_by(step as usize).map(|i| (i, i)));
        }
    }
    Ok(IndexRanges::from_ranges(ranges))
}

fn span(part: &str) -> Option<(u64, u64, u64)> {
    let (range, step) = match part.split_once(':') {
        Some((range, step)) => (range, digits(step).filter(|&step| step > 0)?),
        None => (part, 1),
    };
    let (low, high) = match range.split_once('-') {
        Some((low, high)) => (digits(low)?, digits(high)?),
        None => (digits(range)?, digits(range)?),
    };
    (low <= high).then_some((low, high, step))
}

fn parse_throttle(text: &str, throttle: &str) -> Result<u32, Problem> {
    digits(throttle).and_then(|n| u32::try_from(n).ok()).ok_or_else(|| {
        Problem::new(
            Code::ArrayBad,
            format!("{} after `%` in {} is not a number of tasks", quoted(throttle), quoted(text)),
        )
        .hint("write how many tasks may run at once, for example 0-99%8")
    })
}

fn bad(text: &str, part: &str) -> Problem {
    let problem = Problem::new(
        Code::ArrayBad,
        format!("{} is not a range of array indices in {}", quoted(part), quoted(text)),
    );
    if let Some((low, high)) = part.split_once('-')
        && let (Some(low), Some(high)) = (digits(low), digits(high))
        && low > high
    {
        return problem.hint(format!("the smaller index comes first: {high}-{low}"));
    }
    problem.hint(
        "write indices and ranges, for example 0-15, 1,3,5-7 or 0-15:4, and %2 for two at once",
    )
}

/// Prints a specification as `squeue` shows pending tasks: `3-9%2`.
pub fn print(spec: &ArraySpec) -> String {
    match spec.throttle {
        Some(throttle) => format!("{}%{throttle}", spec.indices),
        None => spec.indices.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn s09_indices_and_throttle() {
        for (text, indices, throttle) in [
            ("0-15:4", vec![0, 4, 8, 12], None),
            ("1,3,5-7%2", vec![1, 3, 5, 6, 7], Some(2)),
            ("3,3,1-3", vec![1, 2, 3], None),
            ("0-9%0", (0..10).collect(), None),
            ("1000", vec![1000], None),
        ] {
            let spec = parse(text, ARRAY_SIZE_DEFAULT).expect(text);
            assert_eq!(spec.indices.iter().collect::<Vec<_>>(), indices, "{text}");
            assert_eq!(spec.throttle, throttle, "{text}");
        }
        for text in
            ["5-1", "-1", "0-3:0", "a", "1001", "1-3%x", "", "1,", "1-3%", "1%-1", "1-2-3", "1%2%3"]
        {
            assert_eq!(
                parse(text, ARRAY_SIZE_DEFAULT).expect_err(text).code,
                Code::ArrayBad,
                "{text}"
            );
        }
    }

    #[test]
    fn printed_as_ranges() {
        assert_eq!(print(&parse("1-9%2", 1001).expect("good")), "1-9%2");
        assert_eq!(print(&parse("0-8:4", 1001).expect("good")), "0,4,8");
    }

    proptest! {
        #[test]
        fn print_then_parse(indices in proptest::collection::btree_set(0_u32..1001, 1..50), throttle in proptest::option::of(1_u32..100)) {
            let spec = ArraySpec { indices: indices.into_iter().collect(), throttle };
            prop_assert_eq!(parse(&print(&spec), 1001), Ok(spec));
        }

        #[test]
        fn never_panics_and_stays_bounded(text in "\\PC{0,40}", near in "[0-9,:%-]{0,40}") {
            let _ = parse(&text, 1001);
            if let Ok(spec) = parse(&near, 1001) {
                prop_assert!(spec.indices.len() <= 1001);
            }
        }
    }
}
