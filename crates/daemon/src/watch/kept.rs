//! What was seen of jobs that are over: a small file a job below the state directory.
//!
//! Accounting is the store's; these are figures beside it, and a job without them is still told of.

use muster_api::{DiagnosisView, SeriesView};
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
