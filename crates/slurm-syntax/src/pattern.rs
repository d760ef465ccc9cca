//! File name patterns: `slurm-%A_%a.out`, `log%4j`.
//!
//! Rule: sbatch manual, "filename pattern". A backslash anywhere turns all replacement off (and is
//! itself removed); a number between `%` and the letter pads numbers with zeros, to ten digits at
//! most; unknown letters stay as they are.

use std::fmt::Write as _;

use crate::problem::{Code, Problem, quoted};

/// Longest pattern and longest result, in bytes (as `PATH_MAX`).
pub const PATH_MAX: usize = 4096;

/// Most digits that padding gives.
const WIDTH_MAX: usize = 10;

/// What Slurm prints for the index of a job that is no array task.
const NO_INDEX: u32 = 4_294_967_294;

/// What the letters of a pattern stand for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Values<'a> {
    /// `%j`: the job's own id.
    pub job_id: u32,
    /// `%A` and `%a`: the array's id and the task's index, for array tasks.
    pub array: Option<(u32, u32)>,
    /// `%s` and `%J`: the step's number; `None` for the batch script.
    pub step: Option<u32>,
    /// `%N`: the short host name.
    pub node_name: &'a str,
    /// `%n`: the node's index within the job.
    pub node_index: u32,
    /// `%t`: the task's rank.
    pub task: u32,
    /// `%u`: the user's name.
    pub user: &'a str,
    /// `%x`: the job's name.
    pub job_name: &'a str,
    /// `%r`: how often the job was restarted.
    pub restarts: u32,
}

/// Where the output goes when no option says so (sbatch manual, `--output`).
pub fn default_output(array: bool) -> &'static str {
    if array { "slurm-%A_%a.out" } else { "slurm-%j.out" }
}

/// Checks a pattern at submission and returns the path to keep; `none` means `/dev/null`.
///
/// # Errors
/// [`Code::PatternBad`] for empty and over-long patterns, control characters and `%S`, which
/// stands for an id that muster does not have.
pub fn parse(text: &str) -> Result<String, Problem> {
    let bad = |why: &str| {
        Problem::new(
            Code::PatternBad,
            format!("{} is not a file name pattern: {why}", quoted(text)),
        )
    };
    if text.eq_ignore_ascii_case("none") {
        return Ok("/dev/null".to_owned());
    }
    if text.is_empty() {
        return Err(bad("it is empty"));
    }
    if text.len() > PATH_MAX {
        return Err(bad(&format!("it is longer than {PATH_MAX} bytes")));
    }
    if text.chars().any(char::is_control) {
        return Err(bad("it has a control character"));
    }
    if !text.contains('\\') && Pieces(text).any(|piece| matches!(piece, Piece::Field('S', _))) {
        return Err(bad("%S (a job's SLUID) exists only in Slurm").hint("use %j, the job id"));
    }
    Ok(text.to_owned())
}

/// Fills a pattern in; the result is cut at [`PATH_MAX`] bytes.
pub fn expand(pattern: &str, values: &Values<'_>) -> String {
    if pattern.contains('\\') {
        return cut(unescaped(pattern));
    }
    let mut out = String::new();
    for piece in Pieces(pattern) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Field(letter, width) => push_field(&mut out, letter, width, values),
        }
        if out.len() > PATH_MAX {
            break;
        }
    }
    cut(out)
}

fn push_field(out: &mut String, letter: char, width: usize, values: &Values<'_>) {
    let (array, index) = values.array.unwrap_or((values.job_id, NO_INDEX));
    let number = match letter {
        'A' => array,
        'a' => index,
        'b' => index % 10,
        'j' | 'J' => values.job_id,
        'n' => values.node_index,
        'r' => values.restarts,
        't' => values.task,
        's' => match values.step {
            Some(step) => step,
            None => return out.push_str("batch"),
        },
        'N' => return out.push_str(values.node_name),
        'u' => return out.push_str(values.user),
        'x' => return out.push_str(values.job_name),
        _ => return,
    };
    let _ = write!(out, "{number:0width$}");
    if let ('J', Some(step)) = (letter, values.step) {
        let _ = write!(out, ".{step}");
    }
}

