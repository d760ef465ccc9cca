//! Small pieces that the value parsers share: digits, bounded numbers, lists.

/// The text as a number, if it is one to eighteen decimal digits and nothing else.
///
/// No sign, no blanks: `+5`, ` 5` and an empty text are not numbers.
pub(crate) fn digits(text: &str) -> Option<u64> {
    if text.is_empty() || text.len() > 18 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// A number with an optional binary suffix (`k`, `m`, `g`, `t`, `p`: powers of 1024).
pub(crate) fn binary_count(text: &str) -> Option<u64> {
    let (number, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 10),
        b'm' | b'M' => (&text[..text.len() - 1], 20),
        b'g' | b'G' => (&text[..text.len() - 1], 30),
        b't' | b'T' => (&text[..text.len() - 1], 40),
        b'p' | b'P' => (&text[..text.len() - 1], 50),
        _ => (text, 0),
    };
    digits(number)?.checked_mul(1 << shift)
}

/// True for the characters of names of resources, features, accounts and the like.
pub(crate) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// True for a plain name of one to 255 name characters.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= 255 && text.chars().all(is_name_char)
}

/// Splits at a separator outside square brackets and parentheses.
pub(crate) fn split_outside_brackets(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0_usize);
    for (at, c) in text.char_indices() {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            _ if c == separator && depth == 0 => {
                parts.push(&text[start..at]);
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_plain_digits() {
        assert_eq!(digits("007"), Some(7));
        for bad in ["", "+1", "-1", " 1", "1 ", "1_000", "1234567890123456789"] {
            assert_eq!(digits(bad), None, "{bad}");
        }
        assert_eq!(binary_count("2k"), Some(2048));
        assert_eq!(binary_count("9999999999p"), None);
        assert_eq!(binary_count("k"), None);
    }

    #[test]
    fn separators_inside_brackets_do_not_split() {
        assert_eq!(split_outside_brackets("n[1,3],gpu2", ','), ["n[1,3]", "gpu2"]);
        assert_eq!(split_outside_brackets("", ','), [""]);
    }
}
