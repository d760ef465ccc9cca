//! From words to options: long and short forms, arguments, the `:` between components.
//!
//! Rule: the forms of GNU getopt, which Slurm's commands use: `--name=value`, `--name value`,
//! unambiguous beginnings of names, `-x value`, `-xvalue`, bundles of letters, `--` to end them.

use std::collections::BTreeMap;

use crate::options::{Argument, Command, OPTIONS, Opt, OptionSpec, by_long, by_short};
use crate::problem::{Code, Diagnostic, Place, Problem, quoted};
use crate::script::{COMPONENTS_MAX, Dialect, Directive, WORDS_MAX, Word};

/// An option as it was given.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    /// Which option.
    pub(crate) spec: &'static OptionSpec,
    /// Its argument, if it has one.
    pub(crate) value: Option<String>,
    /// Where it stood.
    pub(crate) place: Place,
}

impl Given {
    /// An error or a warning about this option.
    pub(crate) fn diagnostic(&self, problem: Problem) -> Diagnostic {
        Diagnostic::at(self.place.clone(), Some(self.spec.name()), problem)
    }
}

/// The words of a command line, read.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Options of each component; at least one.
    pub(crate) components: Vec<Vec<Given>>,
    /// The words from the first one on that is not an option: the script and its arguments.
    pub(crate) rest: Vec<String>,
}

/// Reads a command line without its program name.
pub(crate) fn read_line(words: &[String], command: Command, errors: &mut Vec<Diagnostic>) -> Line {
    let mut line = Line { components: vec![Vec::new()], rest: Vec::new() };
    let placed: Vec<Word> = words
        .iter()
        .take(WORDS_MAX)
        .zip(1_u32..)
        .map(|(text, word)| Word { text: text.clone(), place: Place::CommandLine { word } })
        .collect();
    let mut at = 0;
    while let Some(word) = placed.get(at) {
        if word.text == ":" {
            line.components.push(Vec::new());
            at += 1;
        } else if word.text == "--" {
            line.rest = words[at + 1..].to_vec();
            break;
        } else if is_option(&word.text) {
            let mut given = Vec::new();
            match read_option(&placed[at..], command, &mut given) {
                Ok(taken) => at += taken,
                Err(diagnostic) => {
                    errors.push(diagnostic);
                    at += 1;
                }
            }
            if let Some(component) = line.components.last_mut() {
                component.append(&mut given);
            }
        } else {
            line.rest = words[at..].to_vec();
            break;
        }
    }
    if line.components.len() > COMPONENTS_MAX || (words.len() > WORDS_MAX && line.rest.is_empty()) {
        let problem = Problem::new(
            Code::OptionsMany,
            format!(
                "the command line has more than {COMPONENTS_MAX} components or {WORDS_MAX} words"
            ),
        );
        errors.push(Diagnostic::at(Place::Request, None, problem));
    }
    line
}

/// Reads the directives of one component of a script.
pub(crate) fn read_directives(
    directives: &[Directive],
    errors: &mut Vec<Diagnostic>,
) -> Vec<Given> {
    let mut given = Vec::new();
    for directive in directives {
        let mut at = 0;
        while let Some(word) = directive.words.get(at) {
            if !is_option(&word.text) {
                let problem = Problem::new(
                    Code::LineWord,
                    format!("{} is not an option", quoted(&word.text)),
                )
                .hint("options begin with a dash; put values with blanks in quotes");
                errors.push(Diagnostic::at(word.place.clone(), None, problem));
                break;
            }
            let before = given.len();
            match read_option(&directive.words[at..], Command::Sbatch, &mut given) {
                Ok(taken) => at += taken,
                Err(diagnostic) => {
                    at += 1;
                    // What follows an unknown option may be its argument.
                    if diagnostic.code == Code::OptionUnknown && !word.text.contains('=') {
                        let rest = directive.words[at..].iter();
                        at += rest.take_while(|word| !is_option(&word.text)).count();
                    }
                    errors.push(diagnostic);
                }
            }
            errors
                .extend(given[before..].iter().filter_map(|g| out_of_place(g, directive.dialect)));
        }
    }
    given
}

