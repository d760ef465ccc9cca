//! The text Slurm users and tools write: scripts, durations, host lists, GRES.
//!
//! Every form has a parser with typed errors and, where the text has to be written too, a printer
//! that is its inverse. [`submission::submission`] puts them together: a batch script, a command
//! line and an environment become the components of a job, or all the reasons why not, each with a
//! stable code, its place and what to write instead. Nothing here looks at the environment, the
//! clock or the disk: they come in as values.
//!
//! ```
//! use std::collections::BTreeMap;
//! use muster_model::Timestamp;
//! use muster_slurm_syntax::options::Command;
//! use muster_slurm_syntax::submission::{Context, Sources, submission};
//!
//! let sources = Sources {
//!     command: Command::Sbatch,
//!     script: Some("#!/bin/bash\n#SBATCH --tiem=10\nsrun train\n"),
//!     words: &[],
//!     environment: &BTreeMap::new(),
//! };
//! let errors = submission(sources, &Context::at(Timestamp::from_secs(0))).unwrap_err();
//! assert_eq!(
//!     errors[0].to_string(),
//!     "error[E_OPTION_UNKNOWN]: script line 2, column 9: no option --tiem\nhint: did you mean --time?",
//! );
//! ```

pub mod affinity;
mod apply;
pub mod array;
pub mod binding;
pub mod change;
mod check;
mod codes;
mod conf;
pub mod constraint;
pub mod count;
pub mod dependency;
pub mod docs;
pub mod duration;
pub mod exit_code;
pub mod export;
pub mod gpu_part;
pub mod gres;
pub mod gres_conf;
pub mod hostlist;
pub mod license;
pub mod memory;
mod merge;
mod option_table;
pub mod options;
pub mod pattern;
pub mod print;
pub mod problem;
pub mod repeat;
mod scan;
pub mod script;
pub mod signal;
pub mod state;
pub mod submission;
pub mod topology;
pub mod tres;
mod values;
pub mod volume;
pub mod when;
mod words;
