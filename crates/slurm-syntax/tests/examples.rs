//! The example scripts: the good ones are accepted without a warning, the bad ones are refused
//! with the code and the place that their mistake deserves.

use std::collections::BTreeMap;

use muster_model::Timestamp;
use muster_slurm_syntax::options::Command;
use muster_slurm_syntax::problem::{Diagnostic, Place};
use muster_slurm_syntax::submission::{Context, Sources, Submission, submission};

fn read(script: &str) -> Result<Submission, Vec<Diagnostic>> {
    let environment = BTreeMap::new();
    let sources = Sources {
        command: Command::Sbatch,
        script: Some(script),
        words: &[],
        environment: &environment,
    };
    submission(sources, &Context::at(Timestamp::from_secs(1_800_000_000)))
}

macro_rules! bad {
    ($($file:literal $code:literal $line:literal,)+) => {
        [$(($file, include_str!(concat!("../../../examples/bad/", $file, ".sh")), $code, $line),)+]
    };
}

#[test]
fn bad_scripts_are_refused() {
    for (file, script, code, line) in bad! {
        "array" "E_ARRAY_BAD" 3,
        "array-throttle" "E_ARRAY_BAD" 3,
        "begin" "E_WHEN_BAD" 3,
        "clash-gpus" "E_CONFLICT" 4,
        "clash-memory" "E_CONFLICT" 4,
        "dependency" "E_DEPENDENCY_BAD" 3,
        "dependency-type" "E_DEPENDENCY_BAD" 3,
        "dos-line-ends" "E_SCRIPT_DOS" 1,
        "empty" "E_SCRIPT_EMPTY" 0,
        "gpus-fewer-than-nodes" "E_IMPOSSIBLE" 4,
        "gpus-per-task" "E_MISSING" 4,
        "hostlist" "E_HOSTLIST_BAD" 3,
        "hostlist-huge" "E_HOSTLIST_LONG" 3,
        "memory" "E_MEMORY_BAD" 3,
        "near-miss" "E_OPTION_UNKNOWN" 3,
        "no-shebang" "E_SCRIPT_INTERPRETER" 1,
        "nodes" "E_NODES_BAD" 3,
        "open-quote" "E_LINE_QUOTE" 3,
        "signal" "E_SIGNAL_BAD" 3,
        "time" "E_TIME_BAD" 4,
    } {
        let errors = read(script).expect_err(file);
        assert_eq!(errors.len(), 1, "{file}: {errors:?}");
        assert_eq!(errors[0].code.word(), code, "{file}");
        let at = match errors[0].place {
            Place::Script { line, .. } => line,
            _ => 0,
        };
        assert_eq!(at, line, "{file}: {}", errors[0]);
    }
}

#[test]
fn good_scripts_are_accepted_without_a_warning() {
    for (file, script) in [
        ("array", include_str!("../../../examples/array.sh")),
        ("checkpoint", include_str!("../../../examples/checkpoint.sh")),
        ("mpi", include_str!("../../../examples/mpi.sh")),
        ("torchrun", include_str!("../../../examples/torchrun.sh")),
        ("jupyter", include_str!("../../../examples/jupyter.sh")),
    ] {
        let submission = read(script).unwrap_or_else(|errors| panic!("{file}: {errors:?}"));
        assert!(submission.warnings.is_empty(), "{file}: {:?}", submission.warnings);
    }
}
