//! What a waiting job is told about the resource that it lacks, and what is suggested, on the
//! practice cluster of four nodes with 64 CPUs, 512 GiB and 8 GPUs each.

use muster_model::{JobId, Reason};
use muster_planner::Explanation;
use muster_test_kit::Lab;

fn cluster(running: &[&str]) -> Lab {
    let mut lab = Lab::new("node n[1-4] cpus=64 gpus=8xa100 mem=512G");
    for line in running {
        lab.submit(line);
        lab.round();
    }
    lab
}

fn explain(lab: &mut Lab, line: &str) -> Explanation {
    let job = lab.submit(line);
    lab.explain(job)
}

fn told(found: &Explanation) -> String {
    found.reasons[0].to_string()
}

fn options(found: &Explanation) -> Vec<String> {
    found.suggestions.iter().map(|s| s.change.option()).collect()
}

const HALF: [&str; 2] = [
    "a nodelist=n1 gpus-per-node=8 mem=1G time=60",
    "b nodelist=n2 gpus-per-node=8 mem=1G time=60",
];

#[test]
fn only_nodes_that_the_request_may_use_count_as_free() {
    let mut lab = cluster(&HALF);
    let found = explain(&mut lab, "c nodelist=n1 nodes=1 gpus=2 mem=1G time=10");
    assert_eq!(told(&found), "needs 2 gpus on one node; at most 0 are free (held by 1)");
    assert_eq!(options(&found), ["--nodelist="]);
    // A list that is shorter than the job is wide does not bar other nodes; the named one is short.
    let found =
        explain(&mut cluster(&HALF), "d nodelist=n1 nodes=2 gpus-per-node=2 mem=1G time=10");
    assert_eq!(told(&found), "needs 2 gpus on one node; at most 0 are free (held by 1)");
    let found = explain(&mut cluster(&HALF), "e exclude=n[3-4] nodes=1 gpus=2 mem=1G time=10");
    assert_eq!(told(&found), "needs 2 gpus on one node; at most 0 are free (held by 1, 2)");
}

#[test]
fn many_tasks_need_a_total() {
    let mut lab = cluster(&HALF);
    let found = explain(&mut lab, "c tasks=256 mem=1G time=10");
    assert_eq!(told(&found), "needs 256 cpus in total; 254 are free (held by 1, 2)");
}

#[test]
fn nodes_are_not_short_where_memory_is() {
    let mut lab = cluster(&[
        "a nodelist=n1 cpus=1 mem=8G time=60",
        "b nodelist=n2 cpus=1 mem=16G time=50",
        "c nodelist=n3 cpus=1 mem=100G time=60",
    ]);
    let found = explain(&mut lab, "d nodes=3 tasks=180 mem-per-cpu=8G time=10");
    // 1500 of 1536 GiB are needed; 1512 are free on the best three, so tasks lie unevenly.
    assert!(found.reasons[0] == Reason::NotPlannedYet, "{found:?}");
    let found = explain(&mut lab, "e nodes=3 tasks=192 mem-per-cpu=8G time=10");
    assert!(told(&found).starts_with("needs 1536G of memory on 3 nodes; at most"), "{found:?}");
    assert!(told(&found).ends_with("free on so many (held by 2, 1, 3)"), "{found:?}");
}

#[test]
fn holders_hold_what_is_short() {
    let mut lab = cluster(&[HALF[0], "small nodelist=n3 cpus=1 mem=1G time=5"]);
    let found = explain(&mut lab, "c nodes=4 gpus-per-node=8 mem=1G time=10");
    assert_eq!(
        told(&found),
        "needs 32 gpus on 4 nodes; at most 24 are free on so many (held by 1)"
    );
    assert_eq!(options(&found), ["--nodes=3"]);
}

#[test]
fn all_holders_are_named_where_any_would_do() {
    let full = ["gpus-per-node=8 mem=100M time=5"; 4];
    let lines: Vec<String> = full.iter().map(|words| format!("j {words}")).collect();
    let mut lab = cluster(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let found = explain(&mut lab, "j gpus-per-node=8 mem=100M time=5");
    let Reason::Resources { held_by, .. } = &found.reasons[0] else { panic!("{found:?}") };
    assert_eq!(*held_by, [JobId(1), JobId(2), JobId(3), JobId(4)]);
    assert_eq!(told(&found), "needs 8 gpus on one node; at most 0 are free (held by 1, 2, 3, 4)");
    assert!(found.suggestions.is_empty());
}

#[test]
fn the_smallest_change_is_found() {
    let mut lab = cluster(&HALF);
    let found = explain(&mut lab, "c gpus=24 mem=1G time=10");
    assert_eq!(told(&found), "needs 24 gpus in total; 16 are free (held by 1, 2)");
    assert_eq!(options(&found), ["--gpus=16"]);
}
