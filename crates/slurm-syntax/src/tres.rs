//! TRES texts: `cpu=8,mem=4G,gres/gpu:a100=2`.
//!
//! Rule: Slurm's TRES page. A typeless entry (`gres/gpu=2`) already includes the typed ones, so
//! they are not added to it; names match whole, so `gres/gpumem` is no GPU.

use std::fmt;

use crate::memory;
use crate::problem::{Code, Problem, quoted};
use crate::scan::{binary_count, is_name};

/// Most entries in one list.
pub const TRES_ENTRIES_MAX: usize = 256;

/// One entry of a TRES list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tres {
    /// `cpu`, `mem`, `node`, `billing`, `gres`, `license`, …
    pub kind: String,
    /// For `gres/gpu:a100` the part `gpu:a100`; empty for kinds without a name.
    pub name: String,
    /// The amount; memory in MiB.
    pub amount: u64,
}

/// Reads a TRES list; an empty text is an empty list.
///
/// # Errors
/// [`Code::TresBad`] for entries that are not `kind[/name]=amount`.
pub fn parse(text: &str) -> Result<Vec<Tres>, Problem> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut list = Vec::new();
    for part in text.split(',') {
        list.push(entry(part).ok_or_else(|| bad(text, part))?);
        if list.len() > TRES_ENTRIES_MAX {
            return Err(Problem::new(
                Code::TresBad,
                format!("a TRES list has more than {TRES_ENTRIES_MAX} entries"),
            ));
        }
    }
    Ok(list)
}

fn entry(text: &str) -> Option<Tres> {
    let (key, value) = text.split_once('=')?;
    let (kind, name) = key.split_once('/').unwrap_or((key, ""));
    let name_ok = name.is_empty() && !key.contains('/')
        || !name.is_empty() && name.split(':').count() <= 2 && name.split(':').all(is_name);
    if !is_name(kind) || !name_ok {
        return None;
    }
    let whole = |value: &str| match kind == "mem" || key == "gres/gpumem" {
        true => memory::parse_mib(value).ok(),
        false => binary_count(value),
    };
    let amount = whole(value).or_else(|| with_decimals(value, whole))?;
    Some(Tres { kind: kind.to_owned(), name: name.to_owned(), amount })
}

/// `2.50G`: Slurm prints halves of a unit so where it prints what it counted (`convert_num_unit`,
/// exact). Only what comes to a whole amount is one.
fn with_decimals(value: &str, whole: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let (before, rest) = value.split_once('.')?;
    let unit_at = rest.find(|c: char| !c.is_ascii_digit())?;
    let (decimals, unit) = rest.split_at(unit_at);
    if before.is_empty() || !(1..=2).contains(&decimals.len()) {
        return None;
    }
    let scale = 10u64.pow(decimals.len() as u32);
    let amount = whole(&format!("{before}{decimals}{unit}"))?;
    amount.is_multiple_of(scale).then_some(amount / scale)
}

fn bad(text: &str, part: &str) -> Problem {
    Problem::new(Code::TresBad, format!("{} is not a TRES entry in {}", quoted(part), quoted(text)))
        .hint("write kind=amount or kind/name=amount, for example cpu=4,gres/gpu:a100=2")
}

/// How many GPUs a list stands for (S-12).
pub fn gpus(list: &[Tres]) -> u64 {
    let gpu = |tres: &&Tres| tres.kind == "gres" && tres.name.split(':').next() == Some("gpu");
    let typeless = list.iter().filter(gpu).find(|tres| tres.name == "gpu");
    match typeless {
        Some(tres) => tres.amount,
        None => list.iter().filter(gpu).fold(0, |sum, tres| sum.saturating_add(tres.amount)),
    }
}

/// Prints a list as `sacct` and `scontrol` do.
pub fn print(list: &[Tres]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

impl fmt::Display for Tres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if !self.name.is_empty() {
            write!(f, "/{}", self.name)?;
        }
        if self.kind == "mem" || (self.kind == "gres" && self.name == "gpumem") {
            write!(f, "={}", memory::print_mib(self.amount))
        } else {
            write!(f, "={}", self.amount)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn s12_counting_gpus() {
        for (text, count) in [
            ("cpu=8,gres/gpu:a100=2,gres/gpu=2", 2),
            ("gres/gpu:a100=2", 2),
            ("gres/gpu:a100=2,gres/gpu:h100=1,gres/gpu=3", 3),
            ("gres/gpumem=80G,gres/gpuutil=50", 0),
            ("", 0),
        ] {
            assert_eq!(gpus(&parse(text).expect(text)), count, "{text}");
        }
        for text in
            ["cpu", "cpu=", "=4", "gres/=1", "gres/gpu:=1", "cpu=4,", "cpu=x", "gres/a:b:c=1"]
        {
            assert_eq!(parse(text).expect_err(text).code, Code::TresBad, "{text}");
        }
        for (text, amount) in
            [("mem=1562.50G", 1_600_000), ("mem=2.5T", 2_621_440), ("cpu=1.50K", 1536)]
        {
            assert_eq!(parse(text).expect(text)[0].amount, amount, "{text}");
        }
        for text in ["mem=1.G", "mem=.50G", "mem=1.5", "cpu=1.333K", "mem=1.001G", "mem=1.01G"] {
            assert_eq!(parse(text).expect_err(text).code, Code::TresBad, "{text}");
        }
        assert_eq!(
            print(&parse("cpu=2,mem=4096M,gres/gpu=1").expect("good")),
            "cpu=2,mem=4G,gres/gpu=1"
        );
    }

    proptest! {
        #[test]
        fn print_then_parse(cpu in 0_u64..1000, mem in 0_u64..1 << 30, kind in "[a-z][a-z0-9]{0,8}") {
            let list = vec![
                Tres { kind: "cpu".into(), name: String::new(), amount: cpu },
                Tres { kind: "mem".into(), name: String::new(), amount: mem },
                Tres { kind: "gres".into(), name: format!("gpu:{kind}"), amount: cpu },
            ];
            prop_assert_eq!(parse(&print(&list)), Ok(list));
        }

        #[test]
        fn never_panics(text in "\\PC{0,40}", near in "[a-z0-9=/:,]{0,30}") {
            let _ = parse(&text);
            let _ = parse(&near);
        }
    }
}
