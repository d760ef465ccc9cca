//! The options of sbatch, srun and salloc, and muster's own: one table for parsing, help and docs.

use crate::problem::{Code, Problem, quoted};
use muster_model::nearest;

pub use crate::option_table::{OPTIONS, Opt};

/// Whether an option takes an argument, and how help calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// Takes none.
    No,
    /// Takes one, in the same word after `=` or as the next word.
    Yes(&'static str),
    /// Takes one only in the same word (`--nice` or `--nice=50`).
    Maybe(&'static str),
}

/// What muster does with an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// Does what Slurm's manual says.
    Honoured,
    /// Accepts it and says what is not done; the job's result is the same.
    Warned(&'static str),
    /// Refuses it and says why or what to do instead.
    Refused(&'static str),
}

/// A set of commands that take an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commands(pub(crate) u8);

impl Commands {
    /// True if the command takes the option.
    pub fn has(self, command: Command) -> bool {
        self.0 & command as u8 != 0
    }
}

/// A command whose options are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// `sbatch` and `muster submit`.
    Sbatch = 1,
    /// `srun` and `muster run`.
    Srun = 2,
    /// `salloc`.
    Salloc = 4,
}

impl Command {
    /// The command's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sbatch => "sbatch",
            Self::Srun => "srun",
            Self::Salloc => "salloc",
        }
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct OptionSpec {
    /// The option.
    pub opt: Opt,
    /// Its long name without dashes.
    pub long: &'static str,
    /// Its letter, if it has one.
    pub short: Option<char>,
    /// Whether it takes an argument.
    pub argument: Argument,
    /// Which commands take it.
    pub commands: Commands,
    /// True for muster's own options (`#MUSTER` lines).
    pub muster: bool,
    /// What muster does with it.
    pub disposition: Disposition,
    /// Environment variables that set it, of all commands.
    pub variables: &'static [&'static str],
    /// One line of help.
    pub help: &'static str,
}

impl OptionSpec {
    /// `--time`, as errors name it.
    pub fn name(&self) -> String {
        format!("--{}", self.long)
    }

    /// The environment variables that set it for a command.
    pub fn variables_of(&self, command: Command) -> impl Iterator<Item = &'static str> {
        self.variables.iter().copied().filter(move |variable| belongs(variable, command))
    }
}

/// True if a command reads a variable of this name.
fn belongs(variable: &str, command: Command) -> bool {
    if matches!(variable, "SLURM_CLUSTERS" | "SLURM_HINT") {
        return true;
    }
    match command {
        Command::Sbatch => variable.starts_with("SBATCH_"),
        Command::Salloc => variable.starts_with("SALLOC_"),
        Command::Srun => variable.starts_with("SLURM_") || variable.starts_with("SRUN_"),
    }
}

impl Opt {
    /// The table's row for this option.
    pub fn spec(self) -> &'static OptionSpec {
        &OPTIONS[self as usize]
    }
}

/// Finds an option by its long name or an unambiguous beginning of it.
///
/// # Errors
/// [`Code::OptionUnknown`] with the nearest name, [`Code::OptionAmbiguous`] with the candidates,
/// [`Code::OptionPlace`] for options of another command.
pub fn by_long(name: &str, command: Command) -> Result<&'static OptionSpec, Problem> {
    let mine = || OPTIONS.iter().filter(|spec| spec.commands.has(command));
    if let Some(spec) = mine().find(|spec| spec.long == name) {
        return Ok(spec);
    }
    if let Some(spec) = OPTIONS.iter().find(|spec| spec.long == name) {
        return Err(Problem::new(
            Code::OptionPlace,
            format!("--{} is no option of {}", spec.long, command.name()),
        ));
    }
    let longer: Vec<_> =
        mine().filter(|spec| !name.is_empty() && spec.long.starts_with(name)).collect();
    match longer[..] {
        [only] => Ok(only),
        [] => {
            let problem = Problem::new(Code::OptionUnknown, format!("no option --{}", cut(name)));
            Err(match nearest(name, mine().map(|spec| spec.long)) {
                Some(near) => problem.hint(format!("did you mean --{near}?")),
                None => problem,
            })
        }
        _ => {
            let names: Vec<_> = longer.iter().map(|spec| spec.name()).collect();
            Err(Problem::new(
                Code::OptionAmbiguous,
                format!("--{name} could be {}", names.join(", ")),
            ))
        }
    }
}

/// Finds an option by its letter.
///
/// # Errors
/// [`Code::OptionUnknown`].
pub fn by_short(letter: char, command: Command) -> Result<&'static OptionSpec, Problem> {
    OPTIONS.iter().find(|spec| spec.short == Some(letter) && spec.commands.has(command)).ok_or_else(
        || Problem::new(Code::OptionUnknown, format!("no option -{}", cut(&letter.to_string()))),
    )
}

fn cut(name: &str) -> String {
    quoted(name).trim_matches('`').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum_and_without_doubles() {
        for (index, spec) in OPTIONS.iter().enumerate() {
            assert_eq!(spec.opt as usize, index, "{}", spec.long);
            assert!(!spec.help.is_empty() && !spec.help.ends_with('.'), "{}", spec.long);
            for other in &OPTIONS[..index] {
                let shared = spec.commands.0 & other.commands.0 != 0;
                assert!(spec.long != other.long || !shared, "--{} twice", spec.long);
                assert!(
                    spec.short.is_none() || spec.short != other.short || !shared,
                    "-{:?} twice",
                    spec.short
                );
            }
        }
    }

    #[test]
    fn names_may_be_cut_short_but_not_ambiguous() {
        let found = |name| by_long(name, Command::Sbatch).map(|spec| spec.opt);
        assert_eq!(found("time"), Ok(Opt::Time));
        assert_eq!(found("part"), Ok(Opt::Partition));
        assert_eq!(found("nodel").map_err(|p| p.code), Ok(Opt::Nodelist));
        assert_eq!(found("nod").map_err(|p| p.code), Err(Code::OptionAmbiguous));
        let near = found("cpu-per-task").unwrap_err();
        assert_eq!(
            (near.code, &*near.hints[0]),
            (Code::OptionUnknown, "did you mean --cpus-per-task?")
        );
        assert_eq!(found("pty").map_err(|p| p.code), Err(Code::OptionPlace));
        assert_eq!(by_short('t', Command::Sbatch).map(|s| s.opt), Ok(Opt::Time));
        assert!(by_short('y', Command::Sbatch).is_err());
    }

    #[test]
    fn variables_belong_to_their_command() {
        let names = |command| Opt::Time.spec().variables_of(command).collect::<Vec<_>>();
        assert_eq!(names(Command::Sbatch), ["SBATCH_TIMELIMIT"]);
        assert_eq!(names(Command::Salloc), ["SALLOC_TIMELIMIT"]);
        assert_eq!(names(Command::Srun), ["SLURM_TIMELIMIT"]);
    }
}
