//! The same data loaded from thousands of small files and from one packed file: what muster finds
//! of the first, and that it finds nothing of the second.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::instance::Instance;
use crate::{root, sh};

/// What a daemon is started with that looks at its jobs often enough for a demo.
pub(super) const CONFIG: &str = "[daemon]\nwatch_period = \"2s\"\n";
/// The finding about small files is waited for so long; the shortest window is a minute.
const LIMIT_S: u64 = 180;
const POLL: Duration = Duration::from_millis(500);

/// Makes the files, loads them both ways one after the other, and tells what was found.
///
/// # Errors
/// Small files are not loaded or diagnosed, or the packed file has a finding. That small files are found
/// is said, not asserted: a disk that answers at once, or a busy machine, has no such trouble.
pub(super) fn show(instance: &Instance) -> Result<(), String> {
    let work = instance.path("small-files");
    super::copy(&root::dir().join("examples/small-files"), &work)
        .map_err(|error| format!("examples/small-files: {error}"))?;
    if is_in_memory(&work)? {
        println!("small files: left out, for {} is in memory, not on a disk", work.display());
        return Ok(());
    }
    println!("\nthe same data twice: thousands of small files, then one packed file");
    let bed = Bed { instance, work };
    bed.sbatch(&["--wait", "make.sh"])?;
    let names_files = |seen: &Seen| seen.codes.iter().any(|code| code.contains("SMALL_FILES"));
    let small = bed.look("unpacked.sh", names_files)?;
    if !names_files(&small) {
        println!(
            "small files: no finding in {LIMIT_S} s: this disk is fast enough for them, or others \
             keep the CPUs so busy that little of the time is spent waiting for it"
        );
    }
    let packed = bed.look("packed.sh", |seen| seen.verdict != "too_short")?;
    // A machine that is busy with other things leaves it too few CPUs, and that is true of it.
    match packed.codes.iter().find(|code| *code != "CPU_SHORT") {
        None if packed.verdict == "too_short" => Err("no diagnosis of one packed file".to_owned()),
        None => Ok(()),
        Some(code) => Err(format!("one packed file, and still {code}")),
    }
}

/// What is asked of a diagnosis.
struct Seen {
    state: String,
    verdict: String,
    codes: Vec<String>,
}

impl Seen {
    fn read(json: &str) -> Option<Self> {
        let page: serde_json::Value = serde_json::from_str(json).ok()?;
        let job = page["jobs"].get(0)?;
        let word = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let codes = job["findings"].as_array()?.iter().filter_map(|one| word(&one["code"]));
        let (state, verdict) = (word(&job["state"])?, word(&job["verdict"])?);
        Some(Self { state, verdict, codes: codes.collect() })
    }
}

struct Bed<'a> {
    instance: &'a Instance,
    work: PathBuf,
}

impl Bed<'_> {
    fn sbatch(&self, words: &[&str]) -> Result<String, String> {
        let mut sbatch = self.instance.slurm("sbatch");
        sbatch.current_dir(&self.work).arg("--parsable").args(words);
        let id = sh::read(&mut sbatch)?.trim().to_owned();
        println!("$ sbatch {:50} job {id}", words.join(" "));
        Ok(id)
    }

    /// Runs a script until its diagnosis is as wanted or the time is over; prints it and
    /// returns the diagnosis.
    fn look(&self, script: &str, done: impl Fn(&Seen) -> bool) -> Result<Seen, String> {
        let stop = self.work.join("stop");
        if stop.exists() {
            std::fs::remove_file(&stop).map_err(|error| format!("stop: {error}"))?;
        }
        let id = self.sbatch(&[script])?;
        let deadline = Instant::now() + Duration::from_secs(LIMIT_S);
        let seen = loop {
            let page = sh::read(self.job(&id).args(["--diagnose", "--json"]))?;
            let seen = Seen::read(&page).ok_or_else(|| format!("no diagnosis: {page}"))?;
            if done(&seen) || Instant::now() > deadline {
                break seen;
            }
            if !["pending", "starting", "running"].contains(&seen.state.as_str()) {
                let log = self.work.join(script).with_extension("log");
                let said = std::fs::read_to_string(log).unwrap_or_default();
                return Err(format!("{script} ended early: {said}"));
            }
            std::thread::sleep(POLL);
        };
        println!("$ muster job {id} --diagnose");
        print!("{}", sh::read(self.job(&id).arg("--diagnose"))?);
        std::fs::write(&stop, "").map_err(|error| format!("stop: {error}"))?;
        sh::read(self.instance.muster().args(["wait", &id]))?;
        let log = self.work.join(script).with_extension("log");
        println!("{script}: {}", std::fs::read_to_string(log).unwrap_or_default().trim());
        Ok(seen)
    }

    fn job(&self, id: &str) -> Command {
        let mut muster = self.instance.muster();
        muster.args(["job", id]);
        muster
    }
}

/// True where files lie in memory: nothing is read from a disk there.
fn is_in_memory(dir: &Path) -> Result<bool, String> {
    let mut stat = sh::command("stat");
    let kind = sh::read(stat.args(["--file-system", "--format=%T"]).arg(dir))?;
    Ok(matches!(kind.trim(), "tmpfs" | "ramfs"))
}

#[cfg(test)]
mod tests {
    use super::Seen;

    #[test]
    fn a_diagnosis_is_read() {
        let json = r#"{"period_s":2,"jobs":[{"id":1,"state":"running","verdict":"found",
            "findings":[{"code":"SMALL_FILES"}]}]}"#;
        let seen = Seen::read(json).expect("a diagnosis");
        assert_eq!((seen.state.as_str(), seen.verdict.as_str()), ("running", "found"));
        assert_eq!(seen.codes, ["SMALL_FILES"]);
        assert!(Seen::read(r#"{"jobs":[]}"#).is_none());
    }
}
