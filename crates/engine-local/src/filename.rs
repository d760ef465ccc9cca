//! Names of output files: the `%` patterns of sbatch, filled in.

/// What the patterns stand for (sbatch manual, filename pattern).
#[derive(Clone, Debug, Default)]
pub(crate) struct NameFacts<'a> {
    pub(crate) job: u32,
    /// The array's number and the task's index.
    pub(crate) array: Option<(u32, u32)>,
    pub(crate) name: &'a str,
    pub(crate) user: &'a str,
    pub(crate) node: &'a str,
}

/// The widest padding (`%10j`), as in Slurm.
const WIDTH_MAX: usize = 10;

/// What Slurm prints for `%a` where there is no array (`NO_VAL`).
const NO_INDEX: u32 = 4_294_967_294;

/// Fills a pattern in. A pattern with a backslash is taken as it stands, without its backslashes;
/// an unknown letter stays as it is.
pub(crate) fn expand(pattern: &str, facts: &NameFacts<'_>) -> String {
    if pattern.contains('\\') {
        return pattern.replace('\\', "");
    }
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (width, tail) = rest.split_at(digits);
        let Some(letter) = tail.chars().next() else {
            out.push('%');
            break;
        };
        match value(letter, width, facts) {
            Some(text) => {
                out.push_str(&text);
                rest = &tail[letter.len_utf8()..];
            }
            None => out.push('%'),
        }
    }
    out.push_str(rest);
    out
}

fn value(letter: char, width: &str, facts: &NameFacts<'_>) -> Option<String> {
    let (array, index) = facts.array.unwrap_or((facts.job, NO_INDEX));
    let number = match letter {
        '%' => return Some("%".to_owned()),
        'A' => array,
        'a' => index,
        'b' => index % 10,
        'j' | 'J' => facts.job,
        'n' | 't' => 0,
        's' => return Some("batch".to_owned()),
        'N' => return Some(facts.node.split('.').next().unwrap_or(facts.node).to_owned()),
        'u' => return Some(facts.user.to_owned()),
        'x' => return Some(facts.name.to_owned()),
        _ => return None,
    };
    let width = width.parse::<usize>().unwrap_or(0).min(WIDTH_MAX);
    Some(format!("{number:0width$}"))
}

#[cfg(test)]
mod tests {
    use super::{NameFacts, expand};

    #[test]
    fn patterns_fill_in() {
        let facts = NameFacts {
            job: 128,
            array: Some((120, 8)),
            name: "train",
            user: "ann",
            node: "gpu1.site",
        };
        for (pattern, name) in [
            ("slurm-%A_%a.out", "slurm-120_8.out"),
            ("job%4j.%x", "job0128.train"),
            ("%u/%N-%n-%t", "ann/gpu1-0-0"),
            ("100%%", "100%"),
            ("50%", "50%"),
            ("%q%j", "%q128"),
            ("%99j", "0000000128"),
            ("\\%j", "%j"),
            ("plain", "plain"),
        ] {
            assert_eq!(expand(pattern, &facts), name, "{pattern}");
        }
        let alone = NameFacts { job: 5, ..NameFacts::default() };
        assert_eq!(expand("%A_%a", &alone), "5_4294967294");
    }
}
