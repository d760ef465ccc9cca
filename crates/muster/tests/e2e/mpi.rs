//! Real Open MPI in an allocation: its ranks run where muster placed them, and reach each other.

use crate::place::{Place, said};
use std::process::Command;

/// Adds the ranks up over all of them.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) {
    int rank, size, sum = 0;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("%d %s %d/%d\n", rank, getenv("SLURMD_NODENAME"), sum, size);
    MPI_Finalize();
    return 0;
}
"#;

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success())
}

/// Whether a program that includes `mpi.h` compiles: Debian has `mpicc` in one package and the
/// headers in another.
fn compiles() -> bool {
    Command::new("mpicc")
        .args(["-fsyntax-only", "-include", "mpi.h", "-x", "c", "/dev/null"])
        .output()
        .is_ok_and(|o| o.status.success())
}

/// Runs `mpirun PROGRAM` on two nodes with two tasks each; gives the lines in order.
fn ranks(place: &Place, program: &str) -> Vec<String> {
    let _daemon = place.start();
    let links = place.muster(&["slurm-links"]);
    assert!(links.status.success(), "{}", said(&links));
    let script = format!(
        "#!/bin/sh\n#SBATCH -N2 --ntasks-per-node=2 -o ranks.out -e errors.out\n\
         export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\nmpirun {program}\n"
    );
    std::fs::write(place.path("job.sh"), script).unwrap();
    let done = place.slurm("sbatch", &["--wait", "job.sh"]);
    let errors = std::fs::read_to_string(place.path("errors.out")).unwrap_or_default();
    assert!(done.status.success(), "{}\n{errors}", said(&done));
    let text = std::fs::read_to_string(place.path("ranks.out")).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn mpirun_starts_ranks_where_the_job_is() {
    if !has("mpirun") {
        println!("skipped: no mpirun (Debian: openmpi-bin)");
        return;
    }
    let place = Place::new();
    let line = "sh -c 'echo $OMPI_COMM_WORLD_RANK $SLURMD_NODENAME $OMPI_COMM_WORLD_SIZE'";
    assert_eq!(ranks(&place, line), ["0 node1 4", "1 node1 4", "2 node2 4", "3 node2 4"]);
}

#[test]
fn ranks_on_several_nodes_reach_each_other() {
    if !has("mpirun") || !compiles() {
        println!("skipped: no mpicc with its headers (Debian: libopenmpi-dev and a C compiler)");
        return;
    }
    let place = Place::new();
    std::fs::write(place.path("sum.c"), PROGRAM).unwrap();
    let built = place.command("mpicc").args(["sum.c", "-o", "sum"]).output().unwrap();
    assert!(built.status.success(), "{}", said(&built));
    assert_eq!(
        ranks(&place, "./sum"),
        ["0 node1 6/4", "1 node1 6/4", "2 node2 6/4", "3 node2 6/4"]
    );
}
