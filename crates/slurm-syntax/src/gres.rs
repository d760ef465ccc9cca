//! GRES texts: `gpu:2`, `gpu:a100:1,nic:1`.
//!
//! Rule: sbatch manual, `--gres` and `--gpus*`: entries are `name[[:type]:count]`, the count is one
//! when absent, and `k`, `m`, `g`, `t`, `p` are powers of 1024.

use std::fmt;

use crate::problem::{Code, Problem, quoted};
use crate::scan::{binary_count, is_name};

/// Most entries in one list.
pub const GRES_ENTRIES_MAX: usize = 64;

/// One entry of a GRES list: so many of a resource, perhaps of one type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gres {
    /// The resource, for example `gpu`.
    pub name: String,
    /// The type, for example `a100`.
    pub kind: Option<String>,
    /// How many.
    pub count: u64,
}

impl fmt::Display for Gres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(kind) = &self.kind {
            write!(f, ":{kind}")?;
        }
        write!(f, ":{}", self.count)
    }
}

/// Reads the argument of `--gres`; `none` asks for nothing.
///
/// # Errors
/// [`Code::GresBad`] for empty entries, bad counts and unknown forms.
pub fn parse(text: &str) -> Result<Vec<Gres>, Problem> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(Vec::new());
    }
    list(text, entry)
}

/// Reads the argument of `--gpus` and its kin: `2`, `a100:2`, `a100`, or a list of typed counts.
///
/// # Errors
/// [`Code::GresBad`] for empty entries and bad counts.
pub fn parse_gpus(text: &str) -> Result<Vec<Gres>, Problem> {
    let gpus = list(text, gpu_entry)?;
    if gpus.len() > 1 && gpus.iter().any(|gpu| gpu.kind.is_none()) {
        return Err(Problem::new(
            Code::GresBad,
            format!("{} mixes a plain count with other entries", quoted(text)),
        )
        .hint("give one count, or a type for every entry"));
    }
    Ok(gpus)
}

