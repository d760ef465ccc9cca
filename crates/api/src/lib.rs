//! Wire types of the REST interface and their `OpenAPI` description.
//!
//! Everything below `/v1` speaks JSON made of these types. Instants are UTC milliseconds (`_ms`),
//! durations are seconds (`_s`), memory is MiB (`_mib`). Fields that say nothing are left out.
//! Lists are bounded and paged: `limit` bounds a page, `after` is the previous page's `next`.
//!
//! ```
//! use muster_api::JobRef;
//! let task: JobRef = "900_3".parse().unwrap();
//! assert_eq!(task.to_string(), "900_3");
//! ```

pub mod account;
pub mod act;
pub mod admin;
pub mod diagnosis;
pub mod endpoint;
pub mod error;
pub mod events;
pub mod history;
pub mod job;
pub mod job_ref;
pub mod machine;
pub mod node;
pub mod pause;
pub mod plan;
pub mod priority;
pub mod queue;
pub mod report;
pub mod reservation;
pub mod series;
pub mod shown;
pub mod step;
pub mod submit;
pub mod tres;
pub mod view;
pub mod whatif;
pub mod why;

pub use account::{AccountView, MemberView, QosView, UseView};
pub use act::{
    Action, ActionRequest, ActionResponse, ActionResult, JobFilter, JobPatch, SignalScope,
};
pub use admin::{
    BackupRequest, BackupResponse, ConfigChange, CycleRequest, CycleResponse, Ping, PolicyView,
    ReloadResponse, Stats,
};
pub use diagnosis::{DiagnosisPage, DiagnosisView, FindingView};
pub use endpoint::{Endpoint, EndpointError};
pub use error::{ApiError, Place, Problem};
pub use events::{EventQuery, EventView};
pub use history::{HistoryPage, HistoryQuery, HistoryRow};
pub use job::{
    GateView, HetView, JobPage, JobView, LevelCount, PlacementView, ShareView, StepView, UsageView,
};
pub use job_ref::{JobRef, JobRefError};
pub use machine::{
    BandwidthView, FilesystemView, LinkView, MachineSeries, MachineSeriesQuery, MachineView,
    StorageView,
};
pub use node::{
    DeviceView, DrainRequest, ForeignView, LicenceHeldView, LicenceView, NodeJob, NodePage,
    NodeState, NodeView, PartitionView, SwitchView,
};
pub use pause::PauseView;
pub use plan::{PlanBar, PlanKind, PlanLane, PlanPage, PlanPart, PlanQuery};
pub use priority::{PriorityPage, PriorityQuery, PriorityRow, ShareLine, SharePage};
pub use queue::{ArrayView, IdleView, QueueDetail, QueuePage, QueueQuery, QueueRow};
pub use report::{ReportPage, ReportView};
pub use reservation::{ReservationPlan, ReservationRequest, ReservationView, ReservedNodeView};
pub use series::{LineView, SeriesPage, SeriesView};
pub use submit::{
    ClientFlags, JobEnd, PayloadView, ResourceLimit, ScriptView, StepAccess, SubmitRequest,
    SubmitResponse, Tool, Trial, WaitQuery, WaitResponse,
};
pub use whatif::{
    ADDED_NODES_MAX, AddNodes, MovedJob, PreemptedJob, WhatIfRequest, WhatIfResponse,
};
pub use why::{
    BesideRow, BesideView, NODES_NAMED, NodesView, PreemptedView, ReasonView, RunningJobsView,
    StillView, Suggestion, ThereView, TurnView, WhyPage, WhyQuery, WhyView,
};

/// The most rows of one page.
pub const PAGE_MAX: u32 = 20_000;

/// The rows of a page where nothing else is asked.
pub const PAGE_DEFAULT: u32 = 1_000;

/// The largest request body, bytes.
pub const BODY_MAX: usize = 8 * 1024 * 1024;

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
