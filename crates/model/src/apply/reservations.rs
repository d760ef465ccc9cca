//! Reservations come, go on to their next occurrence, change nodes and end.

use super::ApplyError;
use crate::reservation::{Reservation, ReservationFlag, ReservedNode, Window};
use crate::{Hold, Job, JobId, JobSpec, Reason, State, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

impl State {
    pub(super) fn advance_reservation(
        &mut self,
        name: &str,
        window: Window,
        later: &[Window],
    ) -> Result<(), ApplyError> {
        self.change_reservation("reservation_advanced", name, |r| {
            r.window = window;
            r.later = later.to_vec();
            r.idle_since = None;
        })
    }

    pub(super) fn set_reserved_nodes(
        &mut self,
        name: &str,
        nodes: &[ReservedNode],
    ) -> Result<(), ApplyError> {
        self.change_reservation("reservation_nodes", name, |r| {
            r.nodes = nodes.to_vec();
            r.nodes.sort_by_key(|n| n.node);
        })
    }

    pub(super) fn change_reservation(
        &mut self,
        event: &'static str,
        name: &str,
        change: impl FnOnce(&mut Reservation),
    ) -> Result<(), ApplyError> {
        let known = self
            .reservations
            .get_mut(name)
            .ok_or_else(|| ApplyError::UnknownReservation { event, name: name.to_owned() })?;
        change(Arc::make_mut(known));
        Ok(())
    }

    /// Takes a reservation away. Its waiting jobs no longer name it; those that name no other are
    /// held, or become ordinary ones where its flag says so (case S-28).
    pub(super) fn remove_reservation(&mut self, at: Timestamp, name: &str) {
        let Some(gone) = self.reservations.remove(name) else { return };
        let waiting: Vec<JobId> = self
            .index
            .pending
            .iter()
            .filter(|id| self.jobs.get(*id).is_some_and(|job| names(job, name)))
            .copied()
            .collect();
        // Tasks of an array go on sharing their spec.
        let mut changed: BTreeMap<usize, Arc<JobSpec>> = BTreeMap::new();
        for id in waiting {
            let Some(old) = self.jobs.get(&id).cloned() else { continue };
            let spec = changed.entry(Arc::as_ptr(&old.spec) as usize).or_insert_with(|| {
                let mut spec = JobSpec::clone(&old.spec);
                let left: Vec<&str> =
                    old.spec.request.reservations().filter(|other| *other != name).collect();
                spec.request.reservation = (!left.is_empty()).then(|| left.join(","));
                Arc::new(spec)
            });
            let mut new = Job { spec: Arc::clone(spec), ..Job::clone(&old) };
            let ordinary = gone.has(ReservationFlag::NoHoldJobsAfter)
                || new.spec.request.reservation.is_some();
            if !ordinary && new.hold.is_none() {
                let name = name.to_owned();
                new.hold = Some(Hold::System(Reason::ReservationDeleted { name }));
            }
            self.replace(&old, new);
            self.refresh_eligible(at, id);
        }
    }
}

fn names(job: &Job, name: &str) -> bool {
    job.spec.request.reservations().any(|named| named == name)
}
