//! Where in a submission something was said.

use muster_api::{Place, Problem, SubmitRequest};
use muster_slurm_syntax::options::Opt;
use muster_slurm_syntax::problem::{Diagnostic, Place as Spot};
use std::collections::BTreeMap;

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

/// Where options in force were given, by component.
pub(crate) type Places = [BTreeMap<Opt, Spot>];

/// Where an option was given, in the first component that has it.
pub(crate) fn place_of_option(
    places: &Places,
    request: &SubmitRequest,
    option: Opt,
) -> Option<Place> {
    places.iter().find_map(|component| wire_place(component.get(&option)?, request))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_has_the_place_where_it_was_given() {
        let request = SubmitRequest { script_name: "a.sh".to_owned(), ..SubmitRequest::default() };
        let spot = Spot::Script { line: 2, column: 14 };
        let places = [BTreeMap::from([(Opt::Account, spot)])];
        let place = place_of_option(&places, &request, Opt::Account).unwrap();
        assert_eq!(place.to_string(), "a.sh:2:14");
        assert!(place_of_option(&places, &request, Opt::Qos).is_none());
    }
}
