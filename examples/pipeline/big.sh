#!/bin/bash
#SBATCH --job-name=big
#SBATCH --nodes=4                 # every GPU of every practice node
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --mem=64M
#SBATCH --time=1
#SBATCH --output=big.log
srun --label bash -c 'echo "$SLURMD_NODENAME has $SLURM_GPUS_ON_NODE GPUs"'
