#!/bin/bash
# Each node must hold at least one GPU.
#SBATCH --nodes=2
#SBATCH --gpus=1
echo never runs
