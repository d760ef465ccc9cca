#!/bin/bash
# GPUs per task without a number of tasks.
#SBATCH --nodes=2
#SBATCH --gpus-per-task=1
echo never runs
