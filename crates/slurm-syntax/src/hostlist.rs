//! Host lists: `n[01-03,7],gpu2` and back.
//!
//! Rules: a number takes the width of the low bound of its range; brackets may stand anywhere and
//! more than once, and the last one varies fastest; a comma splits only outside brackets. Folding
//! keeps the order given and joins only what expands back to exactly the same names, so
//! `expand(fold(S)) == S` for every list: `n1` and `n01` are different hosts. A list that cannot be
//! read is an error, never a host with a bracket in its name.

use std::fmt::Write as _;

use crate::problem::{Code, Problem, quoted};
use crate::scan::{digits, is_name_char, split_outside_brackets};

/// Most hosts that a list may stand for where the caller has no tighter bound.
pub const HOSTS_MAX: usize = 65_536;

/// Longest list text that is read at all, in bytes.
pub const HOST_LIST_TEXT_MAX: usize = 1 << 20;

/// Longest number that folds or expands, in digits.
const DIGITS_MAX: usize = 9;

/// Longest host name, in bytes (as `HOST_NAME_MAX` of most systems, doubled for domain names).
const NAME_MAX: usize = 255;

/// Expands a host list into its names, in order, duplicates kept.
///
/// # Errors
/// [`Code::HostListBad`] for malformed text, [`Code::HostListLong`] for more than `hosts_max`
/// hosts; memory and time stay within that bound.
pub fn expand(text: &str, hosts_max: usize) -> Result<Vec<String>, Problem> {
    if text.len() > HOST_LIST_TEXT_MAX {
        return Err(Problem::new(
            Code::HostListLong,
            format!("the host list is longer than {HOST_LIST_TEXT_MAX} bytes"),
        ));
    }
    let mut hosts = Vec::new();
    for term in split_outside_brackets(text, ',') {
        let pieces = pieces(term).map_err(|why| bad(text, term, why))?;
        let total = pieces.iter().try_fold(1_usize, |total, piece| total.checked_mul(piece.len()));
        if total.is_none_or(|total| total > hosts_max.saturating_sub(hosts.len())) {
            return Err(Problem::new(
                Code::HostListLong,
                format!("{} stands for more than {hosts_max} hosts", quoted(text)),
            ));
        }
        product(&pieces, &mut hosts);
        if hosts.last().is_some_and(|name| name.len() > NAME_MAX) {
            return Err(bad(text, term, "a host name is too long"));
        }
    }
    Ok(hosts)
}

/// The first host of a list, without expanding the rest.
///
/// # Errors
/// As [`expand`], for the first term only.
pub fn first(text: &str) -> Result<String, Problem> {
    let term = split_outside_brackets(text, ',')[0];
    let pieces = pieces(term).map_err(|why| bad(text, term, why))?;
    Ok(pieces.iter().map(Piece::first).collect())
}

fn bad(text: &str, term: &str, why: &str) -> Problem {
    let what = if term == text {
        format!("{} is not a host list: {why}", quoted(text))
    } else {
        format!("{} is not a host list: {why} in {}", quoted(text), quoted(term))
    };
    Problem::new(Code::HostListBad, what)
        .hint("write names and ranges, for example n[1-4,07],login")
}

/// A part of one term: fixed text, or the ranges of one pair of brackets.
enum Piece<'a> {
    Text(&'a str),
    Ranges(Vec<NumberRange>),
}

/// Numbers from `low` to `high` printed with at least `width` digits.
struct NumberRange {
    low: u64,
    high: u64,
    width: usize,
}

impl Piece<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Text(_) => 1,
            Self::Ranges(ranges) => ranges.iter().map(|r| (r.high - r.low + 1) as usize).sum(),
        }
    }

    fn first(&self) -> String {
        match self {
            Self::Text(text) => (*text).to_owned(),
            Self::Ranges(ranges) => {
                ranges.first().map_or_else(String::new, |r| format!("{:0w$}", r.low, w = r.width))
            }
        }
    }

    fn values(&self) -> Vec<String> {
        match self {
            Self::Text(text) => vec![(*text).to_owned()],
            Self::Ranges(ranges) => ranges
                .iter()
                .flat_map(|r| (r.low..=r.high).map(|n| format!("{n:0w$}", w = r.width)))
                .collect(),
        }
    }
}

