//! The loop: snapshot, plan, check, commit, dispatch, observe.
