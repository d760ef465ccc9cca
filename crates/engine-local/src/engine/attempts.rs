//! What the engine knows of each attempt: from its directory, from pokes, and what it accepted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use muster_engine::EngineError;
use muster_model::{ExitReport, StepRecord, Timestamp};

use crate::spec::{JobKey, ProcessId};

/// How many acknowledged attempts are remembered, against a launch order that comes late.
const ACKNOWLEDGED_MAX: usize = 100_000;

/// All attempts not yet acknowledged.
#[derive(Default)]
pub(super) struct Attempts {
    known: BTreeMap<JobKey, Attempt>,
    acknowledged: BTreeSet<JobKey>,
    order: VecDeque<JobKey>,
    fence: u64,
}

/// One attempt.
pub(super) struct Attempt {
    pub(super) phase: Phase,
    pub(super) supervisor: Option<ProcessId>,
    pub(super) suspended: bool,
    pub(super) signalled: u32,
    pub(super) steps: Vec<StepRecord>,
    /// The most memory of one GPU that it was seen to hold.
    pub(super) gpu_memory_peak_mib: u64,
}

/// Where an attempt stands.
pub(super) enum Phase {
    /// Given to the shepherd; the message is kept until its supervisor is heard of.
    Accepted { message: Arc<Vec<u8>> },
    /// It has a supervisor.
    Running { start_ms: u64 },
    /// It is over.
    Exited(ExitReport),
}

impl Attempt {
    pub(super) fn accepted(message: Arc<Vec<u8>>) -> Self {
        Self::new(Phase::Accepted { message })
    }

    pub(super) fn running(start_ms: u64) -> Self {
        Self::new(Phase::Running { start_ms })
    }

    pub(super) fn exited(report: ExitReport) -> Self {
        Self::new(Phase::Exited(report))
    }

    fn new(phase: Phase) -> Self {
        Self {
            phase,
            supervisor: None,
            suspended: false,
            signalled: 0,
            steps: Vec::new(),
            gpu_memory_peak_mib: 0,
        }
    }

    pub(super) fn started(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Running { start_ms } => Some(Timestamp::from_millis(start_ms as i64)),
            Phase::Accepted { .. } | Phase::Exited(_) => None,
        }
    }
}

impl Attempts {
    /// Refuses an order of a writer that was replaced.
    pub(super) fn check_fence(&mut self, fence: u64) -> Result<(), EngineError> {
        if fence < self.fence {
            return Err(EngineError::Fenced { fence, seen: self.fence });
        }
        self.fence = fence;
        Ok(())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&JobKey, &Attempt)> {
        self.known.iter()
    }

    pub(super) fn get(&self, key: JobKey) -> Option<&Attempt> {
        self.known.get(&key)
    }

    pub(super) fn get_mut(&mut self, key: JobKey) -> Option<&mut Attempt> {
        self.known.get_mut(&key)
    }

    /// Whether the attempt is here or was and is acknowledged.
    pub(super) fn is_known(&self, key: JobKey) -> bool {
        self.known.contains_key(&key) || self.acknowledged.contains(&key)
    }

    pub(super) fn is_acknowledged(&self, key: JobKey) -> bool {
        self.acknowledged.contains(&key)
    }

    pub(super) fn insert(&mut self, key: JobKey, attempt: Attempt) {
        self.known.insert(key, attempt);
    }

    /// Takes in an attempt that was found running, unless it was heard meanwhile that it is over.
    pub(super) fn found_running(&mut self, key: JobKey, attempt: Attempt) {
        let known = self.known.get(&key);
        let over = matches!(known.map(|a| &a.phase), Some(Phase::Exited(_)));
        if !over && !self.acknowledged.contains(&key) {
            let gpu_memory_peak_mib = known.map_or(0, |a| a.gpu_memory_peak_mib);
            self.known.insert(key, Attempt { gpu_memory_peak_mib, ..attempt });
        }
    }

    /// The attempt is acknowledged.
    pub(super) fn forget(&mut self, key: JobKey) {
        if self.known.remove(&key).is_none() || !self.acknowledged.insert(key) {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > ACKNOWLEDGED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.acknowledged.remove(&oldest);
        }
    }
}
