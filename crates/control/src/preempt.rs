//! Preemptions, carried out: room claimed and given up in one turn.

use crate::decide::unchanged;
use crate::turn::Turn;
use muster_model::{ApplyError, Preempt, State};

/// Claims the room and tells the victims, all or none.
pub(crate) fn apply(turn: &mut Turn, preempt: &Preempt) -> Result<(), ApplyError> {
    let savepoint = turn.savepoint();
    for event in preempt.events(turn.at) {
        if let Err(error) = turn.apply(event) {
            turn.go_back(savepoint);
            return Err(error);
        }
    }
    Ok(())
}

/// True where every victim runs as it did when the plan was made, and the rules are the same: a
/// victim that ended or was checkpointed since changes who should make room.
pub(crate) fn still_holds(state: &State, base: &State, preempt: &Preempt) -> bool {
    let rules = state.policy == base.policy
        && (state.qos.ptr_eq(&base.qos) || state.qos == base.qos)
        && (state.accounts.ptr_eq(&base.accounts) || state.accounts == base.accounts);
    rules
        && preempt.victims.iter().all(|victim| {
            unchanged(state, base, victim.job)
                .is_some_and(|job| job.attempt == victim.attempt && job.state.holds_resources())
        })
}
