//! What the tests of several sections do alike.

use crate::Config;

/// What is wrong with a configuration, as messages; nothing where it is right.
pub(crate) fn problems(text: &str) -> Vec<String> {
    let read = Config::parse(text, "m");
    read.map_or_else(|e| e.problems.iter().map(|p| p.message.clone()).collect(), |_| Vec::new())
}
