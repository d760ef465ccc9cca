//! Tables for people: aligned columns that fit the terminal, whole texts where there is none.

use std::io::IsTerminal;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns that the last column keeps, where its texts are as long, before others give way.
const LAST_LEAST: usize = 28;

/// How a column gives way where the terminal is too narrow.
#[derive(Clone, Copy)]
pub(crate) enum Yield {
    /// It is left out.
    Drop(&'static str),
    /// It is left out where it says the same in every row.
    DropSame(&'static str),
    /// Its texts are cut at so many columns.
    Shorten(&'static str, usize),
}

/// A table under construction.
pub(crate) struct Table {
    titles: Vec<&'static str>,
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
    yields: &'static [Yield],
}

impl Table {
    /// A table with these titles; a `>` in front puts the column to the right.
    pub(crate) fn new(titles: &[&'static str]) -> Self {
        let right = titles.iter().map(|title| title.starts_with('>')).collect();
        let titles = titles.iter().map(|title| title.trim_start_matches('>')).collect();
        Self { titles, right, rows: Vec::new(), yields: &[] }
    }

    /// The same table; these columns give way, in this order, where the terminal is too narrow.
    pub(crate) fn yielding(self, yields: &'static [Yield]) -> Self {
        Self { yields, ..self }
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

    /// The text; made to fit `width` columns where one is given. Columns that are empty in every
    /// row are left out.
    pub(crate) fn text(&self, width: Option<usize>) -> String {
        let titles: Vec<String> = self.titles.iter().map(|title| (*title).to_owned()).collect();
        let all = || std::iter::once(&titles).chain(&self.rows);
        let mut shown: Vec<(usize, usize)> = (0..self.titles.len())
            .filter(|at| *at == 0 || self.rows.iter().any(|row| !row[*at].is_empty()))
            .map(|at| (at, all().map(|row| row[at].width()).max().unwrap_or(0)))
            .collect();
        if let Some(width) = width {
            self.fit(&mut shown, width);
        }
        let mut text = String::new();
        for row in all() {
            let mut line = String::new();
            for (nth, &(at, room)) in shown.iter().enumerate() {
                if nth > 0 {
                    line.push_str("  ");
                }
                let last = nth + 1 == shown.len();
                let cell = if last { row[at].clone() } else { cut(&row[at], Some(room)) };
                let blanks = room.saturating_sub(cell.width());
                if self.right[at] {
                    line.extend(std::iter::repeat_n(' ', blanks));
                }
                line.push_str(&cell);
                if !self.right[at] && !last {
                    line.extend(std::iter::repeat_n(' ', blanks));
                }
            }
            text.push_str(&cut(line.trim_end(), width));
            text.push('\n');
        }
        text
    }

    /// Lets columns give way, one after the other, until the rest fits.
    fn fit(&self, shown: &mut Vec<(usize, usize)>, width: usize) {
        for step in self.yields {
            let last = shown.last().map_or(0, |(_, room)| *room);
            let need: usize = shown.iter().map(|(_, room)| room + 2).sum();
            if need + last.min(LAST_LEAST) <= width + 2 + last {
                return;
            }
            let (Yield::Drop(title) | Yield::DropSame(title) | Yield::Shorten(title, _)) = *step;
            let same = |at: usize| self.rows.windows(2).all(|two| two[0][at] == two[1][at]);
            match *step {
                Yield::Drop(_) => shown.retain(|(at, _)| self.titles[*at] != title),
                Yield::DropSame(_) => {
                    shown.retain(|(at, _)| self.titles[*at] != title || !same(*at));
                }
                Yield::Shorten(_, most) => {
                    for (_, room) in shown.iter_mut().filter(|(at, _)| self.titles[*at] == title) {
                        *room = most.min(*room);
                    }
                }
            }
        }
    }
}

/// A text with an ellipsis where it takes more columns than there are; a wide character takes two.
pub(crate) fn cut(text: &str, width: Option<usize>) -> String {
    let Some(width) = width.filter(|width| *width > 1 && text.width() > *width) else {
        return text.to_owned();
    };
    let (mut kept, mut taken) = (String::new(), 0);
    for letter in text.chars() {
        taken += letter.width().unwrap_or(0);
        if taken > width - 1 {
            break;
        }
        kept.push(letter);
    }
    kept.push('…');
    kept
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

    #[test]
    fn columns_give_way_before_the_last_one_does() {
        let table = || {
            let mut table = Table::new(&["JOB", "NAME", "USER", "LIMIT", "WHY"]).yielding(&[
                Yield::DropSame("USER"),
                Yield::Drop("LIMIT"),
                Yield::Shorten("NAME", 6),
            ]);
            let row = |job: &str, name: &str| {
                vec![job.into(), name.into(), "mara".into(), "1:00:00".into(), "w".repeat(40)]
            };
            table.row(row("1", "한글-학습-작업"));
            table.row(row("2", "train-a-model"));
            table
        };
        let wide = table().text(Some(100));
        assert!(wide.contains("mara") && wide.contains("1:00:00"));
        let narrow = table().text(Some(44));
        let lines: Vec<&str> = narrow.lines().collect();
        assert_eq!(lines[0], "JOB  NAME    WHY");
        assert_eq!(lines[1], format!("1    한글-…  {}…", "w".repeat(30)));
        assert_eq!(lines[2], format!("2    train…  {}…", "w".repeat(30)));
        assert!(lines[1..].iter().all(|line| line.width() <= 44), "{narrow}");
    }
}
