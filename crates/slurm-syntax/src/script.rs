//! The header of a batch script: which lines are directives, and the words in them.
//!
//! Rules (sbatch manual, cases S-13 and S-14): a directive begins with `#SBATCH` (or `#MUSTER`) in
//! column one and stands before the first command; blank lines and comments do not end the header.
//! In a directive an unquoted `#` starts a comment even inside a word, quotes group, a backslash
//! takes the next character as it is, and nothing is expanded. `#SBATCH hetjob` begins the next
//! component of a heterogeneous job. A script starts with `#!`, has no NUL and no DOS line ends.

use muster_model::nearest;

use crate::problem::{Code, Diagnostic, Place, Problem, quoted};

/// Largest script, in bytes (Slurm's default for `max_script_size`).
pub const SCRIPT_BYTES_MAX: usize = 4 << 20;

/// Longest directive line, in bytes.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Most words in all directives of a script.
pub const WORDS_MAX: usize = 4096;

/// Most components of a heterogeneous job (Slurm's bound).
pub const COMPONENTS_MAX: usize = 128;

/// Who a directive speaks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `#SBATCH`: Slurm's options.
    Slurm,
    /// `#MUSTER`: what Slurm has no word for.
    Muster,
}

/// One word of a directive or of a command line, quotes and escapes resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The word.
    pub text: String,
    /// Where it began.
    pub place: Place,
}

/// The words of one directive line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// Which kind of line.
    pub dialect: Dialect,
    /// Its words, in order.
    pub words: Vec<Word>,
}

/// A script's header: directives by component, and what was noticed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    /// Directives of each component; at least one component.
    pub components: Vec<Vec<Directive>>,
    /// Warnings: directives that do not count, old spellings.
    pub warnings: Vec<Diagnostic>,
    /// Lines that begin with `#PBS` or `#BSUB`.
    pub foreign: Vec<Place>,
}

/// Takes a script's bytes as text.
///
/// # Errors
/// [`Code::ScriptLarge`], [`Code::ScriptNul`] (a binary) and [`Code::ScriptEncoding`].
pub fn text_of(bytes: &[u8]) -> Result<&str, Problem> {
    if bytes.len() > SCRIPT_BYTES_MAX {
        return Err(large());
    }
    std::str::from_utf8(bytes).map_err(|error| {
        if bytes.contains(&0) {
            return Problem::new(Code::ScriptNul, "the script has a NUL character: it is a binary")
                .hint("submit a program with --wrap: sbatch --wrap ./program");
        }
        let line = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
        let what = format!("the script is not UTF-8: line {line} has bytes of another encoding");
        Problem::new(Code::ScriptEncoding, what)
            .hint("convert it, Korean for example: iconv -f EUC-KR -t UTF-8 FILE > NEW")
    })
}

/// A reader stops one byte behind the bound, so the true size is not known here.
fn large() -> Problem {
    Problem::new(Code::ScriptLarge, format!("the script has more than {SCRIPT_BYTES_MAX} bytes"))
        .hint("put data and programs into files of their own")
}

/// Reads a script's header.
///
/// # Errors
/// All problems found, in order: of the script as a whole, of its lines, or both.
pub fn read(script: &str) -> Result<Header, Vec<Diagnostic>> {
    if let Some(problem) = whole(script) {
        return Err(vec![problem]);
    }
    let mut reader = Reader {
        header: Header { components: vec![Vec::new()], ..Header::default() },
        errors: Vec::new(),
        words: 0,
    };
    let mut in_header = true;
    for (index, line) in script.lines().enumerate() {
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        if in_header {
            in_header = reader.header_line(number, line);
        } else {
            reader.body_line(number, line);
        }
    }
    if reader.errors.is_empty() { Ok(reader.header) } else { Err(reader.errors) }
}

