//! Lists of nodes and pods with times, replayed: waits, and what becomes of GPUs.

#![allow(clippy::unwrap_used)]

use muster_model::{JobId, State};
use muster_sim::trace::{TraceError, openb_nodes, openb_runs};
use muster_sim::twin::{Finished, GpuUse, OwnLog, PolicyName, cluster_log};
use std::collections::BTreeMap;

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,65536,2,T4\n";
const TITLE: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,\
                     creation_time,deletion_time,scheduled_time\n";

/// When each pod that ran started, by its place in the list, and what became of the GPUs.
fn replay(pods: &str, faster: f64) -> (BTreeMap<i64, i64>, GpuUse) {
    let nodes = openb_nodes(NODES.as_bytes()).unwrap();
    let runs = openb_runs(format!("{TITLE}{pods}").as_bytes()).unwrap();
    let log = cluster_log(&nodes, &runs.runs, PolicyName::Muster.policy(), faster);
    let mut starts = BTreeMap::new();
    let note = |done: &Finished| {
        starts.insert(done.job.number, done.start);
        Ok(())
    };
    let mut replay = OwnLog::new(State::default(), log.runs, None, note);
    for event in log.events {
        replay.add(event).unwrap();
    }
    let ended = replay.finish().unwrap();
    assert!(ended.state.jobs.get(&JobId(1)).unwrap().state.is_over());
    assert_eq!((ended.counts.unfit, ended.counts.endless), (0, 0));
    (starts, ended.gpus.unwrap())
}

fn is(value: f64, wanted: f64) -> bool {
    (value - wanted).abs() < 1e-9
}

#[test]
fn pods_wait_for_gpus_and_what_is_idle_is_told_by_its_use() {
    // All GPUs for ten seconds; then one of them with all CPUs, which makes the other one useless.
    let pods = "a,1000,1024,2,1000,,LS,Succeeded,0,10,0\n\
                b,8000,1024,1,1000,,LS,Succeeded,2,12,2\n\
                c,1000,1024,0,0,,LS,Succeeded,20,1020,20\n";
    let (starts, gpus) = replay(pods, 1.0);
    assert_eq!(starts, BTreeMap::from([(1, 0), (2, 10), (3, 20)]));
    assert!(is(gpus.gpus, 2.0), "{gpus:?}");
    assert!(is(gpus.given, 0.75) && is(gpus.fragmented, 0.25) && is(gpus.usable, 0.0), "{gpus:?}");
}

#[test]
fn a_part_that_is_too_small_for_some_is_lost_to_these_alone() {
    // 0.6 of a GPU for ten seconds: 0.4 of it is too small for pods like this one. Beside it a pod that
    // comes then asks for 0.3, so what is idle is lost to half of the kinds.
    let pods = "a,1000,1024,1,600,,LS,Succeeded,0,10,0\n\
                b,1000,1024,1,300,,LS,Succeeded,10,10,10\n";
    let (_, gpus) = replay(pods, 1.0);
    assert!(is(gpus.given, 0.3), "{gpus:?}");
    assert!(is(gpus.fragmented, 0.5 * 0.4 / 2.0), "{gpus:?}");
    assert!(is(gpus.usable, 1.0 - 0.3 - 0.1), "{gpus:?}");
}

#[test]
fn pods_come_as_much_faster_as_is_asked_for() {
    let pods = "a,1000,1024,2,1000,,LS,Succeeded,0,10,0\n\
                b,1000,1024,2,1000,T4,LS,Succeeded,100,110,100\n";
    assert_eq!(replay(pods, 1.0).0[&2], 100);
    assert_eq!(replay(pods, 10.0).0[&2], 10);
    assert_eq!(replay(pods, 100.0).0[&2], 10);
}

#[test]
fn a_list_says_what_is_wrong_with_it() {
    let read = |pods: &str| openb_runs(format!("{TITLE}{pods}").as_bytes());
    let left_out = read("a,1,1,0,0,,LS,Pending,5,9,\nb,1,1,0,0,,LS,Running,5,9,6\n").unwrap();
    assert_eq!((left_out.never_ran, left_out.runs.len()), (1, 1));
    assert_eq!((left_out.runs[0].submit, left_out.runs[0].run), (5, 3));
    let TraceError::Line { line, .. } = read("a,1,1,0,0,,LS,Running,5,4,9\n").unwrap_err() else {
        panic!("no line is named")
    };
    assert_eq!(line, 2);
    assert!(matches!(read("a,1,1,0,0,,LS,Pending,5,9,\n"), Err(TraceError::Empty)));
    let untimed = openb_runs("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,0,0\n".as_bytes());
    assert!(untimed.unwrap_err().to_string().contains("creation_time"));
}
