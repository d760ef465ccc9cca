//! What jobs did over time: the lines of their graphs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The jobs that a name stands for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SeriesPage {
    /// Samples are taken so many seconds apart; 0 where none are.
    pub period_s: u64,
    /// Each job.
    pub jobs: Vec<SeriesView>,
}

/// What a job's last attempt did, from the first look at it on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SeriesView {
    /// The job.
    pub id: u32,
    /// When the first stretch began.
    pub from_ms: i64,
    /// How long each stretch is; 0 where there is none.
    pub step_ms: u64,
    /// The lines that anybody knows a value of.
    pub lines: Vec<LineView>,
}

/// One line: a value for each stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LineView {
    /// Of a job `cpu`, `cpu_waiting`, `io_waiting`, `memory`, `gpu`, `gpu_memory`, `gpu_power`,
    /// `read`, `written`, `reads`, `metadata` or `network`.
    pub name: String,
    /// What its values are in: `cpus`, `gpus`, `share`, `tasks`, `bytes`, `bytes_per_s`, `per_s` or
    /// `watts`.
    pub unit: String,
    /// The mean of each stretch; none where nobody knows.
    pub values: Vec<Option<f64>>,
}
