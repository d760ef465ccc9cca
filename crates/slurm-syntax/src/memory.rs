//! Memory sizes: binary units, MiB when no unit is given.
//!
//! Rule: sbatch manual, `--mem`: suffix K, M, G or T; a K amount rounds up to a whole MiB; zero
//! asks for all memory of each node.

use crate::problem::{Code, Problem, quoted};
use crate::scan::digits;

/// Largest size accepted, in MiB (one EiB).
pub const MEMORY_MAX_MIB: u64 = 1 << 40;

/// Reads a memory size in MiB; zero is the caller's special case.
///
/// # Errors
/// [`Code::MemoryBad`] for fractions, `GiB`, unknown units, signs and sizes above the bound.
pub fn parse_mib(text: &str) -> Result<u64, Problem> {
    read(text).filter(|&mib| mib <= MEMORY_MAX_MIB).ok_or_else(|| bad(text))
}

fn read(text: &str) -> Option<u64> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = digits(&text[..unit_at])?;
    let unit = text[unit_at..].to_ascii_lowercase();
    match unit.as_str() {
        "k" | "kb" => Some(number.div_ceil(1024)),
        "" | "m" | "mb" => Some(number),
        "g" | "gb" => number.checked_mul(1024),
        "t" | "tb" => number.checked_mul(1024 * 1024),
        _ => None,
    }
}

fn bad(text: &str) -> Problem {
    let problem = Problem::new(Code::MemoryBad, format!("{} is not a memory size", quoted(text)));
    let lower = text.to_ascii_lowercase();
    if let Some(number) = lower.strip_suffix("ib").filter(|rest| read(rest).is_some()) {
        return problem.hint(format!("units are binary already: write {}", number.to_uppercase()));
    }
    if let Some(mib) = fraction(&lower) {
        return problem.hint(format!("write whole numbers only: {mib}M"));
    }
    problem.hint("write a whole number and K, M, G or T, for example 1500M or 4G")
}

/// `1.5g` in MiB, for the hint.
fn fraction(text: &str) -> Option<u64> {
    let (whole, rest) = text.split_once('.')?;
    let unit_at = rest.find(|c: char| !c.is_ascii_digit())?;
    let tenths = digits(&rest[..unit_at.min(1)])?;
    let unit = match &rest[unit_at..] {
        "g" | "gb" | "gib" => 1024,
        "t" | "tb" | "tib" => 1024 * 1024,
        _ => return None,
    };
    let tenths = digits(whole)?.checked_mul(10)?.checked_add(tenths)?;
    Some(tenths.checked_mul(unit)?.div_ceil(10))
}

/// Prints MiB as `--mem` takes them, in the largest unit that leaves a whole number.
pub fn print_mib(mib: u64) -> String {
    if mib == 0 {
        "0".to_owned()
    } else if mib.is_multiple_of(1024 * 1024) {
        format!("{}T", mib >> 20)
    } else if mib.is_multiple_of(1024) {
        format!("{}G", mib >> 10)
    } else {
        format!("{mib}M")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn s04_memory_sizes() {
        for (text, mib) in
            [("1024", 1024), ("4G", 4096), ("4gb", 4096), ("1T", 1_048_576), ("1500K", 2), ("0", 0)]
        {
            assert_eq!(parse_mib(text), Ok(mib), "{text}");
        }
        for text in ["1.5G", "4GiB", "4X", "G", "-1", "", " 4G", "4 G", "+4G", "99999999T"] {
            assert_eq!(parse_mib(text).expect_err(text).code, Code::MemoryBad);
        }
        assert!(parse_mib("1.5G").unwrap_err().hints[0].contains("1536M"));
        assert!(parse_mib("4GiB").unwrap_err().hints[0].contains("4G"));
    }

    proptest! {
        #[test]
        fn print_then_parse(mib in 0..=MEMORY_MAX_MIB) {
            prop_assert_eq!(parse_mib(&print_mib(mib)), Ok(mib));
        }

        #[test]
        fn never_panics(text in "\\PC{0,40}", near in "[0-9.]{0,20}[kmgtibKMGTIB]{0,3}") {
            let _ = parse_mib(&text);
            let _ = parse_mib(&near);
        }
    }
}