/// Muster's options stand on `#MUSTER` lines and Slurm's on `#SBATCH` lines, so that Slurm reads
/// the same script.
fn out_of_place(given: &Given, dialect: Dialect) -> Option<Diagnostic> {
    let name = given.spec.name();
    let problem = match (given.spec.muster, dialect) {
        (true, Dialect::Slurm) => Problem::new(Code::OptionPlace, "Slurm has no such option")
            .hint(format!("write it on a line of its own: #MUSTER {name}")),
        (false, Dialect::Muster) => Problem::new(Code::OptionPlace, "it is Slurm's own option")
            .hint(format!("write it on a line of its own: #SBATCH {name}")),
        _ => return None,
    };
    Some(given.diagnostic(problem))
}

fn is_option(text: &str) -> bool {
    text.len() > 1 && text.starts_with('-')
}

/// Reads one option and its argument; returns how many words it took.
fn read_option(
    words: &[Word],
    command: Command,
    given: &mut Vec<Given>,
) -> Result<usize, Diagnostic> {
    let Some(word) = words.first() else { return Ok(0) };
    match word.text.strip_prefix("--") {
        Some(long) => read_long(word, long, words.get(1), command, given),
        None => read_short(word, words.get(1), command, given),
    }
}

fn read_long(
    word: &Word,
    long: &str,
    next: Option<&Word>,
    command: Command,
    given: &mut Vec<Given>,
) -> Result<usize, Diagnostic> {
    let (name, value) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (long, None),
    };
    let spec = by_long(name, command).map_err(|problem| at(word, None, problem))?;
    let (value, taken) = match (spec.argument, value) {
        (Argument::No, Some(_)) => {
            let problem = Problem::new(Code::OptionArgument, "it takes no argument");
            return Err(at(word, Some(spec), problem));
        }
        (Argument::Yes(what), None) => (Some(argument(word, spec, what, next)?), 2),
        (_, value) => (value, 1),
    };
    given.push(Given { spec, value, place: word.place.clone() });
    Ok(taken)
}

fn read_short(
    word: &Word,
    next: Option<&Word>,
    command: Command,
    given: &mut Vec<Given>,
) -> Result<usize, Diagnostic> {
    let mut rest = &word.text[1..];
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        let spec = by_short(letter, command).map_err(|problem| at(word, None, problem))?;
        let place = word.place.clone();
        match spec.argument {
            Argument::No => given.push(Given { spec, value: None, place }),
            Argument::Maybe(_) => {
                let value = (!rest.is_empty()).then(|| rest.to_owned());
                given.push(Given { spec, value, place });
                return Ok(1);
            }
            Argument::Yes(what) => {
                let (value, taken) = if rest.is_empty() {
                    (argument(word, spec, what, next)?, 2)
                } else {
                    (rest.to_owned(), 1)
                };
                given.push(Given { spec, value: Some(value), place });
                return Ok(taken);
            }
        }
    }
    Ok(1)
}

/// The next word as the argument of an option.
fn argument(
    word: &Word,
    spec: &'static OptionSpec,
    what: &str,
    next: Option<&Word>,
) -> Result<String, Diagnostic> {
    match next {
        Some(next) => Ok(next.text.clone()),
        None => {
            let problem = Problem::new(Code::OptionArgument, "its argument is missing")
                .hint(format!("write --{}={what}", spec.long));
            Err(at(word, Some(spec), problem))
        }
    }
}

fn at(word: &Word, spec: Option<&'static OptionSpec>, problem: Problem) -> Diagnostic {
    Diagnostic::at(word.place.clone(), spec.map(OptionSpec::name), problem)
}

