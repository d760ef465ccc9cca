//! Licences: `ansys:2,matlab`.
//!
//! Rule: sbatch manual, `--licenses`: a name, perhaps a server after `@`, perhaps a count (one when
//! absent); a comma means all of them. Slurm's `|` (any of them) is read and refused: the model
//! holds licences that are needed together.

use muster_model::LicenceRequest;

use crate::problem::{Code, Problem, quoted};
use crate::scan::{digits, is_name_char};

/// Most licences in one list.
pub const LICENCES_MAX: usize = 256;

/// Reads the argument of `--licenses`; a licence named twice is added up.
///
/// # Errors
/// [`Code::LicenseBad`] for malformed entries, [`Code::OptionRefused`] for alternatives.
pub fn parse(text: &str) -> Result<Vec<LicenceRequest>, Problem> {
    if text.contains('|') {
        return Err(Problem::new(
            Code::OptionRefused,
            format!("{} asks for one of several licences, which muster cannot do", quoted(text)),
        )
        .hint("name the licences that are needed together, separated by commas"));
    }
    let mut list: Vec<LicenceRequest> = Vec::new();
    for part in text.split(',') {
        let (name, count) = entry(part).ok_or_else(|| bad(text, part))?;
        match list.iter_mut().find(|licence| licence.name == name) {
            Some(licence) => {
                licence.count = licence.count.checked_add(count).ok_or_else(|| bad(text, part))?;
            }
            None => list.push(LicenceRequest { name: name.to_owned(), count }),
        }
        if list.len() > LICENCES_MAX {
            return Err(bad(text, "more licences than the bound allows"));
        }
    }
    Ok(list)
}

fn entry(part: &str) -> Option<(&str, u32)> {
    let (name, count) = match part.split_once(':') {
        Some((name, count)) => {
            (name, u32::try_from(digits(count)?).ok().filter(|&count| count > 0)?)
        }
        None => (part, 1),
    };
    let name_ok = !name.is_empty()
        && name.len() <= 255
        && name.chars().all(|c| is_name_char(c) || c == '@')
        && name.matches('@').count() <= 1
        && !name.starts_with('@')
        && !name.ends_with('@');
    name_ok.then_some((name, count))
}

fn bad(text: &str, part: &str) -> Problem {
    Problem::new(
        Code::LicenseBad,
        format!("{} is not a licence request in {}", quoted(part), quoted(text)),
    )
    .hint("write name or name:count, separated by commas, for example ansys:2,matlab")
}

/// Prints what [`parse`] reads back.
pub fn print(list: &[LicenceRequest]) -> String {
    list.iter().map(|l| format!("{}:{}", l.name, l.count)).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forms_of_the_manual() {
        for (text, out) in [
            ("foo:4,bar", "foo:4,bar:1"),
            ("nastran@slurmdb:12", "nastran@slurmdb:12"),
            ("sim,sim:2", "sim:3"),
        ] {
            assert_eq!(print(&parse(text).expect(text)), out, "{text}");
        }
        for text in ["", "foo:", "foo:0", "foo:-1", ":2", "foo,", "foo bar", "a@b@c", "@x", "foo:x"]
        {
            assert_eq!(parse(text).expect_err(text).code, Code::LicenseBad, "{text}");
        }
        assert_eq!(parse("foo:4|bar").unwrap_err().code, Code::OptionRefused);
    }

    proptest! {
        #[test]
        fn print_then_parse(names in proptest::collection::btree_map("[a-z]{1,8}", 1_u32..100, 1..6)) {
            let list: Vec<_> = names.into_iter().map(|(name, count)| LicenceRequest { name, count }).collect();
            prop_assert_eq!(parse(&print(&list)), Ok(list));
        }

        #[test]
        fn never_panics(text in "\\PC{0,60}", near in "[a-z0-9:,@|]{0,40}") {
            let _ = parse(&text);
            let _ = parse(&near);
        }
    }
}