fn pieces(term: &str) -> Result<Vec<Piece<'_>>, &'static str> {
    if term.is_empty() {
        return Err("a name is empty");
    }
    let mut pieces = Vec::new();
    let mut rest = term;
    while let Some(open) = rest.find('[') {
        push_text(&rest[..open], &mut pieces)?;
        let close = rest.find(']').ok_or("a bracket is not closed")?;
        if close < open {
            return Err("a bracket is closed that was not opened");
        }
        pieces.push(Piece::Ranges(ranges(&rest[open + 1..close])?));
        rest = &rest[close + 1..];
    }
    push_text(rest, &mut pieces)?;
    Ok(pieces)
}

fn push_text<'a>(text: &'a str, pieces: &mut Vec<Piece<'a>>) -> Result<(), &'static str> {
    if text.contains(']') {
        return Err("a bracket is closed that was not opened");
    }
    if !text.chars().all(is_name_char) {
        return Err("a host name has only letters, digits, `-`, `_` and `.`");
    }
    if pieces.is_empty() && text.starts_with('-') {
        return Err("a host name does not begin with `-`");
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(())
}

fn ranges(text: &str) -> Result<Vec<NumberRange>, &'static str> {
    text.split(',')
        .map(|part| {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            if low.len() > DIGITS_MAX || high.len() > DIGITS_MAX {
                return Err("a number is too long");
            }
            let (Some(low_n), Some(high_n)) = (digits(low), digits(high)) else {
                return Err("brackets hold numbers and ranges of numbers");
            };
            if low_n > high_n {
                return Err("a range runs backwards");
            }
            Ok(NumberRange { low: low_n, high: high_n, width: low.len() })
        })
        .collect()
}

fn product(pieces: &[Piece<'_>], hosts: &mut Vec<String>) {
    let mut names = vec![String::new()];
    for piece in pieces {
        match piece {
            Piece::Text(text) => names.iter_mut().for_each(|name| name.push_str(text)),
            Piece::Ranges(_) => {
                let values = piece.values();
                names = names
                    .iter()
                    .flat_map(|name| values.iter().map(move |value| format!("{name}{value}")))
                    .collect();
            }
        }
    }
    hosts.append(&mut names);
}

/// A host name cut at its last run of digits.
#[derive(PartialEq, Eq)]
struct Name<'a> {
    prefix: &'a str,
    number: Option<(u64, usize)>,
    suffix: &'a str,
}

fn cut(name: &str) -> Name<'_> {
    let plain = Name { prefix: name, number: None, suffix: "" };
    let Some(end) = name.rfind(|c: char| c.is_ascii_digit()).map(|at| at + 1) else { return plain };
    let start = name[..end]
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |at| at + name[at..].chars().next().map_or(1, char::len_utf8));
    let number = &name[start..end];
    match digits(number) {
        Some(value) if number.len() <= DIGITS_MAX => Name {
            prefix: &name[..start],
            number: Some((value, number.len())),
            suffix: &name[end..],
        },
        _ => plain,
    }
}

/// Folds names into a host list, in the order given; the exact inverse of [`expand`].
///
/// Names are expected to be valid host names; others come back unfolded.
pub fn fold<S: AsRef<str>>(names: &[S]) -> String {
    let mut out = String::new();
    let mut at = 0;
    while at < names.len() {
        let head = cut(names[at].as_ref());
        let Some(number) = head.number else {
            push_term(&mut out, names[at].as_ref());
            at += 1;
            continue;
        };
        let mut run = Run::start(number);
        let first = at;
        at += 1;
        while let Some(next) = names.get(at).map(|name| cut(name.as_ref())) {
            let Some(number) = next.number else { break };
            if next.prefix != head.prefix || next.suffix != head.suffix {
                break;
            }
            run.push(number);
            at += 1;
        }
        if at - first == 1 {
            push_term(&mut out, names[first].as_ref());
        } else {
            push_term(&mut out, &format!("{}[{}]{}", head.prefix, run.finish(), head.suffix));
        }
    }
    out
}

/// Folds a set of names: sorted by name with numbers in numeric order, duplicates dropped.
pub fn fold_sorted<S: AsRef<str>>(names: &[S]) -> String {
    let mut sorted: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    sorted.sort_by(|a, b| {
        let (x, y) = (cut(a), cut(b));
        (x.prefix, x.suffix, x.number).cmp(&(y.prefix, y.suffix, y.number)).then_with(|| a.cmp(b))
    });
    sorted.dedup();
    fold(&sorted)
}

fn push_term(out: &mut String, term: &str) {
    if !out.is_empty() {
        out.push(',');
    }
    out.push_str(term);
}

/// The inside of one pair of brackets while it grows.
struct Run {
    text: String,
    low: (u64, usize),
    high: u64,
}

