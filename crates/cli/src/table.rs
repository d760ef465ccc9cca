//! Tables for people: aligned columns that fit the terminal, whole texts where there is none.

use std::io::IsTerminal;
use std::os::fd::AsFd;

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
    /// It is left out where it says 0, or nothing, in every row.
    DropZero(&'static str),
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
        // Others wrote some of them: a line end, or an order to the terminal, would break the table.
        self.rows.push(cells.into_iter().map(|cell| muster_api::shown::text(&cell)).collect());
    }

    /// True where it has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text; made to fit `width` columns where one is given. Columns that are empty in every
    /// row are left out, and without rows there is nothing.
    pub(crate) fn text(&self, width: Option<usize>) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
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
            let (Yield::Drop(title)
            | Yield::DropSame(title)
            | Yield::DropZero(title)
            | Yield::Shorten(title, _)) = *step;
            let zero = |at: usize| self.rows.iter().all(|row| ["", "0"].contains(&&*row[at]));
            let same = |at: usize| self.rows.windows(2).all(|two| two[0][at] == two[1][at]);
            match *step {
                Yield::Drop(_) => shown.retain(|(at, _)| self.titles[*at] != title),
                Yield::DropSame(_) => {
                    shown.retain(|(at, _)| self.titles[*at] != title || !same(*at));
                }
                Yield::DropZero(_) => {
                    shown.retain(|(at, _)| self.titles[*at] != title || !zero(*at));
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

/// Sentences and `name  value` lines broken at blanks so that they fit; what follows of a line
/// stands below its value, or further in than the line began.
pub(crate) fn wrapped(text: &str, width: Option<usize>) -> String {
    let Some(width) = width.filter(|width| *width >= 20) else { return text.to_owned() };
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        if wide(line.trim_end()) <= width {
            out.push_str(line);
            continue;
        }
        let indent = line.chars().take_while(|c| *c == ' ').count();
        let rest = &line[indent..];
        // Behind the name and the blanks that align the values.
        let value =
            rest.find("  ").map(|at| at + rest[at..].chars().take_while(|c| *c == ' ').count());
        let hang = value.map_or(indent + 4, |at| indent + wide(&rest[..at]));
        let hang = if hang > width / 2 { indent + 4 } else { hang };
        let (mut taken, mut first) = (indent, true);
        out.push_str(&line[..indent]);
        for word in rest.trim_end().split(' ') {
            if !first && taken + 1 + wide(word) > width && !word.is_empty() {
                while out.ends_with(' ') {
                    out.pop();
                }
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', hang));
                taken = hang;
            } else if !first {
                out.push(' ');
                taken += 1;
            }
            out.push_str(word);
            taken += wide(word);
            first = false;
        }
        if line.ends_with('\n') {
            out.push('\n');
        }
    }
    out
}

/// The columns of a text, colours left aside.
fn wide(text: &str) -> usize {
    anstream::adapter::strip_str(text).to_string().width()
}

/// The terminal's width; `None` where standard output is no terminal.
pub(crate) fn terminal_width() -> Option<usize> {
    width_of(&std::io::stdout())
}

/// The width of the terminal that talk goes to; `None` where standard error is none.
pub(crate) fn talk_width() -> Option<usize> {
    width_of(&std::io::stderr())
}

fn width_of(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    terminal_size::terminal_size_of(stream).map(|(width, _)| usize::from(width.0))
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
    fn what_others_wrote_breaks_no_table() {
        let mut table = Table::new(&["NODE", "WHY"]);
        table.row(vec!["n1".into(), "bad\nline \u{1b}[31m\u{202e}".into()]);
        assert_eq!(table.text(None), "NODE  WHY\nn1    bad\u{fffd}line \u{fffd}[31m\u{fffd}\n");
    }

    #[test]
    fn long_lines_go_on_below_their_value() {
        let text = "job 7\n  waits because  needs 16 gpus on 2 nodes; 14 are free\n";
        assert_eq!(wrapped(text, None), text);
        assert_eq!(
            wrapped(text, Some(40)),
            "job 7\n  waits because  needs 16 gpus on 2\n                 nodes; 14 are free\n"
        );
        assert_eq!(wrapped("one two three four five", Some(20)), "one two three four\n    five");
        assert_eq!(
            wrapped("  because: one two three four five\n", Some(20)),
            "  because: one two\n      three four\n      five\n"
        );
    }

    #[test]
    fn columns_of_zeros_give_way() {
        let mut table = Table::new(&["JOB", ">AGE", ">SIZE"])
            .yielding(&[Yield::DropZero("AGE"), Yield::DropZero("SIZE")]);
        table.row(vec!["1".into(), "0".into(), "5".into()]);
        assert_eq!(table.text(Some(80)), "JOB  AGE  SIZE\n1      0     5\n");
        assert_eq!(table.text(Some(10)), "JOB  SIZE\n1       5\n");
        assert_eq!(Table::new(&["JOB"]).text(None), "");
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
