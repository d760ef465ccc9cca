//! What holds running jobs back.

use muster_model::JobState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The jobs that a name stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiagnosisPage {
    /// Samples are taken so many seconds apart; 0 where none are.
    pub period_s: u64,
    /// Each job.
    pub jobs: Vec<DiagnosisView>,
}

/// What holds a job back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiagnosisView {
    /// The job.
    pub id: u32,
    /// Its state.
    #[schema(value_type = String)]
    pub state: JobState,
    /// `found`, `fine`, `cannot_tell` or `too_short`.
    pub verdict: String,
    /// Seconds that the samples span.
    pub window_s: u64,
    /// How many there are.
    pub samples: u64,
    /// What was found, the surest first.
    pub findings: Vec<FindingView>,
    /// What was not known and would have been needed.
    pub missing: Vec<String>,
}

/// One thing that holds it back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingView {
    /// Its code.
    pub code: String,
    /// One sentence.
    pub text: String,
    /// The numbers that it rests on.
    pub evidence: String,
    /// Everything that belongs to it was looked at.
    pub sure: bool,
    /// What to do.
    pub remedy: String,
}
