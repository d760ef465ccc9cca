//! Why jobs wait.

use muster_model::{NodeCause, Reason, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A reason: its code, Slurm's word, a sentence and the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReasonView {
    /// The stable code; its page is `docs/reasons/<CODE>.md`.
    pub code: String,
    /// Slurm's word.
    pub word: String,
    /// One sentence, lower case, no full stop.
    pub text: String,
    /// The numbers; left out of queue rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub data: Option<Reason>,
    /// Jobs that hold what it is about, by raw number; left out of queue rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<u32>,
    /// When enough is free, if jobs take their whole limits; left out of queue rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub until_ms: Option<Timestamp>,
    /// Since when that has been so, where it is about something that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub since_ms: Option<Timestamp>,
}

/// Why the jobs that one id names wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhyPage {
    /// One for each job; array tasks that wait for the same reasons are folded into one.
    pub jobs: Vec<WhyView>,
}

/// Why one job waits, or what became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhyView {
    /// The raw number.
    pub id: u32,
    /// The number users see, folded for several tasks.
    pub job: String,
    /// Its state in snake case.
    pub state: String,
    /// Everything that blocks it, the binding one first; empty where it does not wait.
    pub reasons: Vec<ReasonView>,
    /// When it is expected to start, as in the queue: not after this, unless more important jobs
    /// come. Absent where it cannot be foreseen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub expected_ms: Option<Timestamp>,
    /// A bound: not before this, unless jobs end before their limits. Its start if nobody else
    /// waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub not_before_ms: Option<Timestamp>,
    /// The nodes that are promised to it, folded; empty where none are.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub expected_nodes: String,
    /// The smallest changes that would let it start now; each was tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggestions: Vec<Suggestion>,
    /// What earlier runs of the same script propose to ask for, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
    /// Every node of its partitions, counted under what keeps the job from it now, the most lasting
    /// cause first; the counts add up to the number of nodes. Empty where it does not wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodesView>,
    /// Running jobs that may make room for it, by the rule that says so; empty where no rule does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_make_room: Vec<RunningJobsView>,
    /// Running jobs that are kept from making room for it, by what keeps them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_running: Vec<RunningJobsView>,
    /// Room was looked for among those that may make it, and there is not enough.
    #[serde(default, skip_serializing_if = "is_false")]
    pub room_in_vain: bool,
    /// For whom it makes or made room last; absent where it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempted: Option<PreemptedView>,
    /// The answer about the node, or the other job, that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<BesideView>,
    /// With whom it takes turns on its CPUs and GPUs, and when; absent where it shares with nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnView>,
    /// Why it stands still, or that it gives up or gets nodes; absent where it simply runs or waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub still: Option<StillView>,
    /// Why it waits where it was handed to: in that scheduler's word; absent where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub there: Option<ThereView>,
    /// A sentence about its end or its present state.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Why a job waits at the scheduler that it was handed to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ThereView {
    /// The engine, `slurm`.
    pub engine: String,
    /// That scheduler's own word.
    pub word: String,
    /// When it expects to start it; absent where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub expected_ms: Option<Timestamp>,
}

/// What a job that has its nodes is held up by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StillView {
    /// What, and what lets it go on, as a clause.
    pub text: String,
    /// The jobs that it waits for, as users see them; empty where it is for none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<String>,
    /// Since when it stands still; absent where it runs meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub since_ms: Option<Timestamp>,
}

/// A running job's part in turns with others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TurnView {
    /// It is its turn; else it stands still.
    pub runs: bool,
    /// With whom it takes turns, by raw number, at most eight.
    pub with: Vec<u32>,
    /// When its turn comes, or where it runs, when it is over, if no job ends before; absent where
    /// nobody waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub next_ms: Option<Timestamp>,
}

/// Running jobs with something in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunningJobsView {
    /// What, as a clause.
    pub what: String,
    /// How many.
    pub count: u32,
    /// The first of them by number, as users see them.
    pub jobs: Vec<String>,
    /// When the first of them is not kept any more; absent where that is not a matter of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub until_ms: Option<Timestamp>,
}

/// The last preemption of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreemptedView {
    /// For which job.
    pub by: String,
    /// Its user; empty where it is forgotten.
    pub user: String,
    /// How: `cancel`, `requeue`, `checkpoint` or `suspend`.
    pub mode: String,
    /// When it was decided.
    #[schema(value_type = i64)]
    pub at_ms: Timestamp,
    /// How often the job was preempted in all.
    pub times: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde gives a reference
const fn is_false(value: &bool) -> bool {
    !*value
}

/// What is asked beside why a job waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct WhyQuery {
    /// A node: what keeps the job from it, or why the job has its own nodes and not this one.
    pub node: Option<String>,
    /// Another job, as users name it: what decides between the two.
    pub over: Option<String>,
}

/// Two nodes, or two jobs, side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BesideView {
    /// The answer in a sentence, lower case, no full stop.
    pub text: String,
    /// What the columns are about: the job's node and the other, or the job and the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heads: Vec<String>,
    /// What both are measured by, in the order in which it counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<BesideRow>,
    /// What keeps the job from the node asked about, with its numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub cause: Option<NodeCause>,
    /// What else the job waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<ReasonView>,
}

/// One measure of two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BesideRow {
    /// What is measured.
    pub what: String,
    /// The first value; empty where it is an instant or nothing.
    pub own: String,
    /// The second value.
    pub other: String,
    /// The first value where it is an instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub own_ms: Option<Timestamp>,
    /// The second value where it is an instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub other_ms: Option<Timestamp>,
    /// It is what decides.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decides: bool,
}

/// At most so many nodes of one cause are named.
pub const NODES_NAMED: u32 = 8;

/// Nodes that one cause keeps a job from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodesView {
    /// How many.
    pub count: u32,
    /// The first of them, folded; at most eight.
    pub names: String,
    /// The cause in words, without instants.
    pub text: String,
    /// The cause with its numbers and instants.
    #[schema(value_type = Object)]
    pub cause: NodeCause,
}

/// A change to a request that was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Suggestion {
    /// What to change: `--gpus=4`.
    pub change: String,
    /// What it would do, as a sentence.
    pub text: String,
    /// Jobs that would start now without the change and would not with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub displaces: Vec<String>,
}

impl ReasonView {
    /// With the numbers.
    pub fn full(reason: &Reason) -> Self {
        Self { data: Some(reason.clone()), ..Self::short(reason) }
    }

    /// Without the numbers, for rows.
    pub fn short(reason: &Reason) -> Self {
        Self {
            code: reason.code().to_owned(),
            word: reason.slurm_word().to_owned(),
            text: reason.to_string(),
            data: None,
            held_by: Vec::new(),
            until_ms: None,
            since_ms: match reason {
                Reason::FilesystemBusy { since, .. } => Some(*since),
                _ => None,
            },
        }
    }
}
