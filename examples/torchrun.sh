#!/bin/bash
# One torchrun for each node, one process for each of its GPUs; they meet at the first node.
#SBATCH --job-name=torchrun
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=2
#SBATCH --cpus-per-task=2
#SBATCH --mem=2G
#SBATCH --time=30
#SBATCH --requeue
#SBATCH --output=torchrun-%j.log

if ! command -v torchrun >/dev/null; then
    echo "torchrun is not installed: python3 -m pip install torch" >&2
    exit 127
fi
# MASTER_ADDR and MASTER_PORT are set by muster; under Slurm they are worked out here.
export MASTER_ADDR=${MASTER_ADDR:-$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)}
export MASTER_PORT=${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 10000))}
exec srun --label torchrun \
    --nnodes="$SLURM_JOB_NUM_NODES" \
    --nproc-per-node="$SLURM_GPUS_ON_NODE" \
    --rdzv-backend=c10d \
    --rdzv-id="$SLURM_JOB_ID" \
    --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" \
    "${1:-train.py}"
