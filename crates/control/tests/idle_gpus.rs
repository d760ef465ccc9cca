//! Jobs whose GPUs do nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

mod support;

use muster_control::command::Command;
use muster_model::{EndCause, Hold, IdleGpus, JobId, JobState, Reason, Seconds, Timestamp};
use support::desk::{Desk, one};
use support::{root, user};

#[test]
fn gpus_that_do_nothing_are_told_of_and_taken_back() {
    let mut desk = Desk::new();
    let told = IdleGpus {
        gpus: 2,
        since: Timestamp::from_secs(5),
        until: Some(Timestamp::from_secs(9)),
        taken_after: None,
    };
    let tell = |id: u32, attempt, idle| Command::Idle { job: JobId(id), attempt, idle };
    let take = |id: u32, attempt, requeue| {
        let after = Seconds(2_700);
        Command::TakeBack { job: JobId(id), attempt, after, requeue }
    };
    let back = desk.plain();
    let never = desk.try_with(|s| s.specs[0].requeue = false).unwrap();
    desk.start(&[back, never]);
    // Nobody was told; another attempt was measured; it is no business of its owner's.
    assert_eq!(desk.ask(&root(), take(back, 1, true)).unwrap_err().code(), "E_JOB_STATE");
    assert_eq!(desk.ask(&root(), tell(back, 2, Some(told))).unwrap_err().code(), "E_JOB_STATE");
    assert_eq!(desk.ask(&user(1000), tell(back, 1, None)).unwrap_err().code(), "E_ADMIN_ONLY");
    // Told and no more.
    desk.ask(&root(), tell(back, 1, Some(IdleGpus { until: None, ..told }))).unwrap();
    assert_eq!(desk.ask(&root(), take(back, 1, true)).unwrap_err().code(), "E_JOB_STATE");
    desk.ask(&root(), tell(back, 1, None)).unwrap();
    assert_eq!(desk.job(back).idle, None);
    for id in [back, never] {
        desk.ask(&root(), tell(id, 1, Some(told))).unwrap();
        assert_eq!(desk.job(id).idle, Some(told));
        desk.ask(&root(), take(id, 1, true)).unwrap();
        desk.end(id, 0, EndCause::Stopped);
    }
    let held = Reason::GpusIdle { gpus: 2, after: Seconds(2_700) };
    assert_eq!(desk.job(back).state, JobState::Pending);
    assert_eq!(desk.job(back).hold, Some(Hold::System(held)));
    assert_eq!(desk.job(never).state, JobState::Cancelled);
    assert_eq!(desk.job(never).message, "its 2 GPUs did nothing for 45 minutes");
    // Its owner looked at it; what was told is forgotten when it runs again.
    desk.ask(&user(1000), Command::Release { jobs: one(back) }).unwrap();
    desk.start(&[back]);
    assert_eq!((desk.job(back).attempt, desk.job(back).idle), (2, None));
    // An end of its own is an end, and no word of it remains.
    desk.ask(&root(), tell(back, 2, Some(told))).unwrap();
    desk.end(back, 0, EndCause::Exited);
    assert_eq!((desk.job(back).state, desk.job(back).idle), (JobState::Completed, None));
}