/// Removes backslashes; a doubled one stays single.
fn unescaped(pattern: &str) -> String {
    let mut out = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            c => out.push(c),
        }
    }
    out
}

fn cut(mut path: String) -> String {
    let mut end = PATH_MAX.min(path.len());
    while !path.is_char_boundary(end) {
        end -= 1;
    }
    path.truncate(end);
    path
}

enum Piece<'a> {
    Text(&'a str),
    Field(char, usize),
}

/// The pieces of a pattern without backslashes, from left to right.
struct Pieces<'a>(&'a str);

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if self.0.is_empty() {
            return None;
        }
        let text = self.0;
        let Some(after) = text.strip_prefix('%') else {
            let end = text.find('%').unwrap_or(text.len());
            self.0 = &text[end..];
            return Some(Piece::Text(&text[..end]));
        };
        let width_len = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let letter = after[width_len..].chars().next();
        let taken = 1 + width_len + letter.map_or(0, char::len_utf8);
        self.0 = &text[taken..];
        match letter {
            Some('%') if width_len == 0 => Some(Piece::Text("%")),
            Some(
                letter @ ('A' | 'a' | 'b' | 'J' | 'j' | 'N' | 'n' | 'r' | 'S' | 's' | 't' | 'u'
                | 'x'),
            ) => {
                let width = after[..width_len].parse().unwrap_or(WIDTH_MAX).min(WIDTH_MAX);
                Some(Piece::Field(letter, if width_len == 0 { 0 } else { width }))
            }
            _ => Some(Piece::Text(&text[..taken])),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> Values<'static> {
        Values {
            job_id: 128,
            array: None,
            step: Some(0),
            node_name: "n3",
            node_index: 1,
            task: 2,
            user: "mara",
            job_name: "train",
            restarts: 1,
        }
    }

    #[test]
    fn the_letters_of_the_manual() {
        let task = Values { array: Some((100, 17)), job_id: 117, step: None, ..values() };
        for (pattern, path) in [
            ("job%J.out", "job128.0.out"),
            ("job%4j.out", "job0128.out"),
            ("job%2j-%2t.out", "job128-02.out"),
            ("%u/%x-%N-%n-%s-%r.log", "mara/train-n3-1-0-1.log"),
            ("100%%", "100%"),
            ("%99j", "0000000128"),
            ("%5N", "n3"),
            ("%q%", "%q%"),
            ("\\job%j", "job%j"),
            ("a\\\\%j", "a\\%j"),
            ("%A", "128"),
        ] {
            assert_eq!(expand(pattern, &values()), path, "{pattern}");
        }
        assert_eq!(expand("slurm-%A_%a.out", &task), "slurm-100_17.out");
        assert_eq!(expand("%3a-%b-%j-%J-%s", &task), "017-7-117-117-batch");
    }

    #[test]
    fn patterns_are_checked_at_submission() {
        assert_eq!(parse("NONE").as_deref(), Ok("/dev/null"));
        assert_eq!(parse("out/%j.txt").as_deref(), Ok("out/%j.txt"));
        for text in ["", "a\nb", "a\0b", "%S.out", &"x".repeat(5000)] {
            assert_eq!(parse(text).expect_err("bad").code, Code::PatternBad);
        }
    }

    proptest! {
        #[test]
        fn never_panics_and_stays_bounded(pattern in "[%\\\\\\PC]{0,60}", near in "[%0-9jaANxS]{0,60}") {
            prop_assert!(expand(&pattern, &values()).len() <= PATH_MAX);
            prop_assert!(expand(&near, &values()).len() <= PATH_MAX);
            let _ = parse(&pattern);
        }
    }
}
