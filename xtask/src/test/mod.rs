//! `cargo xtask test`: everything, in stages, with a table at the end.

mod build;
mod deny;
mod e2e;
mod examples;
mod k8s;
mod slurm;
mod vm;

use crate::args::Args;
use crate::stage::Report;
use crate::{bench, book, demo, dist, sh, tidy, web};

/// What the flags of `cargo xtask test` ask for.
pub(crate) struct Options {
    /// More cases, the slow beds, and whatever has to be installed first.
    pub(crate) long: bool,
    /// The seed of made-up cases in a long run. An ordinary run has the one of `.cargo/config.toml`.
    pub(crate) seed: u64,
}

type Run = fn(&Options, &mut Report);

const STAGES: &[(&str, Run)] = &[
    ("tidy", |_, report| {
        tidy::checks(report);
        build::lints(report);
    }),
    ("unit", build::unit),
    ("docs", |_, report| {
        book::checks(report);
        build::rustdoc(report);
    }),
    ("deny", deny::checks),
    ("examples", |_, report| examples::checks(report)),
    ("web", |_, report| web::checks(report)),
    ("e2e", e2e::checks),
    ("slurm", slurm::checks),
    ("k8s", k8s::checks),
    ("demo", |_, report| report.check("the pipeline", demo::smoke)),
    ("bench", |_, report| report.check("every figure, small", bench::smoke)),
    ("dist", |options, report| dist::checks(options.long, report)),
    ("vm", vm::checks),
];

/// `cargo xtask test [--long] [--only STAGE[,STAGE]]`.
pub(crate) fn main(words: &[String]) -> Result<(), String> {
    let mut args = Args::new(words);
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let options = Options {
        long: args.switch("--long"),
        seed: since_epoch.map_or(0, |passed| passed.as_secs()),
    };
    if options.long {
        println!("made-up cases have PROPTEST_RNG_SEED={}", options.seed);
    }
    let only = args.value("--only")?;
    args.finish()?;
    let wanted: Option<Vec<&str>> = only.as_deref().map(|only| only.split(',').collect());
    for name in wanted.iter().flatten() {
        if !STAGES.iter().any(|(stage, _)| stage == name) {
            let known: Vec<&str> = STAGES.iter().map(|(stage, _)| *stage).collect();
            return Err(format!("no stage {name:?}; there are {}", known.join(", ")));
        }
    }
    let mut report = Report::default();
    for (name, run) in STAGES {
        if wanted.as_ref().is_none_or(|wanted| wanted.contains(name)) {
            report.stage(name);
            run(&options, &mut report);
        }
    }
    report.close()
}

/// A cargo command of a test stage; tests read `MUSTER_TEST_LONG` to do more.
pub(crate) fn cargo_test(options: &Options, args: &[&str]) -> std::process::Command {
    let mut cargo = sh::cargo(&["test", "--locked"]);
    cargo.args(args);
    if options.long {
        cargo.env("MUSTER_TEST_LONG", "1").env("PROPTEST_CASES", "2000");
        cargo.env("PROPTEST_RNG_SEED", options.seed.to_string());
    }
    cargo
}
