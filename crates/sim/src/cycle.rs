//! One planning round as a file: its input, its plan, and the same round once more.

use crate::rename::{Renamed, Replace};
use muster_model::{Decision, JobId, Plan, Reason, SCHEMA_VERSION, State};
use muster_planner::{Budget, Explanation, Planner};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};

/// The first word of every such file.
pub const FORMAT: &str = "muster-cycle-1";

/// The largest file that is read, bytes.
const BYTES_MAX: u64 = 4 << 30;

/// A planning round: what it was made from, and what it said.
///
/// The instant and the budget are the plan's own ([`Plan::now`], [`Plan::steps_max`],
/// [`Plan::resumed`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cycle {
    /// Always [`FORMAT`].
    format: String,
    /// The schema of the state within.
    schema: u32,
    /// The state that the round was made from, with the policy in it.
    pub state: State,
    /// The plan that came out.
    pub plan: Plan,
}

/// Why a file is no round that can be planned again.
#[derive(Debug, thiserror::Error)]
pub enum CycleError {
    /// It is something else, or damaged.
    #[error("this is not a saved planning round: {why}")]
    Format {
        /// What the reader said.
        why: String,
    },
    /// A newer muster wrote it.
    #[error("the saved round has schema {found}, and this muster knows schemas up to {known}")]
    Newer {
        /// The file's schema.
        found: u32,
        /// The newest schema of this program.
        known: u32,
    },
    /// With other names the round would be another one.
    #[error("with its names replaced this round plans otherwise: {why}")]
    Names {
        /// What went wrong.
        why: String,
    },
    /// It cannot be read or written.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl CycleError {
    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Format { .. } => "E_CYCLE_FORMAT",
            Self::Newer { .. } => "E_CYCLE_NEWER",
            Self::Names { .. } => "E_CYCLE_NAMES",
            Self::Io(_) => "E_CYCLE_FILE",
        }
    }
}

/// What a reader of JSON found, in words for people who did not write the file.
fn plain(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    match error.classify() {
        serde_json::error::Category::Eof => "it ends too early".to_owned(),
        serde_json::error::Category::Data => {
            format!("what stands before line {line}, column {column} is no part of one")
        }
        _ => format!("it is no JSON at line {line}, column {column}"),
    }
}

/// A round planned again.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The plan that came out now.
    pub plan: Plan,
    /// It equals the one in the file.
    pub same: bool,
    /// Every rule that it breaks, a sentence each (full recount).
    pub violations: Vec<String>,
    /// Why each job that still waits does so: its binding reason.
    pub waiting: BTreeMap<JobId, Reason>,
}

/// The plan without the sentences in its reasons.
fn wordless(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    for decision in &mut plan.decisions {
        if let Decision::Reject { reason, .. } = decision {
            *reason = Reason::NotPlannedYet;
        }
    }
    plan
}

/// Words with a meaning of their own: kinds of resources, and the levels that nobody has to name.
const WORDS: &[&str] =
    &["cpu", "mem", "node", "billing", "energy", "gres/gpu", "leaf", "spine", "core"];

/// True for texts that name nothing of the site: words, numbers, and ranges such as sets of CPUs.
fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || b",-:%".contains(&byte))
        || WORDS.contains(&text)
        || text.starts_with("gres/gpu:")
}

/// A resource's kind, with its slash, and its name; other texts are all name.
fn parted(text: &str) -> (&str, &str) {
    let kind = ["gres/", "license/"].into_iter().find(|kind| text.starts_with(kind));
    match kind.filter(|_| !is_word(text)) {
        Some(kind) => text.split_at(kind.len()),
        None => ("", text),
    }
}

/// Only what comes first in the file: read before the rest is understood.
#[derive(Deserialize)]
struct Head {
    format: String,
    schema: u32,
}