/// Reads the variables of an environment that set options.
///
/// A flag's variable sets it when empty, `yes` or a number that is not zero (sbatch manual).
pub(crate) fn read_environment(
    environment: &BTreeMap<String, String>,
    command: Command,
) -> Vec<Given> {
    let mut given = Vec::new();
    for spec in OPTIONS.iter().filter(|spec| spec.commands.has(command)) {
        for variable in spec.variables_of(command) {
            let Some(value) = environment.get(variable) else { continue };
            let place = Place::Environment { variable: variable.to_owned() };
            let flag = value.is_empty()
                || value.eq_ignore_ascii_case("yes")
                || crate::scan::digits(value).is_some_and(|n| n != 0);
            let value = match spec.argument {
                Argument::No if !flag => continue,
                Argument::No => None,
                Argument::Maybe(_) if flag && crate::scan::digits(value).is_none() => None,
                _ if spec.opt == Opt::Switches => Some(with_wait(value, variable, environment)),
                Argument::Maybe(_) | Argument::Yes(_) => Some(value.clone()),
            };
            given.push(Given { spec, value, place });
        }
    }
    given
}

/// `SBATCH_REQ_SWITCH` holds the count, `SBATCH_WAIT4SWITCH` how long to wait for it.
fn with_wait(count: &str, variable: &str, environment: &BTreeMap<String, String>) -> String {
    let wait = variable.replace("REQ_SWITCH", "WAIT4SWITCH");
    match environment.get(&wait) {
        Some(wait) if !count.contains('@') => format!("{count}@{wait}"),
        _ => count.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &str) -> (Vec<String>, Vec<String>, Vec<Code>) {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let mut errors = Vec::new();
        let line = read_line(&words, Command::Sbatch, &mut errors);
        let given = line
            .components
            .iter()
            .map(|component| {
                component
                    .iter()
                    .map(|g| format!("{}={}", g.spec.long, g.value.as_deref().unwrap_or("")))
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect();
        (given, line.rest, errors.iter().map(|e| e.code).collect())
    }

    #[test]
    fn the_forms_of_getopt() {
        for (words, given, rest) in [
            ("--time=5 run.sh -n 3", "time=5", "run.sh -n 3"),
            ("--time 5 -n3 -N 2 run.sh", "time=5 ntasks=3 nodes=2", "run.sh"),
            ("-HQ -vt5", "hold= quiet= verbose= time=5", ""),
            ("--nice --exclusive=user x", "nice= exclusive=user", "x"),
            ("--part=a -- --time=5", "partition=a", "--time=5"),
            ("--wrap=hostname", "wrap=hostname", ""),
        ] {
            let (components, left, errors) = line(words);
            assert_eq!(components, [given], "{words}");
            assert_eq!(left.join(" "), rest, "{words}");
            assert!(errors.is_empty(), "{words}");
        }
    }

    #[test]
    fn components_are_separated_by_a_colon() {
        let (components, rest, _) = line("--time=60 -n 1 : -n 8 -c 2 run.sh a : b");
        assert_eq!(components, ["time=60 ntasks=1", "ntasks=8 cpus-per-task=2"]);
        assert_eq!(rest, ["run.sh", "a", ":", "b"]);
    }

    #[test]
    fn every_mistake_is_reported() {
        let (components, _, errors) = line("--tiem=5 --hold=yes -y --nodes=2 --time");
        assert_eq!(components, ["nodes=2"]);
        assert_eq!(
            errors,
            [Code::OptionUnknown, Code::OptionArgument, Code::OptionUnknown, Code::OptionArgument]
        );
    }

    #[test]
    fn flags_in_the_environment() {
        let environment = [
            ("SBATCH_WAIT", ""),
            ("SBATCH_NO_REQUEUE", "no"),
            ("SBATCH_EXCLUSIVE", "user"),
            ("SBATCH_TIMELIMIT", "30"),
            ("SLURM_TIMELIMIT", "99"),
            ("SBATCH_REQUEUE", "yes"),
            ("SBATCH_REQ_SWITCH", "2"),
            ("SBATCH_WAIT4SWITCH", "30"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let given = read_environment(&environment.into(), Command::Sbatch);
        let set: Vec<_> = given.iter().map(|g| (g.spec.opt, g.value.as_deref())).collect();
        assert_eq!(
            set,
            [
                (Opt::Exclusive, Some("user")),
                (Opt::Requeue, None),
                (Opt::Switches, Some("2@30")),
                (Opt::Time, Some("30")),
                (Opt::Wait, None)
            ]
        );
    }
}
