//! Reading what exporters tell, in Prometheus' text format (its documentation, "Exposition formats").

use std::collections::BTreeMap;

/// One line as name, labels and value: `NAME{label="value",…} 12.5 [time]`, escapes undone; `None` for
/// comments and for what is no such line. A value may be no finite number.
pub fn sample(line: &str) -> Option<(&str, BTreeMap<&str, String>, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner.trim_start();
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.insert(label.trim(), value);
            rest = after.trim_start().trim_start_matches(',').trim_start();
        }
        rest = &rest[1..];
    }
    let value = rest.split_ascii_whitespace().next()?;
    Some((name, labels, value.parse().ok()?))
}

/// Text up to the next quotation mark that no backslash stands before, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match letters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            _ => value.push(letter),
        }
    }
    None
}