impl Cycle {
    /// A round with its plan.
    pub fn new(state: State, plan: Plan) -> Self {
        Self { format: FORMAT.to_owned(), schema: SCHEMA_VERSION, state, plan }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`CycleError`].
    pub fn read(from: impl Read) -> Result<Self, CycleError> {
        let mut text = Vec::new();
        from.take(BYTES_MAX).read_to_end(&mut text)?;
        let wrong = |error: serde_json::Error| CycleError::Format { why: plain(&error) };
        let head: Head = serde_json::from_slice(&text).map_err(wrong)?;
        if head.format != FORMAT {
            return Err(CycleError::Format { why: format!("its format is {:?}", head.format) });
        }
        if head.schema > SCHEMA_VERSION {
            return Err(CycleError::Newer { found: head.schema, known: SCHEMA_VERSION });
        }
        serde_json::from_slice(&text).map_err(wrong)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write(&self, to: impl Write) -> Result<(), CycleError> {
        let mut to = std::io::BufWriter::new(to);
        serde_json::to_writer(&mut to, self).map_err(std::io::Error::from)?;
        to.write_all(b"\n")?;
        Ok(to.flush()?)
    }

    /// The same round with every name and text of the site replaced by a number: users, accounts,
    /// nodes, jobs, paths, comments. Equal texts (case aside) stay equal and keep their order, so
    /// the round plans the same.
    ///
    /// # Errors
    /// [`CycleError::Names`] where it would not: a name that the planner reads a meaning from.
    pub fn without_names(&self) -> Result<Self, CycleError> {
        let failed = |why: String| CycleError::Names { why };
        let json = |cycle: &Self, replace: Replace<'_>| {
            let (state, plan) = (&cycle.state, &cycle.plan);
            let both = (Renamed { value: state, replace }, Renamed { value: plan, replace });
            serde_json::to_vec(&both).map_err(|error| failed(error.to_string()))
        };
        let texts = RefCell::new(BTreeSet::new());
        json(self, &|text| {
            let names = text.split(',').map(|name| parted(name).1).filter(|name| !is_word(name));
            texts.borrow_mut().extend(names.map(str::to_lowercase));
            String::new()
        })?;
        let texts: Vec<String> = texts.into_inner().into_iter().collect();
        let width = texts.len().to_string().len();
        let number = |text: &str| {
            let (kind, name) = parted(text);
            match texts.binary_search(&name.to_lowercase()) {
                Ok(at) if !is_word(name) => format!("{kind}x{at:0width$}"),
                _ => text.to_owned(),
            }
        };
        // Some texts are lists of names.
        let renamed =
            json(self, &|text| text.split(',').map(number).collect::<Vec<_>>().join(","))?;
        let (state, plan): (State, Plan) =
            serde_json::from_slice(&renamed).map_err(|error| failed(error.to_string()))?;
        let mut cycle = Self::new(state, plan);
        if self.replay().same {
            let again = cycle.replay().plan;
            if wordless(&again) != wordless(&cycle.plan) {
                return Err(failed("another plan comes out".to_owned()));
            }
            // Sentences that the planner makes have the new names in them.
            cycle.plan = again;
        }
        Ok(cycle)
    }

    /// The budget that the round had.
    fn budget(&self) -> Budget {
        Budget { steps: self.plan.steps_max, resume: self.plan.resumed.clone() }
    }

    /// Plans the round again with a planner of its own.
    pub fn replay(&self) -> Replayed {
        let (state, now) = (&self.state, self.plan.now);
        let mut planner = Planner::new(state);
        let plan = planner.plan(state, now, self.budget());
        let mut found = muster_plan_check::check_full(state, &plan);
        found.extend(muster_plan_check::recount(state));
        let mut waiting = planner.reasons_within(state, now, self.budget());
        waiting.retain(|_, reason| *reason != Reason::NotPlannedYet);
        Replayed {
            same: plan == self.plan,
            violations: found.iter().map(ToString::to_string).collect(),
            waiting,
            plan,
        }
    }

    /// Everything about one waiting job, as it stood then.
    pub fn explain(&self, job: JobId) -> Explanation {
        Planner::new(&self.state).explain(&self.state, job, self.plan.now)
    }
}