/// What is wrong with the script as a whole.
fn whole(script: &str) -> Option<Diagnostic> {
    let at = |line: usize, column: usize, problem: Problem| {
        let place = Place::Script { line: line as u32, column: column as u32 };
        Some(Diagnostic::at(place, None, problem))
    };
    if script.len() > SCRIPT_BYTES_MAX {
        return Some(Diagnostic::at(Place::Request, None, large()));
    }
    if script.trim().is_empty() {
        let problem = Problem::new(Code::ScriptEmpty, "the batch script is empty");
        return Some(Diagnostic::at(Place::Request, None, problem));
    }
    if let Some(offset) = script.find('\0') {
        let (line, column) = position(script, offset);
        return at(line, column, Problem::new(Code::ScriptNul, "the script has a NUL character"));
    }
    if let Some(offset) = script.find("\r\n") {
        let (line, column) = position(script, offset);
        let problem = Problem::new(Code::ScriptDos, "the script has DOS line ends (\\r\\n)")
            .hint("convert it: sed -i 's/\\r$//' FILE");
        return at(line, column, problem);
    }
    if script.starts_with("\u{feff}#!") {
        let what = "the script begins with a byte order mark (UTF-8 BOM), which hides its #!";
        let problem = Problem::new(Code::ScriptInterpreter, what)
            .hint("take it off: sed -i '1s/^\\xEF\\xBB\\xBF//' FILE");
        return at(1, 1, problem);
    }
    if !script.starts_with("#!") {
        let problem = Problem::new(
            Code::ScriptInterpreter,
            "the first line does not begin with #! and the path of an interpreter",
        )
        .hint("begin with #!/bin/bash");
        return at(1, 1, problem);
    }
    None
}

fn position(script: &str, offset: usize) -> (usize, usize) {
    let before = &script[..offset];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

struct Reader {
    header: Header,
    errors: Vec<Diagnostic>,
    words: usize,
}

impl Reader {
    /// Takes a line of the header; false if it is the first command.
    fn header_line(&mut self, number: u32, line: &str) -> bool {
        let place = Place::Script { line: number, column: 1 };
        if let Some(rest) = line.strip_prefix("#SBATCH") {
            self.directive(number, line, rest, Dialect::Slurm);
        } else if let Some(rest) = line.strip_prefix("#MUSTER") {
            self.directive(number, line, rest, Dialect::Muster);
        } else if let Some(rest) = line.strip_prefix("#SLURM") {
            let problem = Problem::new(Code::WarnDeprecated, "#SLURM is an old spelling")
                .hint("write #SBATCH");
            self.header.warnings.push(Diagnostic::at(place, None, problem));
            self.directive(number, line, rest, Dialect::Slurm);
        } else if line.starts_with("#PBS") || line.starts_with("#BSUB") {
            self.header.foreign.push(place);
        } else if is_near_directive(line) {
            let problem = Problem::new(
                Code::WarnNotDone,
                format!("{} is a comment, not a directive", quoted(line.trim())),
            )
            .hint("directives begin in column one, without blanks: #SBATCH");
            self.header.warnings.push(Diagnostic::at(place, None, problem));
        } else if let Some(meant) = misspelt(line) {
            let what = format!("{} is a comment, not a directive", quoted(line.trim()));
            let problem =
                Problem::new(Code::WarnNotDone, what).hint(format!("did you mean #{meant}?"));
            self.header.warnings.push(Diagnostic::at(place, None, problem));
        } else if !line.trim_start().is_empty() && !line.trim_start().starts_with('#') {
            return false;
        }
        true
    }

    /// Takes a line after the first command, where directives no longer count.
    fn body_line(&mut self, number: u32, line: &str) {
        if (line.starts_with("#SBATCH ") || line.starts_with("#MUSTER "))
            && self.header.warnings.len() < 100
        {
            let place = Place::Script { line: number, column: 1 };
            let problem = Problem::new(
                Code::WarnNotDone,
                format!("{} stands after the first command and does not count", quoted(line)),
            )
            .hint("move it above the first command");
            self.header.warnings.push(Diagnostic::at(place, None, problem));
        }
    }

    fn directive(&mut self, number: u32, line: &str, rest: &str, dialect: Dialect) {
        let place = Place::Script { line: number, column: 1 };
        if line.len() > LINE_BYTES_MAX {
            let problem = Problem::new(
                Code::LineLong,
                format!("the line has more than {LINE_BYTES_MAX} bytes"),
            );
            self.errors.push(Diagnostic::at(place, None, problem));
            return;
        }
        let mut words = match words(line, line.len() - rest.len(), number) {
            Ok(words) => words,
            Err(diagnostic) => return self.errors.push(*diagnostic),
        };
        if dialect == Dialect::Slurm && words.first().is_some_and(is_separator) {
            self.next_component(&words.remove(0));
        }
        self.words += words.len();
        if self.words > WORDS_MAX {
            if self.words - words.len() <= WORDS_MAX {
                let problem = Problem::new(
                    Code::OptionsMany,
                    format!("the script's directives have more than {WORDS_MAX} words"),
                );
                self.errors.push(Diagnostic::at(place, None, problem));
            }
            return;
        }
        if let Some(component) = self.header.components.last_mut()
            && !words.is_empty()
        {
            component.push(Directive { dialect, words });
        }
    }

    fn next_component(&mut self, word: &Word) {
        if word.text.eq_ignore_ascii_case("packjob") {
            let problem = Problem::new(Code::WarnDeprecated, "packjob is an old spelling")
                .hint("write #SBATCH hetjob");
            self.header.warnings.push(Diagnostic::at(word.place.clone(), None, problem));
        }
        self.header.components.push(Vec::new());
        if self.header.components.len() == COMPONENTS_MAX + 1 {
            let problem = Problem::new(
                Code::OptionsMany,
                format!("a heterogeneous job has at most {COMPONENTS_MAX} components"),
            );
            self.errors.push(Diagnostic::at(word.place.clone(), None, problem));
        }
    }
}

fn is_separator(word: &Word) -> bool {
    word.text.eq_ignore_ascii_case("hetjob") || word.text.eq_ignore_ascii_case("packjob")
}

/// A comment that somebody may have meant as a directive: indented, or `# SBATCH`.
fn is_near_directive(line: &str) -> bool {
    let indented = line.starts_with([' ', '\t']) && line.trim_start().starts_with("#SBATCH ");
    let spaced =
        line.strip_prefix("# SBATCH").is_some_and(|rest| rest.trim_start().starts_with('-'));
    indented || spaced
}

/// The directive that a line of options begins with but for a slip: `#SBTACH --time=5`, `#sbatch -n1`.
fn misspelt(line: &str) -> Option<&'static str> {
    let (word, rest) = line.strip_prefix('#')?.split_once([' ', '\t'])?;
    let option = rest.trim_start().strip_prefix('-')?;
    let is_option = option.trim_start_matches('-').starts_with(|c: char| c.is_ascii_alphabetic());
    let is_word = word.chars().all(|letter| letter.is_ascii_alphabetic());
    (is_option && is_word).then(|| nearest(word, ["SBATCH", "MUSTER"]))?
}

