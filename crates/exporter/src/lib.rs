//! What a machine and its jobs do, as metrics.
//!
//! One table, [`families`], says what every metric is called, what it means and in what unit; the
//! exposition, the Grafana dashboard, Prometheus's alert rules and the page in the book are made
//! from it. Names are those that existing dashboards ask for wherever the meaning is the same.
//!
//! ```
//! use muster_exporter::{Owners, Settings, exposition};
//! use muster_node_metrics::collector::{Collector, Options};
//!
//! let snapshot = Collector::new(&Options::default()).collect();
//! let text = exposition(&snapshot, &Owners::default(), &Settings::default()).open_metrics();
//! assert!(text.ends_with("# EOF\n"));
//! ```

mod command;
mod dashboard;
mod emit;
mod exposition;
pub mod families;
mod otlp;
mod owners;
mod rules;
mod serve;

pub use command::{VERB, command, run};
pub use dashboard::dashboard;
pub use emit::exposition;
pub use exposition::{Exposition, Settings};
pub use otlp::{OtlpError, Push, PushWish, push};
pub use owners::{Owner, Owners};
pub use rules::rules;
pub use serve::{OPEN_METRICS, TEXT};
