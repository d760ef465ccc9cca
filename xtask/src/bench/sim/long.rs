//! Long queues and long traces: what a job costs does not grow with either.

use std::path::Path;
use std::time::Instant;

use super::replay_with;
use crate::bench::{Bound, Figure};
use crate::sh;

/// Twice as much work as the machine does, so that the queue only grows; in the second trace for ten
/// times as long.
const OVERLOAD: [(&str, u32); 2] = [("20000", 20_000), ("200000", 200_000)];

/// A trace of the generator, once made.
fn made(binary: &Path, out: &Path, words: &[&str]) -> Result<(), String> {
    sh::read(sh::command(binary).args(["sim", "generate", "gpu"]).args(words).arg("-o").arg(out))
        .map(drop)
}

/// What a job costs in a queue ten times as long.
pub(super) fn overload(binary: &Path, place: &Path) -> Result<Vec<Figure>, String> {
    let mut found = Vec::new();
    for policy in ["easy", "muster"] {
        let mut each = Vec::new();
        for (jobs, count) in OVERLOAD {
            let trace = place.join(format!("overload-{jobs}.swf"));
            if !trace.exists() {
                made(binary, &trace, &["--processors=1024", "--load=2", "--jobs", jobs])?;
            }
            println!("-- {jobs} jobs, twice too many, {policy}");
            let policy = format!("--policy={policy}");
            let (_, seconds) = replay_with(binary, &trace, &[&policy], 2)?;
            each.push(seconds * 1e6 / f64::from(count));
        }
        let note =
            format!("{:.1} us by {:.1} us, half of {} jobs wait", each[1], each[0], "200000");
        let name = format!("a job in a queue ten times as long, {policy}");
        found.push(Figure::bounded(&name, each[1] / each[0], "times", Bound::AtMost(3.0), note));
    }
    Ok(found)
}

/// A year of 80,000 GPUs, in five million jobs: how long it takes and how much memory.
pub(super) fn year(binary: &Path, place: &Path) -> Result<Vec<Figure>, String> {
    let trace = place.join("year.swf");
    println!("-- a year of 80,000 GPUs: made");
    if !trace.exists() {
        made(binary, &trace, &["--processors=80000", "--jobs=5000000", "--seed=7"])?;
    }
    println!("-- a year of 80,000 GPUs: replayed");
    let begin = Instant::now();
    let mut command = sh::command("sh");
    let line = r#""$0" sim replay --json "$1" >"$2" & wait_for=$!
        most=0
        while kill -0 $wait_for 2>/dev/null; do
            now=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$wait_for/status 2>/dev/null)
            most=${now:-$most}; sleep 0.2
        done
        wait $wait_for && echo $most"#;
    let text =
        sh::read(command.args(["-c", line]).arg(binary).arg(&trace).arg(place.join("year.json")))?;
    let (seconds, kib) = (begin.elapsed().as_secs_f64(), text.trim().parse().unwrap_or(f64::NAN));
    let note = "5,000,000 jobs under muster, by the clock";
    Ok(vec![
        Figure::bounded("a year of 80,000 GPUs", seconds, "s", Bound::AtMost(300.0), note),
        Figure::bounded("its memory", kib / 1024.0, "MiB", Bound::AtMost(1024.0), "at most"),
    ])
}
