#!/bin/bash
# GPUs by GRES and per node exclude one another.
#SBATCH --gres=gpu:2
#SBATCH --gpus-per-node=2
echo never runs
