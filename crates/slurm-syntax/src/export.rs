//! Which variables of the submitter's environment a job gets: `--export`.
//!
//! Rule: sbatch manual, `--export`. `SLURM_*` and `SPANK_*` variables always come along. With
//! `ALL` and an explicit value the explicit value wins: the manual says otherwise, Slurm's own
//! merge overwrites in the order given, and that is what users expect (case S-16).

use std::collections::BTreeMap;

use crate::problem::{Code, Problem, quoted};

/// Most variables that one list may name.
pub const EXPORT_ITEMS_MAX: usize = 4096;

/// Longest list, in bytes.
pub const EXPORT_TEXT_MAX: usize = 1 << 20;

/// What is exported.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Export {
    /// Everything: the default.
    #[default]
    All,
    /// Nothing of the user's.
    None,
    /// Nothing of the user's, and no login environment either.
    Nil,
    /// The named variables, and everything else too if `all`.
    Named {
        /// True if `ALL` stands in the list.
        all: bool,
        /// The variables in the order written.
        items: Vec<ExportItem>,
    },
}

/// A variable that is exported: the caller's value, or a given one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportItem {
    /// The variable's name.
    pub name: String,
    /// The value given; `None` takes the caller's, if there is one.
    pub value: Option<String>,
}

/// Reads the argument of `--export`.
///
/// # Errors
/// [`Code::ExportBad`] for empty items, bad names, unclosed quotes and `NONE` beside other items.
pub fn parse(text: &str) -> Result<Export, Problem> {
    if text.len() > EXPORT_TEXT_MAX {
        return Err(Problem::new(
            Code::ExportBad,
            format!("the list is longer than {EXPORT_TEXT_MAX} bytes"),
        ));
    }
    match text.to_ascii_uppercase().as_str() {
        "ALL" => return Ok(Export::All),
        "NONE" => return Ok(Export::None),
        "NIL" => return Ok(Export::Nil),
        _ => {}
    }
    let (mut all, mut items) = (false, Vec::new());
    for part in split_outside_quotes(text)? {
        match part {
            "ALL" => all = true,
            "NONE" | "NIL" => {
                return Err(bad(text, &format!("{part} stands alone or not at all")));
            }
            _ => items.push(item(text, part)?),
        }
        if items.len() > EXPORT_ITEMS_MAX {
            return Err(bad(text, &format!("it names more than {EXPORT_ITEMS_MAX} variables")));
        }
    }
    Ok(if items.is_empty() { Export::All } else { Export::Named { all, items } })
}

fn item(text: &str, part: &str) -> Result<ExportItem, Problem> {
    let (name, value) = match part.split_once('=') {
        Some((name, value)) => (name, Some(unquoted(value).to_owned())),
        None => (part, None),
    };
    if !is_variable(name) {
        return Err(bad(text, &format!("{} is not a variable name", quoted(name))));
    }
    if value.as_ref().is_some_and(|value| value.contains('\0')) {
        return Err(bad(text, "a value has a NUL character"));
    }
    Ok(ExportItem { name: name.to_owned(), value })
}

/// Names as the shell has them; `%` and `()` occur in the names of exported bash functions.
fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '%' | '(' | ')'))
}

fn bad(text: &str, why: &str) -> Problem {
    Problem::new(Code::ExportBad, format!("{} is not a list of variables: {why}", quoted(text)))
        .hint("write ALL, NONE, NIL, or names and values: ALL,EDITOR,LR=0.5,MSG='a,b'")
}

fn split_outside_quotes(text: &str) -> Result<Vec<&str>, Problem> {
    let (mut parts, mut start, mut open) = (Vec::new(), 0, None);
    for (at, c) in text.char_indices() {
        match (open, c) {
            (None, '"' | '\'') => open = Some(c),
            (Some(quote), _) if quote == c => open = None,
            (None, ',') => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if let Some(quote) = open {
        return Err(bad(text, &format!("a {quote} is not closed")));
    }
    parts.push(&text[start..]);
    Ok(parts)
}

/// The value without its quotes, if one pair of quotes holds all of it.
fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote).and_then(|v| v.strip_suffix(quote))
            && !inner.contains(quote)
        {
            return inner;
        }
    }
    value
}

/// Prints what [`parse`] reads back.
pub fn print(export: &Export) -> String {
    let Export::Named { all, items } = export else {
        return match export {
            Export::None => "NONE",
            Export::Nil => "NIL",
            _ => "ALL",
        }
        .to_owned();
    };
    let mut parts: Vec<String> = Vec::new();
    if *all {
        parts.push("ALL".to_owned());
    }
    parts.extend(items.iter().map(|item| match &item.value {
        None => item.name.clone(),
        Some(value) => format!("{}={}", item.name, in_quotes(value)),
    }));
    parts.join(",")
}

fn in_quotes(value: &str) -> String {
    let plain = split_outside_quotes(value).is_ok_and(|parts| parts.len() == 1);
    if plain && unquoted(value) == value {
        value.to_owned()
    } else if value.contains('"') {
        format!("'{value}'")
    } else {
        format!("\"{value}\"")
    }
}

impl Export {
    /// The environment that a job gets from the submitter's.
    pub fn apply(&self, caller: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let everything = matches!(self, Self::All | Self::Named { all: true, .. });
        let mut out: BTreeMap<String, String> = caller
            .iter()
            .filter(|(name, _)| everything || is_schedulers(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if let Self::Named { items, .. } = self {
            for item in items {
                if let Some(value) = item.value.as_ref().or_else(|| caller.get(&item.name)) {
                    out.insert(item.name.clone(), value.clone());
                }
            }
        }
        out
    }
}

fn is_schedulers(name: &str) -> bool {
    name.starts_with("SLURM_") || name.starts_with("SPANK_") || name.starts_with("MUSTER_")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn applied(text: &str) -> String {
        let caller = [("LR", "0.5"), ("SEED", "1"), ("SLURM_CONF", "/c")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let out = parse(text).expect(text).apply(&caller.into());
        out.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn s16_all_and_a_value() {
        for (text, out) in [
            ("LR,EPOCHS=9", "EPOCHS=9 LR=0.5 SLURM_CONF=/c"),
            ("NONE", "SLURM_CONF=/c"),
            ("NIL", "SLURM_CONF=/c"),
            ("ALL", "LR=0.5 SEED=1 SLURM_CONF=/c"),
            ("ALL,LR=0.1", "LR=0.1 SEED=1 SLURM_CONF=/c"),
            ("MSG=\"x,y\",N=2", "MSG=x,y N=2 SLURM_CONF=/c"),
            ("NOTHERE", "SLURM_CONF=/c"),
            ("A=b=c", "A=b=c SLURM_CONF=/c"),
            ("A=", "A= SLURM_CONF=/c"),
        ] {
            assert_eq!(applied(text), out, "{text}");
        }
        for text in ["", "A,,B", "A,", "=1", "MSG=\"x", "NONE,A", "ALL,NIL", "1A=2", "a b=1"] {
            assert_eq!(parse(text).expect_err(text).code, Code::ExportBad, "{text}");
        }
    }

    proptest! {
        #[test]
        fn print_then_parse(items in "[A-Z]{1,5}(=[a-z,'\"]{0,8})?(,[A-Z]{1,5}(=[a-z,'\"]{0,8})?){0,3}") {
            if let Ok(export) = parse(&items) {
                prop_assert_eq!(parse(&print(&export)), Ok(export));
            }
        }

        #[test]
        fn never_panics(text in "\\PC{0,60}") {
            let _ = parse(&text);
        }
    }
}
