//! The option table as text: Markdown for the docs, help for the commands, pages for the codes.

use std::fmt::Write as _;

use crate::options::{Argument, Command, Disposition, OPTIONS, OptionSpec};
use crate::problem::Code;

/// The three lists of options as Markdown tables, and muster's own.
pub fn option_lists() -> String {
    let mut out = String::new();
    section(&mut out, "Honoured", None, |spec| {
        !spec.muster && spec.disposition == Disposition::Honoured
    });
    section(&mut out, "Accepted with a warning", Some("What is not done"), |spec| {
        matches!(spec.disposition, Disposition::Warned(_))
    });
    section(&mut out, "Refused", Some("What to do"), |spec| {
        matches!(spec.disposition, Disposition::Refused(_))
    });
    section(&mut out, "muster's own (`#MUSTER` lines)", None, |spec| spec.muster);
    out.trim_end().to_owned() + "\n"
}

fn section(
    out: &mut String,
    title: &str,
    reason: Option<&str>,
    belongs: impl Fn(&OptionSpec) -> bool,
) {
    let _ = writeln!(out, "## {title}\n");
    let _ = write!(out, "| option | for | variable | meaning |");
    if let Some(reason) = reason {
        let _ = write!(out, " {reason} |");
    }
    let _ = writeln!(
        out,
        "\n| --- | --- | --- | --- |{}",
        if reason.is_some() { " --- |" } else { "" }
    );
    for spec in OPTIONS.iter().filter(|spec| belongs(spec)) {
        let _ = write!(out, "{} {} |", row_head(spec), cell(spec.help));
        if let Disposition::Warned(text) | Disposition::Refused(text) = spec.disposition {
            let _ = write!(out, " {} |", cell(text));
        }
        out.push('\n');
    }
    out.push('\n');
}

/// `-t, --time=TIME`.
fn form(spec: &OptionSpec) -> String {
    let mut out = String::new();
    if let Some(letter) = spec.short {
        let _ = write!(out, "-{letter}, ");
    }
    let _ = write!(out, "--{}", spec.long);
    match spec.argument {
        Argument::No => {}
        Argument::Yes(what) => {
            let _ = write!(out, "={what}");
        }
        Argument::Maybe(what) => {
            let _ = write!(out, "[={what}]");
        }
    }
    out
}

fn commands(spec: &OptionSpec) -> String {
    [Command::Sbatch, Command::Srun, Command::Salloc]
        .into_iter()
        .filter(|command| spec.commands.has(*command))
        .map(Command::name)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Option, commands and the variables that sbatch reads.
fn row_head(spec: &OptionSpec) -> String {
    let variables: Vec<String> =
        spec.variables_of(Command::Sbatch).map(|name| format!("`{name}`")).collect();
    format!("| `{}` | {} | {} |", form(spec), commands(spec), variables.join(" "))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The help text of a command: every option that it does not refuse, one line each.
pub fn help(command: Command) -> String {
    let usage = match command {
        Command::Sbatch => "sbatch [OPTIONS] [: OPTIONS]... SCRIPT [ARGUMENTS]",
        Command::Srun => "srun [OPTIONS] PROGRAM [ARGUMENTS]",
        Command::Salloc => "salloc [OPTIONS] [: OPTIONS]... [COMMAND [ARGUMENTS]]",
    };
    let mut out = format!("usage: {usage}\n\n");
    for spec in OPTIONS.iter().filter(|spec| spec.commands.has(command)) {
        if matches!(spec.disposition, Disposition::Refused(_)) {
            continue;
        }
        let form = if spec.short.is_some() { form(spec) } else { format!("    {}", form(spec)) };
        let _ = writeln!(out, "  {form:<36} {}", spec.help);
    }
    out
}

/// Every code with its summary as a Markdown table.
pub fn code_list() -> String {
    let mut out = String::from("| code | meaning |\n| --- | --- |\n");
    for code in Code::ALL {
        let _ = writeln!(out, "| `{code}` | {} |", code.summary());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_stands_in_exactly_one_list() {
        let lists = option_lists();
        for spec in OPTIONS {
            let row = row_head(spec);
            assert_eq!(lists.matches(&row).count(), 1, "{row}");
        }
    }

    #[test]
    fn help_names_the_options_of_its_command() {
        let help = help(Command::Sbatch);
        assert!(help.contains("-t, --time=TIME"));
        assert!(help.contains("--gpu-memory=SIZE"));
        assert!(!help.contains("--pty") && !help.contains("--bbf"));
        assert!(code_list().contains("`E_TIME_BAD`"));
    }
}
