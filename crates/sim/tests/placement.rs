//! Filling a cluster: small lists with right answers, and the study's figures on its own lists.
//!
//! The figures are those of the published results of FGD's simulator (Weng et al., USENIX ATC 2023),
//! for the nodes with GPUs of the openb trace. The lists are no part of this repository; without them
//! the test says so and passes.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the lists are the test's data

use muster_sim::placement::{Placing, fill};
use muster_sim::trace::{OpenbNode, OpenbPod, openb_nodes, openb_pods, unpacked};
use std::path::PathBuf;

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\n\
    a,32000,65536,2,T4\n\
    b,8000,65536,2,V100\n\
    c,64000,65536,0,\n";

fn pods(lines: &str) -> Vec<OpenbPod> {
    let title = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n";
    openb_pods(format!("{title}{lines}").as_bytes()).unwrap()
}

fn nodes() -> Vec<OpenbNode> {
    openb_nodes(NODES.as_bytes()).unwrap()
}

#[test]
fn lists_are_read_and_faults_have_a_place() {
    assert_eq!(nodes()[1].model, "V100");
    let both = pods("p,4000,1,1,460,T4|V100\nq,4000,1,0,1000,\n");
    assert_eq!((both[0].models.len(), both[0].gpu_milli, both[1].gpu_milli), (2, 460, 0));
    let wrong = openb_nodes("sn,cpu_milli,memory_mib,gpu\nn,4,many,1\n".as_bytes()).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "line 2, field 3 (memory_mib): expected a whole number, at least 0, found many"
    );
    let wrong = openb_pods("name,cpu_milli\n".as_bytes()).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "line 1: expected the titles of the columns, found none called memory_mib"
    );
    assert_eq!(openb_pods("".as_bytes()).unwrap_err().code(), "E_TRACE_LINE");
}

/// The work without GPUs could go beside GPUs, and small jobs beside those that need many CPUs; all
/// GPUs are given out only where neither does.
#[test]
fn work_without_gpus_leaves_the_cpus_beside_gpus() {
    let pods = pods(
        "c,28000,1,0,0,\nc,28000,1,0,0,\ng,4000,1,1,1000,\ng,4000,1,1,1000,\n\
         g,16000,1,1,1000,T4\ng,16000,1,1,1000,T4\n",
    );
    for seed in 0..20 {
        let filled = fill(&nodes(), &pods, Placing::Muster, 1000, seed).unwrap();
        assert!((filled.at_the_end - 100.0).abs() < 1e-9, "{seed}");
    }
}

#[test]
fn parts_that_make_a_whole_lie_together() {
    let nodes = openb_nodes("sn,cpu_milli,memory_mib,gpu,model\na,64000,9,2,T4\n".as_bytes());
    let pods = pods("p,1,1,1,700,\np,1,1,1,700,\nq,1,1,1,300,\nq,1,1,1,300,\n");
    for placing in [Placing::Fgd, Placing::BestFit, Placing::Muster] {
        // Whoever comes last, the four fit on two GPUs unless both small ones lie on one.
        let filled = fill(nodes.as_ref().unwrap(), &pods, placing, 1000, 3).unwrap();
        assert_eq!((filled.pods, filled.refused, filled.at_the_end), (4, 0, 100.0), "{placing}");
    }
}

#[test]
fn a_seed_decides_everything() {
    let pods = pods("p,4000,1,1,460,\nq,8000,1,1,1000,T4\nr,2000,1,0,0,\n");
    let kinds = [Placing::Random, Placing::GpuPacking, Placing::Muster, Placing::MusterSpread];
    for placing in kinds {
        let run = |seed| fill(&nodes(), &pods, placing, 1300, seed).unwrap();
        assert_eq!(run(7), run(7));
    }
}

fn list(name: &str) -> Option<PathBuf> {
    muster_test_kit::trace(&format!("fgd/{name}"))
}

/// On two nodes alike the second of two jobs goes beside the first or to the other node.
#[test]
fn nodes_are_filled_or_shared_out() {
    let nodes = openb_nodes(
        "sn,cpu_milli,memory_mib,gpu,model\na,64000,9,2,T4\nb,64000,9,2,T4\n".as_bytes(),
    );
    // What needs all of a node comes last and fits only where the others lie together.
    let both = pods("p,1000,1,1,1000,\np,1000,1,1,1000,\n");
    let wide = pods("q,1000,1,2,1000,\n");
    let refused = |placing, seed| {
        let mut all = both.clone();
        all.extend(wide.clone());
        fill(nodes.as_ref().unwrap(), &all, placing, 1000, seed).unwrap().refused
    };
    let sum = |placing| (0..20).map(|seed| refused(placing, seed)).sum::<u32>();
    assert_eq!(sum(Placing::MusterPack), 0);
    assert!(sum(Placing::MusterSpread) > 0);
}

/// One seed of the quick policies; the mean of ten is in the documentation, by `muster sim placement`.
/// The published means differ from single seeds by up to 1.2.
#[test]
fn the_studys_figures_on_its_own_lists() {
    let (Some(nodes), Some(pods)) =
        (list("openb_node_list_gpu_node.csv.gz"), list("openb_pod_list_default.csv.gz"))
    else {
        return;
    };
    let open = |path| unpacked(std::fs::File::open(path).unwrap()).unwrap();
    let (nodes, pods) = (openb_nodes(open(nodes)).unwrap(), openb_pods(open(pods)).unwrap());
    let gpus: u32 = nodes.iter().map(|node| node.gpus).sum();
    assert_eq!((nodes.len(), gpus, pods.len()), (1213, 6212, 8152));
    let mut last = 0.0;
    for (placing, published) in [(Placing::Random, 86.30), (Placing::BestFit, 92.86)] {
        let found = fill(&nodes, &pods, placing, 1300, 1).unwrap().at_full_load;
        assert!((found - published).abs() < 1.2, "{placing}: {found} is not {published}");
        assert!(found > last, "{placing}: {found} is not above {last}");
        last = found;
    }
}
