//! Placement across nodes: ring all-reduce over modelled links for nodes taken at random, by name,
//! and by muster. Pure arithmetic: nothing is timed.

use crate::sh;

/// `cargo xtask bench topology`.
pub(super) fn main() -> Result<(), String> {
    sh::run(&mut sh::cargo(&[
        "run",
        "--quiet",
        "--locked",
        "--package",
        "muster-planner",
        "--example",
        "topology",
    ]))
}
