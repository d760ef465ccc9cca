//! One TOML file to settings: every key has a default and a sentence; what is wrong has a line.
//!
//! ```
//! let config = muster_config::Config::parse("[local]\npractice = \"4x8\"\n", "muster.toml").unwrap();
//! assert_eq!(config.local.practice.unwrap().nodes, 4);
//! let error = muster_config::Config::parse("[local]\npractise = \"4x8\"\n", "muster.toml").unwrap_err();
//! assert_eq!(error.problems[0].line, Some(2));
//! ```

mod address;
mod amount;
mod check;
mod diff;
mod edit;
mod error;
mod filesystem;
mod gpu;
mod key;
mod kubernetes;
mod otlp;
mod place;
mod policy;
mod preemption;
mod priority;
mod read;
mod reference;
mod reservation;
mod sections;
mod show;
mod slurm;
#[cfg(test)]
mod testing;
mod topology;
mod value;
mod warnings;

pub use address::WebAddress;
pub use amount::{Duration, Limit, Practice, Size};
pub use diff::{Change, ChangeKind, Setting};
pub use edit::{EditError, Edited, set};
pub use error::{ConfigError, Problem};
pub use filesystem::FilesystemSection;
pub use gpu::{GpuModeWord, GpuSection};
pub use key::{Key, Section};
pub use kubernetes::KubernetesSection;
pub use otlp::OtlpSection;
pub use place::{Source, read_default};
pub use preemption::{PreemptionSection, QuotaWords};
pub use priority::{Amounts, Billing, Factor, QosFlag, ShareWord, TresWeights};
pub use reference::reference_page;
pub use reservation::{NumberOrText, ReservationSection};
pub use sections::{
    AccountSection, AssociationSection, Cluster, Config, Daemon, IdleGpusWord, LicenceSection,
    Local, NodeSection, PartitionSection, PartitionWord, PolicySection, PracticeSection,
    PrioritySection, QosSection,
};
pub use slurm::SlurmSection;
pub use topology::{DomainSection, LevelSection, TopologySection};
pub use warnings::Known;
