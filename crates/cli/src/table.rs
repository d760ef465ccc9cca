//! Tables for people: aligned columns that fit the terminal, whole texts where there is none.

use std::io::IsTerminal;

/// A table under construction.
pub(crate) struct Table {
    titles: Vec<&'static str>,
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these titles; a `>` in front puts the column to the right.
    pub(crate) fn new(titles: &[&'static str]) -> Self {
        let right = titles.iter().map(|title| title.starts_with('>')).collect();
        let titles = titles.iter().map(|title| title.trim_start_matches('>')).collect();
        Self { titles, right, rows: Vec::new() }
    }

    /// One more row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.titles.len());
        self.rows.push(cells);
    }

    /// True where it has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text; the last column is cut at `width` characters where one is given. Columns that are
    /// empty in every row are left out.
    pub(crate) fn text(&self, width: Option<usize>) -> String {
        let used: Vec<usize> = (0..self.titles.len())
            .filter(|at| *at == 0 || self.rows.iter().any(|row| !row[*at].is_empty()))
            .collect();
        let titles: Vec<String> = self.titles.iter().map(|title| (*title).to_owned()).collect();
        let all = || std::iter::once(&titles).chain(&self.rows);
        let longest: Vec<usize> = (0..self.titles.len())
            .map(|at| all().map(|row| row[at].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for row in all() {
            let mut line = String::new();
            for (nth, &at) in used.iter().enumerate() {
                if nth > 0 {
                    line.push_str("  ");
                }
                let blanks = longest[at].saturating_sub(row[at].chars().count());
                if self.right[at] {
                    line.extend(std::iter::repeat_n(' ', blanks));
                }
                line.push_str(&row[at]);
                if !self.right[at] && nth + 1 < used.len() {
                    line.extend(std::iter::repeat_n(' ', blanks));
                }
            }
            text.push_str(&cut(line.trim_end(), width));
            text.push('\n');
        }
        text
    }
}

/// A line with an ellipsis where it is longer than the terminal.
fn cut(line: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if width > 1 && line.chars().count() > width => {
            line.chars().take(width - 1).chain(std::iter::once('…')).collect()
        }
        _ => line.to_owned(),
    }
}

/// The terminal's width; `None` where standard output is no terminal.
pub(crate) fn terminal_width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_the_last_is_cut() {
        let mut table = Table::new(&["JOB", ">NODES", "EMPTY", "WHY"]);
        table.row(vec!["12".into(), "1".into(), String::new(), "node1".into()]);
        table.row(vec![
            "900_[3-9%2]".into(),
            "16".into(),
            String::new(),
            "waits for 4 GPUs".into(),
        ]);
        assert_eq!(
            table.text(None),
            "JOB          NODES  WHY\n12               1  node1\n900_[3-9%2]     16  waits for 4 GPUs\n"
        );
        assert_eq!(table.text(Some(24)).lines().nth(2), Some("900_[3-9%2]     16  wai…"));
    }
}
