//! Jobs, nodes, resources, policy, plans, events and reasons, and the one transition between states.
//!
//! This crate holds facts and arithmetic, never choices. [`State`] is a fold of [`Event`]s:
//! [`State::apply`] is the only way it changes, and it is the same function in the daemon, in a
//! test and in a replay. There is no clock here, no I/O, no random number, no float in a decision
//! and no order that depends on a hash.
//!
//! ```
//! use muster_model::{Event, EventKind, State, Timestamp};
//! let mut state = State::default();
//! state.apply(&Event { at: Timestamp::from_millis(0), kind: EventKind::Round }).unwrap();
//! assert_eq!(state.seq, 1);
//! ```

pub mod account;
pub mod affinity;
pub mod amount;
pub mod apply;
pub mod array;
pub mod association;
pub mod binding;
pub mod constraint;
pub mod cpuset;
pub mod decay;
pub mod dependency;
mod elastic;
pub mod event;
pub mod exit;
pub mod fair_share;
pub mod id;
mod idle;
pub mod job;
pub mod limit;
pub mod links;
pub mod mig;
mod nearest;
pub mod node;
pub mod partition;
pub mod payload;
pub mod placement;
pub mod plan;
pub mod policy;
pub mod preempt;
pub mod priority;
pub mod qos;
pub mod reason;
pub mod request;
pub mod reservation;
mod run_time;
pub mod sharing;
pub mod slowdown;
pub mod spec;
pub mod state;
pub mod tally;
pub mod time;
pub mod topology;
pub mod tres;
pub mod turn;
pub mod usage;

pub use account::{Account, Licence, LicenceHold};
pub use affinity::{
    Affinity, Expression, Heed, JobTerm, Labels, Operator, Rules, SpreadRule, Taint, TaintEffect,
    Term, Toleration, Wish,
};
pub use amount::{Cpus, DeviceMilli, Mib};
pub use apply::ApplyError;
pub use array::{ArraySpec, IndexRanges};
pub use association::{AssociationLimits, GroupLimits, Member, Shares};
pub use binding::{
    CpuBind, CpuBindKind, CpuOrder, Distribution, GpuBind, GpuBindKind, Mask, NodeOrder,
};
pub use constraint::Constraint;
pub use cpuset::CpuSet;
pub use dependency::{
    Dependency, DependencyKind, DependencyTarget, DependencyTerm, Gate, GateStatus, GateTarget,
    Joiner,
};
pub use elastic::Elastic;
pub use event::{Event, EventKind, JobUpdate};
pub use exit::{EndCause, ExitReport, ExitStatus, StepId, StepRecord, Usage};
pub use fair_share::{FairShare, ShareRow};
pub use id::{BlobId, EngineName, JobId, NodeId};
pub use idle::IdleGpus;
pub use job::{
    ArrayTask, HetPart, Hold, Job, JobState, PendingSignal, SignalScope, Stop, StopCause,
};
pub use limit::{LimitHit, LimitName};
pub use mig::{MigProfile, MigTable};
pub use nearest::nearest;
pub use node::{Availability, Device, DeviceLink, Drain, ForeignUse, LinkKind, Node, NumaDomain};
pub use partition::{Partition, PartitionState};
pub use payload::Payload;
pub use placement::{DeviceGrant, NodeShare, Placement};
pub use plan::{Decision, Plan, Preempt, Promise, PromisedShare, Resume, Start, Work};
pub use policy::{
    BackfillDepth, BackfillMode, BackfillOrder, DevicePolicy, NodeChoice, OrderMode, Policy,
};
pub use preempt::{
    Amounts, Claim, DisruptionBudget, Eviction, PreemptMode, PreemptRules, Preemption, Quota,
    QuotaAmount, Victim, VictimOrder,
};
pub use priority::{
    Capacity, Factors, FairShareMode, Priorities, PriorityPolicy, Steady, UsageReset, Weights,
};
pub use qos::{Qos, QosFlags, QosLimits};
pub use reason::{Reason, RuleKind, RuleTally};
pub use request::{
    Exclusive, GpuCount, GpuScope, LicenceRequest, MemoryRequest, NodeCount, Request, SwitchWish,
};
pub use reservation::{
    Access, Group, Names, Repeat, Reservation, ReservationFlag, ReservedNode, ReservedPart, Want,
    Window,
};
pub use run_time::{PromiseBasis, RecentRuns, RunTimeCorrection, RunTimePolicy, RunTimeSource};
pub use sharing::{
    DeviceMode, DeviceWish, GpuShare, Isolation, MigInstance, MigMode, MigSlot, Sharing,
};
pub use slowdown::{NOBODY, WaitGuard, WaitRecord};
pub use spec::{
    Checkpoint, Gang, JobKind, JobSpec, MailSpec, OpenMode, Owner, SignalSpec, SignalTarget, Stdio,
    Volume,
};
pub use state::{NodeMap, State};
pub use tally::{NodeCause, NodeTally};
pub use time::{Seconds, TimeLimit, Timestamp};
pub use topology::{
    LinkSpeed, Segments, Span, Topology, TopologyDomain, TopologyLevel, TopologyRequest,
};
pub use tres::{BillingMode, BillingWeight, BillingWeights, Tres, TresKind, decimal};
pub use turn::{Turn, TurnChange};
pub use usage::{Holder, Spent, Tally};

/// The version of the events and snapshots this build writes.
///
/// A build refuses a log whose version is higher than its own.
pub const SCHEMA_VERSION: u32 = 1;

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
