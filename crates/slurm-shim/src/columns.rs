//! Columns as Slurm's tables have them: `-o "%.18i %9P"`, `-O JobID:.10,State` and sacct's `%20`.

/// One column of a table: what stands in it and how wide it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column<F> {
    /// What stands in it.
    pub(crate) field: F,
    /// Width and side; `None` prints the text as it is.
    pub(crate) width: Option<Width>,
    /// Text printed behind it as it stands.
    pub(crate) after: String,
}

/// How a text is fitted into its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Width {
    /// In characters.
    pub(crate) chars: usize,
    /// Blanks stand before the text, not behind it.
    pub(crate) right: bool,
}

/// A whole line: text before the first column, then the columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout<F> {
    /// Text printed before everything.
    pub(crate) before: String,
    /// The columns in order.
    pub(crate) columns: Vec<Column<F>>,
}

/// Cuts or fills a text to its column.
pub(crate) fn fit(text: &str, width: Option<Width>, out: &mut String) {
    let Some(width) = width else {
        out.push_str(text);
        return;
    };
    let length = text.chars().count();
    let blanks = width.chars.saturating_sub(length);
    if width.right {
        out.extend(std::iter::repeat_n(' ', blanks));
    }
    if length > width.chars {
        out.extend(text.chars().take(width.chars));
    } else {
        out.push_str(text);
    }
    if !width.right {
        out.extend(std::iter::repeat_n(' ', blanks));
    }
}

impl<F> Layout<F> {
    /// One line of the table, without its end.
    pub(crate) fn line(&self, text: impl Fn(&F) -> String) -> String {
        let mut out = self.before.clone();
        for column in &self.columns {
            fit(&muster_api::shown::text(&text(&column.field)), column.width, &mut out);
            out.push_str(&column.after);
        }
        out
    }
}

/// Reads `%.18i %9P`: a dot puts the text to the right, a number is the width. `field` says what a
/// letter stands for; letters it does not know stay in the line as they are, and are returned.
pub(crate) fn percent<F>(
    format: &str,
    field: impl Fn(char) -> Option<F>,
) -> (Layout<F>, Vec<char>) {
    let mut layout = Layout { before: String::new(), columns: Vec::new() };
    let mut unknown = Vec::new();
    let mut pieces = format.split('%');
    layout.before.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let (right, rest) = match piece.strip_prefix('.') {
            Some(rest) => (true, rest),
            None => (false, piece),
        };
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        // A width is a screen's, not a memory's.
        let chars = rest[..digits].parse::<usize>().unwrap_or(0).min(4096);
        let mut letters = rest[digits..].chars();
        let letter = letters.next();
        let after = letters.as_str();
        match letter.and_then(&field) {
            Some(field) => layout.columns.push(Column {
                field,
                width: (chars > 0).then_some(Width { chars, right }),
                after: after.to_owned(),
            }),
            None => {
                unknown.extend(letter);
                let last = layout.columns.last_mut().map(|column| &mut column.after);
                let text = last.unwrap_or(&mut layout.before);
                text.push('%');
                text.push_str(piece);
            }
        }
    }
    (layout, unknown)
}

/// One item of `-O`: its name and how it is fitted (twenty characters to the left by default).
pub(crate) struct Named<'a> {
    /// The name as written.
    pub(crate) name: &'a str,
    /// The width asked for.
    pub(crate) width: Option<Width>,
    /// Text behind the column.
    pub(crate) after: &'a str,
}

/// Reads `JobID:.10,State,Name:30`.
pub(crate) fn named(format: &str) -> Vec<Named<'_>> {
    let item = |text| -> Named<'_> {
        let (name, size) = str::split_once(text, ':').unwrap_or((text, ""));
        let (right, rest) = match size.strip_prefix('.') {
            Some(rest) => (true, rest),
            None => (false, size),
        };
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let chars = match &rest[..digits] {
            "" => 20,
            number => number.parse::<usize>().unwrap_or(20).min(4096),
        };
        Named { name, width: Some(Width { chars, right }), after: &rest[digits..] }
    };
    format.split(',').filter(|text| !text.is_empty()).map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(format: &str) -> String {
        let (layout, _) = percent(format, |letter| "iPjt".contains(letter).then_some(letter));
        layout.line(|letter| {
            match letter {
                'i' => "JOBID",
                'P' => "PARTITION",
                'j' => "NAME",
                _ => "ST",
            }
            .to_owned()
        })
    }

    #[test]
    fn widths_cut_and_fill() {
        // As Slurm 22.05 prints it.
        assert_eq!(header("%.7i %9P %.8j|%5t|"), "  JOBID PARTITION     NAME|ST   |");
        assert_eq!(header("%i %t"), "JOBID ST");
        assert_eq!(header("%.3P"), "PAR");
        assert_eq!(header("a %? %i"), "a %? JOBID");
    }

    #[test]
    fn named_columns_have_twenty_characters() {
        let items = named("JobID:.10,Name:5,State");
        assert_eq!(items[0].width, Some(Width { chars: 10, right: true }));
        assert_eq!(items[1].width, Some(Width { chars: 5, right: false }));
        assert_eq!(
            (items[2].name, items[2].width),
            ("State", Some(Width { chars: 20, right: false }))
        );
    }
}
