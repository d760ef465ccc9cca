//! muster's own placement: the state, [`State::apply`] and [`Planner::plan`], a round for each pod.

use super::{Draw, Placer, Placing};
use crate::openb;
use crate::trace::{OpenbNode, OpenbPod};
use muster_model::{
    ApplyError, BackfillMode, Decision, DevicePolicy, Event, EventKind, JobId, NodeChoice, Policy,
    State, StopCause, Timestamp,
};
use muster_planner::{Budget, Planner};
use std::sync::Arc;

pub(super) struct Own {
    state: State,
    planner: Planner,
    next: u32,
}

impl Own {
    pub(super) fn new(
        nodes: &[OpenbNode],
        pods: &[OpenbPod],
        placing: Placing,
    ) -> Result<Self, ApplyError> {
        let policy = Policy {
            // Whoever does not fit is turned away, so nobody waits.
            backfill: BackfillMode::None,
            count_usage: false,
            nodes: match placing {
                Placing::MusterPack => NodeChoice::Pack,
                Placing::MusterSpread => NodeChoice::Spread,
                _ => NodeChoice::LeastWaste,
            },
            devices: match placing {
                Placing::Muster => openb::typical(pods),
                _ => DevicePolicy::default(),
            },
            ..Policy::default()
        };
        let mut state = State::default();
        for kind in openb::cluster(nodes, policy) {
            state.apply(&Event { at: Timestamp::from_secs(0), kind })?;
        }
        Ok(Self { planner: Planner::new(&state), state, next: 1 })
    }

    fn event(&mut self, kind: EventKind) -> Result<(), ApplyError> {
        let event = Event { at: Timestamp::from_secs(0), kind };
        self.state.apply(&event)?;
        self.planner.observe_event(&event, &self.state);
        Ok(())
    }
}

impl Placer for Own {
    fn place(&mut self, pod: &OpenbPod, _: &mut Draw) -> Result<bool, ApplyError> {
        let id = JobId(self.next);
        self.next += 1;
        let specs = vec![Arc::new(openb::job_of(pod))];
        self.event(EventKind::JobSubmitted { first: id, specs })?;
        let plan = self.planner.plan(&self.state, Timestamp::from_secs(0), Budget::UNLIMITED);
        let starts = plan.decisions.iter().flat_map(Decision::starts);
        let Some(start) = starts.into_iter().find(|start| start.job == id) else {
            self.event(EventKind::JobStop {
                job: id,
                cause: StopCause::Cancelled(0),
                hurry: false,
            })?;
            self.event(EventKind::JobsForgotten { jobs: vec![id] })?;
            return Ok(false);
        };
        let (attempt, time_limit) = (start.attempt, start.time_limit);
        let placement = Arc::clone(&start.placement);
        self.event(EventKind::JobPlaced { job: id, attempt, placement, time_limit })?;
        Ok(true)
    }
}
