//! Where a pod may be, by the real filters of kube-scheduler and by muster: the same for thousands of
//! made-up pods on made-up clusters.
//!
//! `MUSTER_TEST_K8S_FILTERS` names the program of the real filters; `cargo xtask test --only k8s`
//! builds it and says so. Each walk begins with an empty cluster and asks about one pod after the
//! other: most are bound then, some to a node that would not have had them, and pods, nodes and
//! claims come and go between. `MUSTER_TEST_K8S_SEED` walks one walk again.
//!
//! muster answers three times: the planner says of each node what keeps the pod from it, its plan
//! starts the pod on one of these nodes, and plan-check, which shares no code with it, allows the
//! start on just these.

mod count;
mod dice;
mod filters;
mod nodes;
mod pods;
mod walk;

use count::Count;
use filters::Filters;
use std::path::PathBuf;
use walk::Walk;

/// Walks, and pods in each.
const WALKS: u64 = 100;
const PODS: usize = 40;

/// Walks of a long run.
const LONG: u64 = 2500;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn a_pod_may_be_where_the_real_filters_let_it() {
    let Some(program) = std::env::var_os("MUSTER_TEST_K8S_FILTERS").map(PathBuf::from) else {
        eprintln!(
            "skipped: MUSTER_TEST_K8S_FILTERS names no program (cargo xtask test --only k8s)"
        );
        return;
    };
    let mut filters = Filters::start(&program);
    let mut count = Count::default();
    let again = number("MUSTER_TEST_K8S_SEED");
    let long = std::env::var_os("MUSTER_TEST_LONG").is_some();
    let first = again.or_else(|| number("PROPTEST_RNG_SEED")).unwrap_or(1);
    let walks = if again.is_some() {
        1
    } else if long {
        LONG
    } else {
        WALKS
    };
    println!("walks with MUSTER_TEST_K8S_SEED={first} and the {} after it", walks - 1);
    for seed in (0..walks).map(|at| first.wrapping_add(at)) {
        let mut walk = Walk::new(seed);
        for _ in 0..PODS {
            walk.step(&mut filters, &mut count);
        }
    }
    println!("{count}");
    let differences = count.differences();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    if again.is_none() {
        count.check();
    }
}
