#!/bin/bash
# Ten tasks, at most three at a time; each reads its own index.
#SBATCH --job-name=array
#SBATCH --array=0-9%3
#SBATCH --mem=64M
#SBATCH --time=1
#SBATCH --output=array-%A_%a.log
echo "task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT in array $SLURM_ARRAY_JOB_ID"
