//! The muster command line.
//!
//! Everything here asks the daemon and prints the answer: tables for people, `--json` for
//! programs. Commands about the daemon itself (`up`, `down`, …) are the daemon crate's.

mod act;
mod args;
mod attach;
mod config;
mod diagnose;
mod drive;
mod explain;
mod generate;
mod history;
mod inspect;
mod interrupt;
mod job;
mod links;
mod logs;
mod machine;
mod nccl;
mod net;
mod nodes;
mod pods;
mod propose;
mod queue;
mod replay;
mod reservation;
mod run;
mod say;
mod shadow;
mod share;
mod sim;
mod slurm;
mod submit;
mod table;
mod top;
mod whatif;
mod why;

use std::ffi::OsString;

use clap::Parser;

use args::{Command, Line};
use say::{Failure, Outcome};
pub use why::update_command;

/// What other crates of the program bring to the command line.
pub struct Others<'a> {
    /// Their commands, for help, completions and manual pages.
    pub commands: Vec<clap::Command>,
    /// The Slurm names that the program answers to.
    pub slurm_names: &'a [&'a str],
}

/// Carries out a command; `args` begin with the program's name. Returns the exit code.
pub fn run(args: &[OsString], others: &Others<'_>) -> i32 {
    let words: Vec<&OsString> = args.iter().skip(1).collect();
    let asks_help = words.is_empty()
        || words.iter().all(|word| *word == "help" || *word == "--help" || *word == "-h");
    if asks_help {
        let mut whole = generate::whole(others);
        // Nothing can be said where the terminal is gone.
        let _ = whole.print_help();
        return if words.is_empty() { 2 } else { 0 };
    }
    if words[0] == "help" {
        return help(args, others);
    }
    let line = match Line::try_parse_from(args) {
        Ok(line) => line,
        Err(error) => {
            let _ = error.print();
            return error.exit_code();
        }
    };
    match carry_out(line.command, others) {
        Ok(code) => code,
        Err(Failure { code, text }) => {
            say::complain(&text);
            code
        }
    }
}

/// `muster help COMMAND`, for every command of the program.
fn help(args: &[OsString], others: &Others<'_>) -> i32 {
    let mut words: Vec<OsString> = vec![OsString::from("muster")];
    words.extend(args.iter().skip(2).cloned());
    words.push(OsString::from("--help"));
    match generate::whole(others).try_get_matches_from(words) {
        Ok(_) => 0,
        Err(error) => {
            let _ = error.print();
            error.exit_code()
        }
    }
}

fn web(args: &args::WebArgs) -> Outcome {
    let options = muster_web::Options { port: args.port, open: args.open, act: args.act };
    muster_web::run(&options).map_err(|error| Failure::new(error.to_string())).map(|()| 0)
}

fn carry_out(command: Command, others: &Others<'_>) -> Outcome {
    match command {
        Command::Submit(args) => submit::run(&args.words),
        Command::Run(args) => run::run(&args.words),
        Command::Cancel(jobs) => act::run(muster_api::Action::Cancel, &jobs),
        Command::Hold(jobs) => act::run(muster_api::Action::Hold, &jobs),
        Command::Release(jobs) => act::run(muster_api::Action::Release, &jobs),
        Command::Requeue(jobs) => act::run(muster_api::Action::Requeue, &jobs),
        Command::Checkpoint(args::Checkpoint::Report { job, json }) => {
            act::checkpoint(job.as_deref(), json)
        }
        Command::Wait(jobs) => act::wait(&jobs),
        Command::Logs(args) => logs::run(&args),
        Command::Attach { job } => attach::run(&job),
        Command::Queue(args) => queue::run(&args),
        Command::Job(one) => job::run(&one),
        Command::Why(one) => why::why(&one),
        Command::When(one) => why::when(&one),
        Command::WhatIf(change) => whatif::run(change),
        Command::Reservation(command) => reservation::run(command),
        Command::Node(command) => nodes::run(command),
        Command::Partition(args::List::List(json)) => inspect::partitions(&json),
        Command::Account(args::List::List(json)) => inspect::accounts(&json),
        Command::Qos(args::List::List(json)) => inspect::qos(&json),
        Command::Priority(args) => share::priority(&args),
        Command::Share(args) => share::share(&args),
        Command::Topology(json) => inspect::topology(&json),
        Command::History(args) => history::run(&args),
        Command::Machine(args) => machine::run(&args),
        Command::Net(net) => net::run(net),
        Command::Config(command) => config::run(command),
        Command::SlurmLinks { dir } => links::run(dir, others.slurm_names),
        Command::Completions { shell } => Ok(generate::completions(shell, others)),
        Command::Man { dir } => generate::man(dir, others),
        Command::ExplainCode { code } => explain::run(&code),
        Command::Replay(args) => replay::run(&args),
        Command::Drive(drive) => drive::run(&drive),
        Command::Slurm(slurm) => slurm::run(&slurm),
        Command::Shadow(shadow) => shadow::run(&shadow),
        Command::Sim(sim) => sim::run(&sim),
        Command::Web(args) => web(&args),
        Command::Top(args) => top::run(&args),
        Command::Version(json) => inspect::version(&json),
    }
}