/// Splits the part of `line` from byte `start` on into words.
fn words(line: &str, start: usize, number: u32) -> Result<Vec<Word>, Box<Diagnostic>> {
    let mut words = Vec::new();
    let mut chars = line[start..].chars();
    let mut word: Option<(String, u32)> = None;
    let mut quote: Option<(char, u32)> = None;
    let mut position = line[..start].chars().count() as u32;
    let place = |column: u32| Place::Script { line: number, column };
    while let Some(c) = chars.next() {
        position += 1;
        let started = word.as_ref().map_or(position, |(_, column)| *column);
        if let Some((open, _)) = quote
            && c == open
        {
            quote = None;
            continue;
        }
        match c {
            '\\' => {
                let text = &mut word.get_or_insert_with(|| (String::new(), started)).0;
                text.extend(chars.next());
                position += 1;
            }
            _ if quote.is_some() => {
                word.get_or_insert_with(|| (String::new(), started)).0.push(c);
            }
            '"' | '\'' => {
                word.get_or_insert_with(|| (String::new(), started));
                quote = Some((c, position));
            }
            '#' => break,
            c if c.is_whitespace() => {
                words.extend(word.take().map(|(text, column)| Word { text, place: place(column) }));
            }
            c => word.get_or_insert_with(|| (String::new(), started)).0.push(c),
        }
    }
    if let Some((open, column)) = quote {
        let problem = Problem::new(
            Code::LineQuote,
            format!("the quote {open} is opened and not closed in {}", quoted(line)),
        );
        return Err(Box::new(Diagnostic::at(place(column), None, problem)));
    }
    words.extend(word.take().map(|(text, column)| Word { text, place: place(column) }));
    // A quoted colon is a value like any other: its word begins with the quote.
    let bare = |word: &&Word| match word.place {
        Place::Script { column, .. } => {
            word.text == ":" && line.chars().nth(column as usize - 1) == Some(':')
        }
        _ => false,
    };
    if let Some(word) = words.iter().find(bare) {
        let problem = Problem::new(Code::LineWord, "`:` does not separate components in a script")
            .hint("write a line of its own: #SBATCH hetjob");
        return Err(Box::new(Diagnostic::at(word.place.clone(), None, problem)));
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flat(script: &str) -> Vec<String> {
        let header = read(script).expect("a good header");
        header
            .components
            .iter()
            .flatten()
            .flat_map(|directive| directive.words.iter().map(|word| word.text.clone()))
            .collect()
    }

    fn one(line: &str) -> Vec<String> {
        flat(&format!("#!/bin/sh\n{line}\n"))
    }

    fn code(script: &str) -> Code {
        read(script).expect_err("a bad script")[0].code
    }

    #[test]
    fn s13_which_lines_are_directives() {
        let script = "#!/bin/bash\n\
            #SBATCH -J \"two words\" --time=10   # ten minutes\n\
            # a note\n\
            ##SBATCH --mem=9G\n \
            #SBATCH --mem=8G\n\
            \n\
            set -e\n\
            #SBATCH --mem=64G\n";
        assert_eq!(flat(script), ["-J", "two words", "--time=10"]);
        let warnings = read(script).expect("good").warnings;
        let lines: Vec<_> = warnings.iter().map(|w| w.place.clone()).collect();
        assert_eq!(
            lines,
            [Place::Script { line: 5, column: 1 }, Place::Script { line: 8, column: 1 }]
        );
    }

    #[test]
    fn s14_comments_quotes_and_escapes() {
        for (line, words) in [
            ("#SBATCH --job-name=run#7", vec!["--job-name=run"]),
            ("#SBATCH --job-name=\"run#7\"", vec!["--job-name=run#7"]),
            ("#SBATCH --comment='a \"b\" c'", vec!["--comment=a \"b\" c"]),
            ("#SBATCH -J a\\ b", vec!["-J", "a b"]),
            ("#SBATCH -o $HOME/x.out", vec!["-o", "$HOME/x.out"]),
            ("#SBATCH -J \"\" -n1", vec!["-J", "", "-n1"]),
            ("#SBATCH -J a\\#b\\\"c", vec!["-J", "a#b\"c"]),
            ("#SBATCH --comment \":\"", vec!["--comment", ":"]),
            ("#SBATCH\t--hold", vec!["--hold"]),
            ("#SBATCH--hold", vec!["--hold"]),
            ("#SBATCH", vec![]),
        ] {
            assert_eq!(one(line), words, "{line}");
        }
        let errors = read("#!/bin/sh\n#SBATCH -n 1\n#SBATCH -J \"open\n").expect_err("open");
        assert_eq!(errors[0].code, Code::LineQuote);
        assert_eq!(errors[0].place, Place::Script { line: 3, column: 12 });
    }

    #[test]
    fn words_have_columns() {
        let header = read("#!/bin/sh\n#SBATCH  -J é --time=4h\n").expect("good");
        let columns: Vec<_> = header.components[0][0].words.iter().map(|w| &w.place).collect();
        let at = |column| Place::Script { line: 2, column };
        assert_eq!(columns, [&at(10), &at(13), &at(15)]);
    }

    #[test]
    fn components_are_separated_by_hetjob() {
        let header = read(
            "#!/bin/sh\n#SBATCH -n1\n#SBATCH hetjob\n#MUSTER --image=x\n#SBATCH packjob -n2\n",
        )
        .expect("good");
        assert_eq!(header.components.len(), 3);
        assert_eq!(header.components[1][0].dialect, Dialect::Muster);
        assert_eq!(header.components[2][0].words[0].text, "-n2");
        assert_eq!(header.warnings[0].code, Code::WarnDeprecated);
        assert_eq!(code("#!/bin/sh\n#SBATCH -n1 : -n2\n"), Code::LineWord);
    }

    #[test]
    fn bytes_that_are_no_text_of_ours() {
        let problem = |bytes: &[u8]| text_of(bytes).expect_err("refused");
        // "gil" in EUC-KR, and an e with an acute accent in Latin-1.
        for other in [&b"\xb1\xe6"[..], b"\xe9"] {
            let found = problem(&[b"#!/bin/sh\n# ", other, b"\n"].concat());
            assert_eq!(found.code, Code::ScriptEncoding);
            assert!(found.what.contains("line 2"), "{}", found.what);
            assert!(found.hints[0].contains("iconv -f EUC-KR -t UTF-8"));
        }
        assert_eq!(problem(b"\x7fELF\x02\0\xff").code, Code::ScriptNul);
        let large = problem(&vec![b'x'; SCRIPT_BYTES_MAX + 1]);
        assert_eq!(large.what, "the script has more than 4194304 bytes");
        assert_eq!(text_of("한글".as_bytes()), Ok("한글"));
    }

    #[test]
    fn a_slip_in_a_directive_is_told_and_a_comment_is_not() {
        for (line, meant) in [
            ("#SBTACH --time=5", "#SBATCH"),
            ("#sbatch -n1", "#SBATCH"),
            ("#SBACTH\t-n1", "#SBATCH"),
            ("#BATCH -n1", "#SBATCH"),
            ("#MUSTR --image=x", "#MUSTER"),
        ] {
            let header = read(&format!("#!/bin/sh\n{line}\n")).expect("good");
            assert!(header.components[0].is_empty(), "{line}");
            let [warning] = &header.warnings[..] else { panic!("{line}: {:?}", header.warnings) };
            assert_eq!(warning.code, Code::WarnNotDone);
            assert!(warning.hints[0].contains(meant), "{line}: {:?}", warning.hints);
        }
        for line in ["#SBTACH", "#batches - of data", "#see -h", "#BATCH 5", "#---", "# Master -n"]
        {
            let header = read(&format!("#!/bin/sh\n{line}\n")).expect("good");
            assert!(header.warnings.is_empty(), "{line}: {:?}", header.warnings);
        }
    }

    #[test]
    fn a_byte_order_mark_is_told() {
        let errors = read("\u{feff}#!/bin/sh\n#SBATCH -n1\n").expect_err("bad");
        assert_eq!(errors[0].code, Code::ScriptInterpreter);
        assert!(errors[0].what.contains("byte order mark"), "{}", errors[0].what);
    }

    #[test]
    fn scripts_as_a_whole() {
        assert_eq!(code(""), Code::ScriptEmpty);
        assert_eq!(code(" \n\n"), Code::ScriptEmpty);
        assert_eq!(code("echo hello\n"), Code::ScriptInterpreter);
        assert_eq!(code("#!/bin/sh\necho\0"), Code::ScriptNul);
        assert_eq!(code("#!/bin/sh\r\n#SBATCH -n1\r\n"), Code::ScriptDos);
        assert_eq!(
            code(&format!("#!/bin/sh\n{}", "x".repeat(SCRIPT_BYTES_MAX))),
            Code::ScriptLarge
        );
        assert_eq!(
            code(&format!("#!/bin/sh\n#SBATCH {}", "x".repeat(LINE_BYTES_MAX))),
            Code::LineLong
        );
        assert_eq!(
            code(&format!("#!/bin/sh\n#SBATCH {}", "x ".repeat(WORDS_MAX + 1))),
            Code::OptionsMany
        );
        assert_eq!(
            code(&format!("#!/bin/sh\n{}", "#SBATCH hetjob\n".repeat(COMPONENTS_MAX))),
            Code::OptionsMany
        );
        assert!(text_of(b"#!/bin/sh\n\xff").is_err());
    }

    #[test]
    fn all_bad_lines_are_reported() {
        let errors =
            read("#!/bin/sh\n#SBATCH -J \"a\n#SBATCH -n 1\n#SBATCH -J 'b\n").expect_err("bad");
        assert_eq!(errors.len(), 2);
    }

    proptest! {
        #[test]
        fn never_panics(script in "(#!/bin/sh\n)?(#SBATCH [\\PC]{0,30}\n|\\PC{0,20}\n){0,6}") {
            let _ = read(&script);
        }

        #[test]
        fn quoting_any_word_gives_it_back(word in "[^\\\\\"\\x00-\\x1f]{1,20}") {
            let words = one(&format!("#SBATCH \"{word}\""));
            if !word.eq_ignore_ascii_case("hetjob") && !word.eq_ignore_ascii_case("packjob") {
                prop_assert_eq!(words, [word]);
            }
        }
    }
}
