//! Start intervals: how many starts are within, and what quantiles cost beside time limits.

use std::path::Path;

use serde_json::Value;

use crate::bench::{Bound, Figure};
use crate::sh;

/// One in so many waiting jobs of each trace is foreseen, so that some hundreds are, and by so many
/// samples.
const EVERY: [(&str, &str); 4] =
    [("kth-sp2", "20"), ("cea-curie-sample", "10"), ("llnl-atlas", "1"), ("lublin-256", "20")];
const SAMPLES: &str = "20";

/// Scores a trace; what cannot be scored is told.
pub(super) fn figures(binary: &Path, trace: &str, file: &Path) -> Result<Vec<Figure>, String> {
    let every = EVERY.iter().find(|one| one.0 == trace).map_or("10", |one| one.1);
    let mut command = sh::command(binary);
    command.args(["sim", "score-estimates", "--json", "--policy=easy", "--every", every]);
    command.args(["--samples", SAMPLES]).arg(file);
    let text = match sh::read(&mut command) {
        Ok(text) => text,
        Err(why) => {
            println!("skipped: starts foreseen on {trace}: {why}");
            return Ok(Vec::new());
        }
    };
    let score: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let of = |key: &str| score[key].as_f64().unwrap_or(f64::NAN);
    let (within, jobs) = (of("coverage") * 100.0, of("jobs"));
    let (own, limits) = (of("pinball_s"), of("pinball_by_limits_s"));
    let name = format!("starts within p10-p90 off 80 %, {trace}");
    let note = format!("{within:.1} % of {jobs} starts under EASY, one in {every} that wait");
    let off = Figure::bounded(&name, (within - 80.0).abs(), "points", Bound::AtMost(3.0), note);
    let name = format!("pinball loss by that of time limits, {trace}");
    let note = format!("{own:.0} s by {limits:.0} s");
    Ok(vec![off, Figure::bounded(&name, own / limits, "", Bound::AtMost(1.0), note)])
}
