//! Named points at which a test lets a process die.

/// Aborts the process when `MUSTER_FAILPOINT` names this point (names joined by commas).
///
/// Compiled in only in debug builds and with the feature `failpoints`.
#[inline]
pub(crate) fn failpoint(name: &str) {
    #[cfg(any(debug_assertions, feature = "failpoints"))]
    {
        use std::sync::OnceLock;
        static NAMES: OnceLock<String> = OnceLock::new();
        let names = NAMES.get_or_init(|| std::env::var("MUSTER_FAILPOINT").unwrap_or_default());
        if names.split(',').any(|n| n == name) {
            std::process::abort();
        }
    }
    #[cfg(not(any(debug_assertions, feature = "failpoints")))]
    {
        let _ = name;
    }
}
