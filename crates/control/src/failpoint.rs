//! Points at which a test ends the process, to see what a kill there leaves behind.
//!
//! Compiled only in debug builds and under the feature `failpoints`. `MUSTER_FAILPOINTS` holds words
//! `NAME=abort[@COUNT]`, joined by commas: the process ends the COUNT-th time (the first, where no
//! count is given) that it comes to the point NAME, without unwinding, as SIGKILL would end it.

/// Names of all points, in the order in which a job passes them.
pub const NAMES: &[&str] = &[
    "command_received",
    "before_commit",
    "after_commit_before_publish",
    "after_publish_before_reply",
    "plan_made",
    "before_order",
    "after_order",
    "observation_received",
    "before_snapshot",
    "after_snapshot",
];

/// Ends the process here where a test asked for it.
#[cfg(any(debug_assertions, feature = "failpoints"))]
pub fn hit(name: &str) {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, OnceLock, PoisonError};
    static LEFT: OnceLock<Mutex<BTreeMap<String, u64>>> = OnceLock::new();
    debug_assert!(NAMES.contains(&name), "{name} is not in the list of points");
    let left = LEFT.get_or_init(|| {
        let text = std::env::var("MUSTER_FAILPOINTS").unwrap_or_default();
        Mutex::new(text.split(',').filter_map(parse).collect())
    });
    let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(count) = left.get_mut(name) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            std::process::abort();
        }
    }
}

#[cfg(any(debug_assertions, feature = "failpoints"))]
fn parse(word: &str) -> Option<(String, u64)> {
    let (name, action) = word.split_once('=')?;
    let (action, count) = action.split_once('@').unwrap_or((action, "1"));
    (action == "abort").then_some(())?;
    Some((name.to_owned(), count.parse().ok()?))
}

/// A point at which a test may end the process.
macro_rules! failpoint {
    ($name:literal) => {
        #[cfg(any(debug_assertions, feature = "failpoints"))]
        $crate::failpoint::hit($name);
    };
}
pub(crate) use failpoint;
