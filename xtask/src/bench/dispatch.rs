//! How fast jobs run through: an array of trivial tasks, and one job from submission to end.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use super::figure::quantile;
use super::load::{self, Load};
use super::{Bound, Figure, Scale, peer};
use crate::instance::Instance;
use crate::sh;

/// The best peer measured on such a machine: HyperQueue 0.26, one worker of two CPUs, where the
/// bare loop made 1,300 processes a second. What we aim for there is a little more. Both are
/// compared as shares of the bare loop, for machines differ and so do hours.
const PEER_SHARE: f64 = 905.0 / 1_300.0;
const AIM_SHARE: f64 = 1_000.0 / 1_300.0;
/// A run of fewer tasks is no measurement, and nothing is installed for it.
const PEER_TASKS: u32 = 10_000;
/// From submission to end: three synced writes and this.
const OWN_MS: f64 = 3.0;
const SYNCED_WRITES: f64 = 3.0;
/// About what one small transaction appends to a log.
const RECORD_BYTES: usize = 4096;

/// An array of trivial tasks, beside a bare loop that forks and waits.
pub(super) fn array(binary: &Path, scale: Scale) -> Result<Vec<Figure>, String> {
    let bare = bare_loop(scale.forks)?;
    let instance = Instance::start(binary, &[])?;
    let mut client = load::connect(&instance)?;
    let begin = Instant::now();
    let words = [format!("--array=1-{}", scale.tasks), "--output=/dev/null".to_owned()];
    let job = client.submit(&Load::trivial(&words))?;
    client.wait(job)?;
    let rate = f64::from(scale.tasks) / begin.elapsed().as_secs_f64();
    drop(instance);
    let beside = if scale.tasks >= PEER_TASKS {
        peer::hyperqueue(scale.tasks, bare, rate)
    } else {
        Vec::new()
    };
    let own = [
        Figure::baseline("bare loop", bare, "processes/s", "bash forks true and waits, one by one"),
        Figure::bounded(
            "dispatch",
            rate,
            "jobs/s",
            Bound::AtLeast(AIM_SHARE * bare),
            format!(
                "an array of {} times true, each durable; {:.2} of the bare loop, where HyperQueue \
                 0.26 has {PEER_SHARE:.2} and {AIM_SHARE:.2} is the aim",
                scale.tasks,
                rate / bare
            ),
        ),
    ];
    Ok(own.into_iter().chain(beside).collect())
}

/// One job at a time, from the submission to the end that is told to the client.
pub(super) fn single(binary: &Path, scale: Scale) -> Result<Vec<Figure>, String> {
    let instance = Instance::start(binary, &[])?;
    let sync = synced_write_ms(&instance.path("state"))?;
    let mut client = load::connect(&instance)?;
    let mut took = Vec::new();
    for _ in 0..scale.singles {
        let begin = Instant::now();
        let job = client.submit(&Load::trivial(&["--output=/dev/null".to_owned()]))?;
        client.wait(job)?;
        took.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    let bound = SYNCED_WRITES * sync + OWN_MS;
    let worst = quantile(&mut took, 0.95);
    Ok(vec![
        Figure::baseline("synced write", sync, "ms", "median of appending 4 KiB and syncing it"),
        Figure::bounded(
            "single job",
            quantile(&mut took, 0.5),
            "ms",
            Bound::AtMost(bound),
            format!("median; three synced writes and {OWN_MS} ms; 95 % within {worst:.1} ms"),
        ),
    ])
}

fn bare_loop(count: u32) -> Result<f64, String> {
    let mut bash = sh::command("bash");
    bash.args(["-c", &format!("for ((i = 0; i < {count}; i++)); do /bin/true; done")]);
    let begin = Instant::now();
    sh::read(&mut bash)?;
    Ok(f64::from(count) / begin.elapsed().as_secs_f64())
}

fn synced_write_ms(dir: &Path) -> Result<f64, String> {
    let path = dir.join("bench.sync");
    let fail = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = File::create(&path).map_err(fail)?;
    let mut took = Vec::new();
    for _ in 0..200 {
        let begin = Instant::now();
        file.write_all(&[0; RECORD_BYTES]).map_err(fail)?;
        file.sync_data().map_err(fail)?;
        took.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    std::fs::remove_file(&path).map_err(fail)?;
    Ok(quantile(&mut took, 0.5))
}
