//! What a run came to: from Slurm's own records of its jobs.

use std::fmt::Write as _;

/// A job that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) job: u64,
    pub(super) started: u64,
    pub(super) ended: u64,
    pub(super) cpus: u64,
    /// Its limit, seconds.
    pub(super) limit: u64,
}

/// What counts of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Score {
    pub(super) jobs: usize,
    /// From the beginning to the last end, seconds.
    pub(super) makespan_s: f64,
    /// Of all CPUs, until the last job ended.
    pub(super) utilisation: f64,
    pub(super) slowdown: f64,
    pub(super) wait_s: f64,
}

/// A run shorter than this counts as this long: the usual bound of the slowdown.
const TAU_S: f64 = 10.0;

/// The jobs of `squeue -r -t all -o "%A|%S|%e|%C|%l|%T"` that ran to their end.
///
/// # Errors
/// One that did not, or a line that is none.
pub(super) fn parse(text: &str) -> Result<Vec<Ran>, String> {
    let one = |line: &str| {
        let fields: Vec<&str> = line.trim().split('|').collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let ran = (|| {
            let (job, started) = (number(0)?, number(1)?);
            let (ended, cpus) = (number(2)?, number(3)?);
            Some(Ran { job, started, ended, cpus, limit: clock(fields.get(4)?)? })
        })();
        match ran {
            Some(ran) if fields.get(5) == Some(&"COMPLETED") => Ok(ran),
            _ => Err(format!("a job did not run to its end: {line}")),
        }
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(one).collect()
}

/// `2:00` or `1:02:00` in seconds.
fn clock(text: &str) -> Option<u64> {
    text.split(':').try_fold(0, |sum, part| Some(sum * 60 + part.parse::<u64>().ok()?))
}

/// What jobs that all waited from `begin` on came to, on so many CPUs.
pub(super) fn score(ran: &[Ran], begin: u64, cpus: u64) -> Score {
    let count = ran.len().max(1) as f64;
    let last = ran.iter().map(|job| job.ended).max().unwrap_or(begin);
    let makespan_s = last.saturating_sub(begin) as f64;
    let wait = |job: &Ran| job.started.saturating_sub(begin) as f64;
    let took = |job: &Ran| job.ended.saturating_sub(job.started) as f64;
    let used: f64 = ran.iter().map(|job| took(job) * job.cpus as f64).sum();
    let slow = |job: &Ran| ((wait(job) + took(job)) / took(job).max(TAU_S)).max(1.0);
    Score {
        jobs: ran.len(),
        makespan_s,
        utilisation: used / (makespan_s.max(1.0) * cpus as f64),
        slowdown: ran.iter().map(slow).sum::<f64>() / count,
        wait_s: ran.iter().map(wait).sum::<f64>() / count,
    }
}

/// The same jobs as a trace in the Standard Workload Format, all there from the beginning.
pub(super) fn swf(ran: &[Ran], cpus: u64) -> String {
    let mut text = format!("; MaxProcs: {cpus}\n");
    let mut jobs = ran.to_vec();
    jobs.sort_by_key(|job| job.job);
    for (at, job) in (1..).zip(&jobs) {
        let (took, cpus, limit) = (job.ended.saturating_sub(job.started), job.cpus, job.limit);
        let _ =
            writeln!(text, "{at} 0 -1 {took} {cpus} -1 -1 {cpus} {limit} -1 1 1 1 -1 1 -1 -1 -1");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{parse, score, swf};

    #[test]
    fn a_run_is_scored_by_hand() {
        let text = "7|100|120|4|2:00|COMPLETED\n8|120|125|8|1:00:00|COMPLETED\n";
        let ran = parse(text).expect("two jobs");
        let score = score(&ran, 100, 8);
        // 20 s of 4 CPUs and 5 s of 8, of 25 s of 8; slowdowns 1 and 25 / 10.
        assert!((score.utilisation - 120.0 / 200.0).abs() < 1e-9, "{score:?}");
        assert!((score.slowdown - 1.75).abs() < 1e-9 && (score.wait_s - 10.0).abs() < 1e-9);
        assert_eq!((score.jobs, ran[1].limit), (2, 3600));
        assert!(swf(&ran, 8).contains("\n2 0 -1 5 8 -1 -1 8 3600 "));
        assert!(parse("9|1|2|1|1:00|FAILED").is_err());
    }
}
