//! Text that others wrote, as it may stand in a line of a page or a terminal.

/// The letter, or a replacement where it would change how the text around it looks: control
/// characters, and marks that are not seen or turn the direction of what follows.
pub fn letter(c: char) -> char {
    match c {
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' => '\u{fffd}',
        '\u{2060}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{61c}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

/// A text of such letters.
pub fn text(text: &str) -> String {
    text.chars().map(letter).collect()
}

/// Bytes with one digit behind the point.
pub fn bytes(bytes: u64) -> String {
    let units = [("TiB", 40_u32), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, bits)| bytes >> bits > 0) {
        Some((unit, bits)) => {
            let tenths = (u128::from(bytes) * 10) >> bits;
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn orders_to_a_terminal_become_letters() {
        assert_eq!(text("a\u{1b}[31mb\u{202e}c\r\n"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}\u{fffd}");
        assert_eq!(text("한글 é 名"), "한글 é 名");
    }
}
