//! What holds a job back: from samples to findings.
//!
//! A window of [`Sample`]s becomes [`Signals`], numbers with a name and a unit; [`RULES`] says in a
//! table which of them together mean what. No clock, no files: the same samples give the same
//! findings. "Nothing wrong" is an answer, and so is "cannot tell", with what is missing.
//!
//! ```
//! use muster_diagnosis::{Verdict, diagnose};
//!
//! // One sample is not a window.
//! assert_eq!(diagnose(&[Default::default()]).verdict, Verdict::TooShort);
//! ```

mod course;
mod idle;
mod report;
mod rules;
mod sample;
mod signals;
mod tally;

pub use course::{Course, Line, POINTS_MAX};
pub use idle::IdleStretch;
pub use report::{Confidence, Finding, Report, Verdict, diagnose};
pub use rules::{Condition, RULES, Rule, Test};
pub use sample::{Gpu, Sample};
pub use signals::{Signal, Signals, WINDOW_SECONDS_MIN};
pub use tally::{Standing, Tally, Totals};
