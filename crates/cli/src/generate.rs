//! Completions and manual pages, made from the definition of the command line.

use std::path::PathBuf;

use clap::CommandFactory;

use crate::Others;
use crate::args::Line;
use crate::say::{Failure, Outcome, note, print};

/// The whole program as one command: this crate's commands and those of others.
pub(crate) fn whole(others: &Others<'_>) -> clap::Command {
    let theirs = others.commands.iter().flat_map(clap::Command::get_subcommands);
    let theirs = theirs.filter(|command| !command.is_hide_set()).cloned();
    let own = Line::command();
    let mine: Vec<clap::Command> = own.get_subcommands().cloned().collect();
    let bare = clap::Command::new("muster")
        .about(own.get_about().cloned().unwrap_or_default())
        .version(env!("CARGO_PKG_VERSION"))
        .max_term_width(100)
        .disable_help_subcommand(true)
        .arg_required_else_help(true)
        .after_help(own.get_after_help().cloned().unwrap_or_default());
    // Those of others first, each list in its own order.
    let all = theirs.chain(mine).enumerate();
    bare.subcommands(all.map(|(at, command)| command.display_order(at)))
}

/// Prints a shell's completions.
pub(crate) fn completions(shell: clap_complete::Shell, others: &Others<'_>) -> i32 {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut whole(others), "muster", &mut text);
    print(&String::from_utf8_lossy(&text));
    0
}

/// Writes `muster.1` and one page a command, or prints the first page.
pub(crate) fn man(dir: Option<PathBuf>, others: &Others<'_>) -> Outcome {
    let mut whole = whole(others);
    whole.build();
    let failed = |error: std::io::Error| Failure::new(format!("the manual pages: {error}"));
    let Some(dir) = dir else {
        let mut text = Vec::new();
        clap_mangen::Man::new(whole).render(&mut text).map_err(failed)?;
        print(&String::from_utf8_lossy(&text));
        return Ok(0);
    };
    std::fs::create_dir_all(&dir).map_err(failed)?;
    clap_mangen::generate_to(whole, &dir).map_err(failed)?;
    note(&format!("manual pages are in {}", dir.display()));
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        let others = Others { commands: vec![clap::Command::new("x")], slurm_names: &[] };
        whole(&others).debug_assert();
        Line::command().debug_assert();
    }
}
