//! One scheduler for this machine, Slurm and Kubernetes.
//!
//! Picks who carries out a call and nothing else: a Slurm name by which the program was started,
//! a command about the daemon, or one of the command line.

use std::ffi::OsString;
use std::path::Path;
use std::process::exit;

fn main() {
    let args: Vec<OsString> = std::env::args_os().collect();
    let name = args.first().and_then(|path| Path::new(path).file_name()?.to_str());
    if let Some(name) = name.filter(|name| muster_slurm_shim::NAMES.contains(name)) {
        let words: Vec<String> =
            args[1..].iter().map(|word| word.to_string_lossy().into_owned()).collect();
        exit(muster_slurm_shim::run(name, &words));
    }
    let verb = args.get(1).and_then(|word| word.to_str()).unwrap_or_default();
    if muster_daemon::VERBS.contains(&verb) {
        exit(muster_daemon::run(&args));
    }
    if verb == muster_exporter::VERB {
        exit(muster_exporter::run(&args));
    }
    if verb == muster_pod_agent::VERB {
        let words: Vec<String> =
            args[2..].iter().map(|word| word.to_string_lossy().into_owned()).collect();
        exit(muster_pod_agent::run(&words, muster_slurm_shim::NAMES));
    }
    let others = muster_cli::Others {
        commands: vec![muster_daemon::command(), muster_exporter::command()],
        slurm_names: muster_slurm_shim::NAMES,
    };
    exit(muster_cli::run(&args, &others));
}
