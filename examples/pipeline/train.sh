#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2                 # both nodes or none: a gang
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=1
#SBATCH --gpus-per-node=8
#SBATCH --mem=256M
#SBATCH --time=5
#SBATCH --requeue                 # train.py goes on from its newest checkpoint
#SBATCH --output=train.log
# Where the processes meet; under muster both are already set.
export MASTER_ADDR=${MASTER_ADDR:-$(hostname)}
export MASTER_PORT=${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 10000))}
exec srun --label python3 train.py