impl Run {
    fn start(number: (u64, usize)) -> Self {
        Self { text: String::new(), low: number, high: number.0 }
    }

    /// Adds a number; it joins the range only if the width of the low bound gives back its digits.
    fn push(&mut self, (value, width): (u64, usize)) {
        let as_written = self.low.1.max(decimal_width(value));
        if value == self.high + 1 && as_written == width {
            self.high = value;
        } else {
            self.close();
            self.low = (value, width);
            self.high = value;
        }
    }

    fn close(&mut self) {
        if !self.text.is_empty() {
            self.text.push(',');
        }
        let (low, width) = self.low;
        if low == self.high {
            let _ = write!(self.text, "{low:0width$}");
        } else {
            let _ = write!(self.text, "{low:0width$}-{:0width$}", self.high);
        }
    }

    fn finish(mut self) -> String {
        self.close();
        self.text
    }
}

fn decimal_width(value: u64) -> usize {
    value.checked_ilog10().unwrap_or(0) as usize + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expanded(text: &str) -> String {
        expand(text, HOSTS_MAX).expect(text).join(" ")
    }

    #[test]
    fn s06_expansion_keeps_width() {
        for (text, names) in [
            ("b04-[09-10]", "b04-09 b04-10"),
            ("n[8-11]", "n8 n9 n10 n11"),
            ("n[08-11]", "n08 n09 n10 n11"),
            ("n[1,03,5-6]", "n1 n03 n5 n6"),
            ("rack[1-2]n[01-02]", "rack1n01 rack1n02 rack2n01 rack2n02"),
            ("gpu[1-2]-ib0", "gpu1-ib0 gpu2-ib0"),
            ("[1-2]", "1 2"),
            ("login", "login"),
            ("n1,n1", "n1 n1"),
        ] {
            assert_eq!(expanded(text), names, "{text}");
        }
    }

    #[test]
    fn s07_fold() {
        assert_eq!(fold(&["n9", "n10"]), "n[9-10]");
        assert_eq!(fold(&["n09", "n10"]), "n[09-10]");
        assert_eq!(fold(&["n099", "n100"]), "n[099-100]");
        assert_eq!(expanded(&fold(&["n1", "n01"])), "n1 n01");
        assert_eq!(expanded(&fold(&["login", "n1", "n2"])), "login n1 n2");
        assert_eq!(fold_sorted(&["n10", "n2", "login", "n1", "n2"]), "login,n[1-2,10]");
        assert_eq!(fold::<&str>(&[]), "");
        assert_eq!(first("n[1,3],gpu2"), Ok("n1".to_owned()));
    }

    #[test]
    fn s08_malformed_lists_are_errors() {
        for text in [
            "n[3-1]",
            "n[1-",
            "n[]",
            "n[a-b]",
            "n[[1,3]",
            "n1]",
            "n][1",
            "",
            "n1,",
            ",n1",
            "n 1",
            "n[1-2-3]",
            "n[-1]",
            "n[1,]",
            "n/1",
            "-n1",
            "n[1234567890]",
        ] {
            assert_eq!(expand(text, HOSTS_MAX).expect_err(text).code, Code::HostListBad, "{text}");
        }
        for text in ["n[0-99999999]", "n[1-999][1-999][1-999][1-999][1-999][1-999][1-999][1-999]"] {
            assert_eq!(expand(text, HOSTS_MAX).expect_err(text).code, Code::HostListLong);
        }
        assert_eq!(expand("n[1-4]", 3).expect_err("four").code, Code::HostListLong);
    }

    proptest! {
        #[test]
        fn fold_and_expand_are_inverses(
            names in proptest::collection::vec("[a-c][0-9]{0,4}(-ib)?[0-9]{1,11}x?", 1..40)
        ) {
            prop_assert_eq!(expand(&fold(&names), HOSTS_MAX).expect("folded"), names);
        }

        #[test]
        fn sorting_folds_the_same_set(
            names in proptest::collection::vec("n[0-9]{1,3}", 1..40)
        ) {
            let mut back = expand(&fold_sorted(&names), HOSTS_MAX).expect("folded");
            back.sort();
            let mut names = names;
            names.sort();
            names.dedup();
            prop_assert_eq!(back, names);
        }

        #[test]
        fn never_panics_and_stays_bounded(text in "\\PC{0,60}", near in "[n0-9,\\[\\]-]{0,60}") {
            let _ = expand(&text, 1000);
            let _ = first(&near);
            if let Ok(hosts) = expand(&near, 1000) {
                prop_assert!(hosts.len() <= 1000);
            }
        }
    }
}
