//! From a script, an environment and a command line to the components of a submission.
//!
//! Command line beats environment beats script, component by component (see the `merge` module).
//! Everything given is read, also what another source overrides: a wrong line never passes unseen.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use muster_model::{JobSpec, Timestamp};

use crate::apply::{Target, apply, apply_client};
use crate::check;
use crate::export::Export;
use crate::merge::{Rank, Setting, Settings, carried_over, set};
use crate::options::{Command, Disposition, Opt};
use crate::problem::{Code, Diagnostic, Place, Problem};
use crate::script;
use crate::words::{Given, read_directives, read_environment, read_line};

/// Most errors, and most warnings, that are reported at once.
pub const DIAGNOSTICS_MAX: usize = 200;

/// What the meaning of a text depends on besides the text.
#[derive(Debug, Clone)]
pub struct Context {
    /// What now is.
    pub now: Timestamp,
    /// The time zone of clock times.
    pub zone: TimeZone,
    /// The site's `MaxArraySize`: one above the largest index.
    pub array_size_max: u32,
    /// Most hosts that a host list may stand for.
    pub hosts_max: usize,
}

impl Context {
    /// The usual bounds, with a given now and UTC.
    pub fn at(now: Timestamp) -> Self {
        Self {
            now,
            zone: TimeZone::UTC,
            array_size_max: crate::array::ARRAY_SIZE_DEFAULT,
            hosts_max: crate::hostlist::HOSTS_MAX,
        }
    }
}

/// Everything that a submission is made from.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// Whose options are read.
    pub command: Command,
    /// The batch script, if there is one.
    pub script: Option<&'a str>,
    /// The words of the command line, without the program's name.
    pub words: &'a [String],
    /// The submitter's environment.
    pub environment: &'a BTreeMap<String, String>,
}

/// A submission that was read without error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// The components of the job: one, or several for a heterogeneous job.
    pub components: Vec<ComponentRequest>,
    /// What concerns the client, not the job.
    pub client: ClientFlags,
    /// The script's name on the command line.
    pub script: Option<String>,
    /// The script's arguments, or the command's for `srun` and `salloc`.
    pub arguments: Vec<String>,
    /// What the submitter should know.
    pub warnings: Vec<Diagnostic>,
    /// For each component, where each option in force was given: for errors that only the site's
    /// state shows, such as an account that does not exist. Options with two spellings stand under
    /// the newer one.
    pub places: Vec<BTreeMap<Opt, Place>>,
}

/// What one component asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComponentRequest {
    /// The job's specification with everything that options say. Empty texts (name, account, QOS,
    /// partitions, working directory) are left to the site's defaults; owner, payload and the like
    /// are not options and stay empty.
    pub spec: JobSpec,
    /// Whether the job may be put back into the queue; `None` is the site's default. Takes the
    /// place of [`JobSpec::requeue`], which cannot tell "no" from "not said".
    pub requeue: Option<bool>,
    /// The engine that is to run it (`--on`); `None` is the one of its partition.
    pub on: Option<String>,
    /// Which variables the job gets; `None` is everything.
    pub export: Option<Export>,
}

/// Options that the client acts on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientFlags {
    /// `--parsable`.
    pub parsable: bool,
    /// `--wait`.
    pub wait: bool,
    /// `--test-only`.
    pub test_only: bool,
    /// `--quiet`.
    pub quiet: bool,
    /// How often `--verbose` was given.
    pub verbose: u32,
    /// `--help`.
    pub help: bool,
    /// `--usage`.
    pub usage: bool,
    /// `--version`.
    pub version: bool,
    /// `--ignore-pbs`.
    pub ignore_pbs: bool,
    /// `--wrap`: the command to run instead of a script.
    pub wrap: Option<String>,
    /// Options that only `srun` and `salloc` know, as given.
    pub step: Vec<(Opt, Option<String>)>,
}

/// The script that `--wrap` stands for.
pub fn wrapped(command: &str) -> String {
    format!("#!/bin/sh\n# This script was made from --wrap.\n\n{command}\n")
}

/// What a command line says to the client, before the script is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// The words that are options, to be sent along.
    pub options: Vec<String>,
    /// The script's name.
    pub script: Option<String>,
    /// The script's arguments.
    pub arguments: Vec<String>,
    /// What concerns the client.
    pub client: ClientFlags,
}

/// Splits a command line into options, script and arguments, for clients that send them on.
///
/// # Errors
/// Mistakes in the options' form; what their values mean is not looked at.
pub fn command_line(command: Command, words: &[String]) -> Result<CommandLine, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let line = read_line(words, command, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut settings = Settings::new();
    for given in line.components.into_iter().flatten() {
        set(&mut settings, given, Rank::CommandLine, &mut Vec::new());
    }
    let mut client = ClientFlags::default();
    for setting in settings.values() {
        apply_client(setting.given.spec.opt, &setting.values, &mut client);
    }
    let options = words[..words.len() - line.rest.len()].to_vec();
    let mut rest = line.rest.into_iter();
    let script = rest.next();
    Ok(CommandLine { options, script, arguments: rest.collect(), client })
}

