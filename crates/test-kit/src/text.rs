//! The small grammar that fixtures, jobs and scenarios share.

use muster_model::{Mib, NodeId, State};

/// Words of a line: blanks part them, quotes hold them together.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// A `key=value` word; a bare word is a key with the value `yes`.
pub fn field(word: &str) -> (&str, &str) {
    word.split_once('=').unwrap_or((word, "yes"))
}

/// A whole number.
pub fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is not a number"))
}

/// Memory: `512M`, `64G`, `2T`, or MiB without a unit.
pub fn memory(text: &str) -> Mib {
    let (digits, factor) = match text.chars().last() {
        Some('M') => (&text[..text.len() - 1], 1),
        Some('G') => (&text[..text.len() - 1], 1024),
        Some('T') => (&text[..text.len() - 1], 1024 * 1024),
        _ => (text, 1),
    };
    Mib(number::<u64>(digits) * factor)
}

/// Names with at most one range or list: `n1`, `n[1-4]`, `n[1,3-5]`, `n1,n2`.
pub fn names(text: &str) -> Vec<String> {
    let Some((prefix, rest)) = text.split_once('[') else {
        return text.split(',').map(str::to_owned).collect();
    };
    let (inside, suffix) = rest.split_once(']').unwrap_or_else(|| panic!("{text:?} lacks a ]"));
    let mut names = Vec::new();
    for piece in inside.split(',') {
        let (low, high) = piece.split_once('-').unwrap_or((piece, piece));
        for n in number::<u32>(low)..=number::<u32>(high) {
            names.push(format!("{prefix}{n}{suffix}"));
        }
    }
    names
}

/// Names folded again where they are neighbours: `n[1-4],login`.
pub fn fold(names: &[String]) -> String {
    let split = |name: &str| {
        let at = name.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |i| i + 1);
        (name[..at].to_owned(), name[at..].parse::<u32>().ok())
    };
    let mut pieces: Vec<(String, Vec<(u32, u32)>)> = Vec::new();
    for name in names {
        match (split(name), pieces.last_mut()) {
            ((prefix, Some(n)), Some((last, ranges))) if prefix == *last && !ranges.is_empty() => {
                match ranges.last_mut() {
                    Some(range) if range.1 + 1 == n => range.1 = n,
                    _ => ranges.push((n, n)),
                }
            }
            ((prefix, Some(n)), _) => pieces.push((prefix, vec![(n, n)])),
            ((prefix, None), _) => pieces.push((prefix, Vec::new())),
        }
    }
    let range = |(low, high): &(u32, u32)| {
        if low == high { low.to_string() } else { format!("{low}-{high}") }
    };
    let text = |(prefix, ranges): &(String, Vec<(u32, u32)>)| match ranges.as_slice() {
        [] => prefix.clone(),
        [(low, high)] if low == high => format!("{prefix}{low}"),
        many => format!("{prefix}[{}]", many.iter().map(range).collect::<Vec<_>>().join(",")),
    };
    pieces.iter().map(text).collect::<Vec<_>>().join(",")
}

/// The names of nodes, folded.
pub fn node_names(state: &State, nodes: impl IntoIterator<Item = NodeId>) -> String {
    fold(&nodes.into_iter().map(|id| state.node_name(id)).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_expand_and_fold() {
        assert_eq!(names("n[1,3-5]"), ["n1", "n3", "n4", "n5"]);
        assert_eq!(fold(&names("n[1,3-5]")), "n[1,3-5]");
        assert_eq!(fold(&["login".to_owned(), "n7".to_owned()]), "login,n7");
    }

    #[test]
    fn quotes_hold_words_together() {
        assert_eq!(words(r#"a constraint="x|y z" b"#), ["a", "constraint=x|y z", "b"]);
    }
}
