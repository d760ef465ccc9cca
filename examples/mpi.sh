#!/bin/bash
# Two ranks on each of two nodes; mpirun takes the hosts and slots from the allocation.
#SBATCH --job-name=mpi
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --mem=256M
#SBATCH --time=2
#SBATCH --output=mpi-%j.log

if ! command -v mpirun >/dev/null; then
    echo "mpirun is not installed: apt-get install openmpi-bin" >&2
    exit 127
fi
root=()
[ "$(id -u)" = 0 ] && root=(--allow-run-as-root)
exec mpirun "${root[@]}" bash -c \
    'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on ${SLURMD_NODENAME:-$(hostname)}"'