/// Reads a submission.
///
/// # Errors
/// Everything that is wrong, in order: script, environment, command line, then the request as a
/// whole.
pub fn submission(sources: Sources<'_>, context: &Context) -> Result<Submission, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    let mut script_components: Vec<Vec<Given>> = Vec::new();
    let mut foreign = Vec::new();
    if let Some(text) = sources.script {
        match script::read(text) {
            Ok(header) => {
                warnings.extend(header.warnings);
                foreign = header.foreign;
                script_components = header
                    .components
                    .iter()
                    .map(|directives| read_directives(directives, &mut errors))
                    .collect();
            }
            Err(found) => errors.extend(found),
        }
    }
    let environment = read_environment(sources.environment, sources.command);
    let line = read_line(sources.words, sources.command, &mut errors);

    let mut client = ClientFlags::default();
    let (mut components, mut places) = (Vec::new(), Vec::new());
    let mut settings = Settings::new();
    let count = script_components.len().max(line.components.len()).max(1);
    for index in 0..count {
        settings = carried_over(settings);
        let mut overridden = Vec::new();
        let from = |list: &[Vec<Given>]| list.get(index).cloned().unwrap_or_default();
        for (rank, given) in [
            (Rank::Script, from(&script_components)),
            (Rank::Environment, environment.clone()),
            (Rank::CommandLine, from(&line.components)),
        ] {
            for given in given {
                set(&mut settings, given, rank, &mut overridden);
            }
        }
        let mut found = Found { errors: &mut errors, warnings: &mut warnings };
        found.overridden(&overridden, context);
        let mut component = found.interpret(&settings, context, &mut client);
        check::component(&settings, &mut component, context, &mut found);
        components.push(component);
        let place = |(opt, setting): (&Opt, &Setting)| (*opt, setting.given.place.clone());
        places.push(settings.iter().map(place).collect());
    }
    check::heterogeneous(&components, &mut errors);
    if !client.ignore_pbs {
        warnings.extend(foreign.into_iter().take(1).map(foreign_warning));
    }
    if client.wrap.is_some() && (sources.script.is_some() || !line.rest.is_empty()) {
        let problem = Problem::new(Code::Conflict, "--wrap and a script exclude one another");
        errors.push(Diagnostic::at(Place::Request, Some("--wrap".to_owned()), problem));
    }
    if !errors.is_empty() {
        return Err(in_order(errors));
    }
    let warnings = in_order(warnings);
    let mut rest = line.rest.into_iter();
    let script = if sources.command == Command::Sbatch { rest.next() } else { None };
    Ok(Submission { components, client, script, arguments: rest.collect(), warnings, places })
}

/// By place; what an environment variable says to each component is said once.
fn in_order(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.sort_by(|a, b| a.place.cmp(&b.place));
    let mut kept: Vec<Diagnostic> = Vec::new();
    for diagnostic in diagnostics {
        if !kept.contains(&diagnostic) {
            kept.push(diagnostic);
        }
        if kept.len() == DIAGNOSTICS_MAX {
            break;
        }
    }
    kept
}

fn foreign_warning(place: Place) -> Diagnostic {
    let problem = Problem::new(Code::WarnNotDone, "#PBS and #BSUB lines are not read")
        .hint("write #SBATCH lines, or say --ignore-pbs");
    Diagnostic::at(place, None, problem)
}

/// Where errors and warnings go.
pub(crate) struct Found<'a> {
    pub(crate) errors: &'a mut Vec<Diagnostic>,
    pub(crate) warnings: &'a mut Vec<Diagnostic>,
}

impl Found<'_> {
    fn interpret(
        &mut self,
        settings: &Settings,
        context: &Context,
        client: &mut ClientFlags,
    ) -> ComponentRequest {
        let mut component = ComponentRequest::default();
        for setting in settings.values() {
            let fresh = setting.rank != Rank::Carried;
            let mut target = Target { component: &mut component, client, warnings: Vec::new() };
            let result = apply(setting.given.spec, &setting.values, context, &mut target);
            let warnings = target.warnings;
            if fresh {
                self.errors.extend(result.err().map(|problem| setting.given.diagnostic(problem)));
                self.warnings.extend(warnings.into_iter().map(|w| setting.given.diagnostic(w)));
                self.disposition(&setting.given);
            }
        }
        component
    }

    fn disposition(&mut self, given: &Given) {
        match given.spec.disposition {
            Disposition::Honoured => {}
            Disposition::Warned(why) => {
                self.warnings.push(given.diagnostic(Problem::new(Code::WarnNotDone, why)));
            }
            Disposition::Refused(instead) => {
                let what = "muster does not do what it asks";
                let problem = Problem::new(Code::OptionRefused, what).hint(instead);
                self.errors.push(given.diagnostic(problem));
            }
        }
    }

    /// Values that another source overrides are read too, for their errors.
    fn overridden(&mut self, settings: &[Setting], context: &Context) {
        for setting in settings.iter().filter(|setting| setting.rank != Rank::Carried) {
            let mut component = ComponentRequest::default();
            let mut client = ClientFlags::default();
            let mut target =
                Target { component: &mut component, client: &mut client, warnings: Vec::new() };
            if let Err(problem) = apply(setting.given.spec, &setting.values, context, &mut target) {
                self.errors.push(setting.given.diagnostic(problem));
            }
        }
    }
}
