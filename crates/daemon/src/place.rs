//! Where in a submission something was said.

use crate::submit::sources;
use muster_api::{Place, Problem, SubmitRequest};
use muster_slurm_syntax::options::{Command, Opt, by_long, by_short};
use muster_slurm_syntax::problem::{Diagnostic, Place as Spot};
use muster_slurm_syntax::script;

/// A diagnostic of the parser for the wire.
pub(crate) fn wire_problem(found: &Diagnostic, request: &SubmitRequest) -> Problem {
    let option = found.option.as_ref().map(|o| format!("{o}: ")).unwrap_or_default();
    Problem {
        code: found.code.to_string(),
        message: format!("{option}{}", found.what),
        place: wire_place(&found.place, request),
        hint: Some(found.hints.join("; ")).filter(|hint| !hint.is_empty()),
    }
}

fn wire_place(place: &Spot, request: &SubmitRequest) -> Option<Place> {
    let script = || match request.script_name.as_str() {
        "" => "script".to_owned(),
        name => name.to_owned(),
    };
    match place {
        Spot::Script { line, column } => {
            Some(Place { source: script(), line: Some(*line), column: Some(*column) })
        }
        Spot::CommandLine { word } => {
            Some(Place { source: "command line".to_owned(), line: None, column: Some(*word) })
        }
        Spot::Environment { variable } => {
            Some(Place { source: variable.clone(), line: None, column: None })
        }
        // The script as a whole where there is one.
        Spot::Request if request.script_name.is_empty() => None,
        Spot::Request => Some(Place { source: script(), line: None, column: None }),
    }
}

/// Where an option was given: on the command line, else in the environment, else in the script,
/// the last time that it was.
pub(crate) fn place_of_option(request: &SubmitRequest, option: Opt) -> Option<Place> {
    let sources = sources(request);
    let words = request.options.iter().zip(1_u32..);
    let on_line = words.filter(|(text, _)| names(text, option, sources.command));
    if let Some((_, word)) = on_line.last() {
        return wire_place(&Spot::CommandLine { word }, request);
    }
    let variables = option.spec().variables_of(sources.command);
    if let Some(variable) = variables.into_iter().find(|v| sources.environment.contains_key(*v)) {
        return wire_place(&Spot::Environment { variable: variable.to_owned() }, request);
    }
    let header = script::read(sources.script?).ok()?;
    let words = header.components.iter().flatten().flat_map(|directive| &directive.words);
    let found = words.filter(|word| names(&word.text, option, Command::Sbatch)).last()?;
    wire_place(&found.place, request)
}

/// True where the word gives this option.
fn names(word: &str, option: Opt, command: Command) -> bool {
    if let Some(long) = word.strip_prefix("--") {
        let name = long.split('=').next().unwrap_or(long);
        return by_long(name, command).is_ok_and(|spec| spec.opt == option);
    }
    let letter = word.strip_prefix('-').and_then(|rest| rest.chars().next());
    letter.is_some_and(|l| by_short(l, command).is_ok_and(|spec| spec.opt == option))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_found_where_it_was_given() {
        let mut request = SubmitRequest {
            script: "#!/bin/sh\n#SBATCH -n 2 --account=lab\ntrue\n".to_owned(),
            script_name: "a.sh".to_owned(),
            ..SubmitRequest::default()
        };
        let place = place_of_option(&request, Opt::Account).unwrap();
        assert_eq!(place.to_string(), "a.sh:2:14");
        request.environment.insert("SBATCH_ACCOUNT".to_owned(), "x".to_owned());
        assert_eq!(place_of_option(&request, Opt::Account).unwrap().source, "SBATCH_ACCOUNT");
        request.options = vec!["-A".to_owned(), "y".to_owned()];
        assert_eq!(place_of_option(&request, Opt::Account).unwrap().source, "command line");
        assert!(place_of_option(&request, Opt::Qos).is_none());
    }
}