/// Prints a list as `--gres` takes it.
pub fn print(list: &[Gres]) -> String {
    if list.is_empty() {
        return "none".to_owned();
    }
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Prints a list of GPUs as `--gpus` takes it, without the resource's name.
pub fn print_gpus(list: &[Gres]) -> String {
    let entry = |gpu: &Gres| match &gpu.kind {
        Some(kind) => format!("{kind}:{}", gpu.count),
        None => gpu.count.to_string(),
    };
    list.iter().map(entry).collect::<Vec<_>>().join(",")
}

fn list(text: &str, entry: impl Fn(&str) -> Option<Gres>) -> Result<Vec<Gres>, Problem> {
    let mut found: Vec<Gres> = Vec::new();
    for part in text.split(',') {
        let gres = entry(part).ok_or_else(|| bad(text, part))?;
        if found.iter().any(|other| other.name == gres.name && other.kind == gres.kind) {
            return Err(Problem::new(
                Code::GresBad,
                format!("{} names {} twice", quoted(text), quoted(part)),
            ));
        }
        found.push(gres);
        if found.len() > GRES_ENTRIES_MAX {
            return Err(Problem::new(
                Code::GresBad,
                format!("a GRES list has more than {GRES_ENTRIES_MAX} entries"),
            ));
        }
    }
    Ok(found)
}

fn entry(text: &str) -> Option<Gres> {
    let text = text.strip_prefix("gres/").or_else(|| text.strip_prefix("gres:")).unwrap_or(text);
    let parts: Vec<&str> = text.split(':').collect();
    let (name, kind, count) = match parts[..] {
        [name] => (name, None, 1),
        [name, last] => match binary_count(last) {
            Some(count) => (name, None, count),
            None => (name, Some(last), 1),
        },
        [name, kind, count] => (name, Some(kind), binary_count(count)?),
        _ => return None,
    };
    checked(name, kind, count)
}

fn gpu_entry(text: &str) -> Option<Gres> {
    let text = text.strip_prefix("gpu:").unwrap_or(text);
    let (kind, count) = match text.split_once(':') {
        Some((kind, count)) => (Some(kind), binary_count(count)?),
        None => match binary_count(text) {
            Some(count) => (None, count),
            None => (Some(text), 1),
        },
    };
    checked("gpu", kind, count)
}

fn checked(name: &str, kind: Option<&str>, count: u64) -> Option<Gres> {
    // A MIG profile may have media extensions: `1g.10gb+me`.
    let plain = |kind: &str| is_name(kind.strip_suffix("+me").unwrap_or(kind));
    let type_ok = kind.is_none_or(|kind| plain(kind) && !starts_like_a_number(kind));
    let name_ok = is_name(name) && !starts_like_a_number(name);
    (name_ok && type_ok && count <= 1 << 50).then(|| Gres {
        name: name.to_owned(),
        kind: kind.map(str::to_owned),
        count,
    })
}

/// True for `-1`, `1.5` and `2x`, which are failed counts and not types; MIG profiles such as
/// `1g.10gb` and type names such as `3090` with letters after them are types.
fn starts_like_a_number(text: &str) -> bool {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    text.starts_with(['-', '.'])
        || (rest.len() < text.len() && (rest.len() < 2 || rest.starts_with('.')))
}

fn bad(text: &str, part: &str) -> Problem {
    let what = if part == text {
        format!("{} is not a resource request", quoted(text))
    } else {
        format!("{} is not a resource request in {}", quoted(part), quoted(text))
    };
    Problem::new(Code::GresBad, what)
        .hint("write name, name:count or name:type:count, for example gpu:a100:2")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn printed(text: &str) -> String {
        print(&parse(text).expect(text))
    }

    #[test]
    fn entries_have_a_type_and_a_count() {
        for (text, out) in [
            ("gpu", "gpu:1"),
            ("gpu:2", "gpu:2"),
            ("gpu:a100", "gpu:a100:1"),
            ("gpu:a100:2", "gpu:a100:2"),
            ("gpu:a100:3,gpu:h100:2", "gpu:a100:3,gpu:h100:2"),
            ("gpu:1g.10gb:2", "gpu:1g.10gb:2"),
            ("shard:2k", "shard:2048"),
            ("gres/gpu:1", "gpu:1"),
            ("none", "none"),
        ] {
            assert_eq!(printed(text), out, "{text}");
        }
        for text in [
            "",
            "gpu:",
            "gpu:-1",
            "gpu:1.5",
            "gpu:a:b:1",
            "gpu,",
            ":2",
            "gpu:2x",
            "gpu:a100:x",
            "gpu,gpu",
        ] {
            assert_eq!(parse(text).expect_err(text).code, Code::GresBad, "{text}");
        }
    }

    #[test]
    fn gpu_counts_may_have_a_type() {
        for (text, out) in [
            ("2", "2"),
            ("a100:2", "a100:2"),
            ("volta:3,kepler:1", "volta:3,kepler:1"),
            ("gpu:2", "2"),
        ] {
            assert_eq!(print_gpus(&parse_gpus(text).expect(text)), out);
        }
        for text in ["", "a100:", "-1", "1,a100:1", "1.5"] {
            assert!(parse_gpus(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn print_then_parse(kind in proptest::option::of("[a-z][a-z0-9_]{0,8}"), count in 0_u64..1 << 40) {
            let list = vec![Gres { name: "gpu".into(), kind, count }];
            prop_assert_eq!(&parse(&print(&list)), &Ok(list.clone()));
            prop_assert_eq!(parse_gpus(&print_gpus(&list)), Ok(list));
        }

        #[test]
        fn never_panics(text in "\\PC{0,40}", near in "[gpua0-9:,.k-]{0,30}") {
            let _ = parse(&text);
            let _ = parse(&near);
            let _ = parse_gpus(&near);
        }
    }
}
