//! What was seen of jobs that are over: a small file a job below the state directory.
//!
//! Accounting is the store's; these are figures beside it, and a job without them is still told of.

use muster_api::{DiagnosisView, SeriesView};
use muster_diagnosis::Standing;
use muster_model::{Job, JobId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Files that are kept; the oldest jobs' go first.
const FILES_MAX: usize = 10_000;

/// What samples of one attempt of a job say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Watched {
    /// Which attempt.
    pub(crate) attempt: u32,
    /// When the job was submitted: numbers begin anew some day.
    pub(crate) submitted: Timestamp,
    /// Seconds between the first sample and the last.
    pub(crate) seconds: u64,
    /// GPU use in thousandths, mean.
    pub(crate) gpu_permille: Option<u32>,
    /// GPU memory in thousandths, the most.
    pub(crate) gpu_memory_permille: Option<u32>,
    /// Bytes read.
    pub(crate) read_bytes: Option<u64>,
    /// Bytes written.
    pub(crate) written_bytes: Option<u64>,
    /// Energy of its GPUs.
    pub(crate) gpu_joules: Option<u64>,
    /// What held it back.
    pub(crate) diagnosis: DiagnosisView,
    /// What it did over time; files of earlier releases are without.
    #[serde(default)]
    pub(crate) series: SeriesView,
    /// What its totals are made of, for a daemon that goes on from here.
    #[serde(default)]
    pub(crate) standing: Option<Standing>,
}

impl Watched {
    /// Whether it is about the present attempt of this very job.
    pub(crate) fn is_of(&self, job: &Job) -> bool {
        (self.attempt, self.submitted) == (job.attempt, job.submitted)
    }
}

/// The files.
pub(crate) struct Kept {
    dir: PathBuf,
    /// Whose there are; read when the first is asked for.
    known: Mutex<Option<BTreeSet<u32>>>,
}

impl Kept {
    /// In this folder, which need not be there.
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, known: Mutex::new(None) }
    }

    fn path(&self, job: u32) -> PathBuf {
        self.dir.join(format!("{job}.json"))
    }

    /// Keeps what was seen of a job. That it cannot be kept is no reason to stop.
    pub(crate) fn keep(&self, job: JobId, watched: &Watched) {
        if let Err(error) = self.write(job.0, watched) {
            tracing::warn!(%job, %error, "what was seen of a job cannot be kept");
        }
    }

    fn write(&self, job: u32, watched: &Watched) -> std::io::Result<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        std::fs::create_dir_all(&self.dir)?;
        let known = known.get_or_insert_with(|| self.listed());
        let new = self.dir.join("new");
        std::fs::write(&new, serde_json::to_vec(watched)?)?;
        std::fs::rename(&new, self.path(job))?;
        known.insert(job);
        while known.len() > FILES_MAX
            && let Some(oldest) = known.pop_first()
        {
            std::fs::remove_file(self.path(oldest))?;
        }
        Ok(())
    }

    fn listed(&self) -> BTreeSet<u32> {
        let Ok(all) = std::fs::read_dir(&self.dir) else { return BTreeSet::new() };
        let names = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter_map(|name| name.strip_suffix(".json")?.parse().ok()).collect()
    }

    /// What was seen of a job's last attempt. A file that says nothing known is as none.
    pub(crate) fn of(&self, job: &Job) -> Option<Watched> {
        let text = std::fs::read(self.path(job.id.0)).ok()?;
        let watched: Watched = serde_json::from_slice(&text).ok()?;
        watched.is_of(job).then_some(watched)
    }
}

#[cfg(test)]
mod tests {
    use super::{FILES_MAX, Kept, Watched};
    use muster_diagnosis::{Course, Gpu, Line, POINTS_MAX, Sample, Standing};
    use muster_model::{Job, Timestamp};

    /// The most bytes of a file, with every line of a graph and every finding.
    const FILE_BYTES_MAX: usize = 40_000;

    fn job() -> Job {
        let job = serde_json::json!({
            "id": 7, "spec": {"owner": {"uid": 1, "gid": 1, "user": "a"}}, "submitted": 0,
            "state": "running", "time_limit": "unlimited",
        });
        serde_json::from_value(job).unwrap()
    }

    /// A job that ran for a month, every figure of which was known and none of which is round.
    fn month() -> Course {
        let mut course = Course::default();
        for n in 0..=86_400_u32 {
            let at = 30.0 * f64::from(n);
            let odd = f64::from(n.wrapping_mul(2_654_435_761) >> 8) / 16_777_216.0;
            let count = Some(at * 1_234_567.0 + odd * 1e6);
            let gpu = Gpu {
                uuid: "GPU-a".to_owned(),
                busy: Some(odd),
                memory: Some(odd),
                watts: Some(700.0 * odd),
                ..Gpu::default()
            };
            course.add(&Sample {
                at,
                cpu_seconds: Some(at * 63.7 + odd),
                cpu_waiting: Some(at * 0.123 + odd),
                io_waiting: Some(at * 0.123 + odd),
                memory: Some(odd * 1e11),
                disk_reads: count,
                disk_read_bytes: count,
                disk_written_bytes: count,
                shared_metadata: count,
                rdma_bytes: count,
                gpus: vec![gpu],
                ..Sample::default()
            });
        }
        course
    }

    #[test]
    fn what_is_kept_of_jobs_is_bounded_and_a_month_is_as_small_as_an_hour() {
        let job = job();
        let series = super::super::series::of(&job, &month(), 2_592_000.0);
        assert_eq!(series.lines.len(), Line::ALL.len());
        assert!(series.lines.iter().all(|line| line.values.len() <= POINTS_MAX));
        let watched = Watched {
            attempt: 0,
            submitted: Timestamp::from_secs(0),
            seconds: 2_592_000,
            gpu_permille: Some(999),
            gpu_memory_permille: Some(999),
            read_bytes: Some(u64::MAX),
            written_bytes: Some(u64::MAX),
            gpu_joules: Some(u64::MAX),
            diagnosis: super::super::report::diagnosis(&job, &[]),
            series,
            standing: Some(Standing::default()),
        };
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept::new(dir.path().join("reports"));
        kept.keep(job.id, &watched);
        let bytes = std::fs::metadata(kept.path(7)).unwrap().len() as usize;
        println!("a month is {bytes} bytes, all files {} MB", bytes * FILES_MAX / 1_000_000);
        assert!(bytes < FILE_BYTES_MAX, "{bytes}");
        let begun = std::time::Instant::now();
        let read = kept.of(&job).expect("what was kept");
        let answer = serde_json::to_vec(&read.series).unwrap();
        println!("its graph is {} bytes, made in {:?}", answer.len(), begun.elapsed());
        assert!(read.series.lines.len() == Line::ALL.len() && answer.len() < FILE_BYTES_MAX);
    }

    #[test]
    fn the_oldest_go_first() {
        let dir = tempfile::tempdir().unwrap();
        for job in 1..=(FILES_MAX as u32) {
            std::fs::write(dir.path().join(format!("{job}.json")), "").unwrap();
        }
        let kept = Kept::new(dir.path().to_owned());
        let watched: Watched = serde_json::from_value(serde_json::json!({
            "attempt": 1, "submitted": 0, "seconds": 1, "diagnosis": super::super::report::diagnosis(&job(), &[]),
        }))
        .unwrap();
        for job in 1..=3 {
            kept.keep(muster_model::JobId(FILES_MAX as u32 + job), &watched);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), FILES_MAX);
        assert!(!kept.path(3).exists() && kept.path(4).exists());
    }
}
