#!/bin/bash
# No practice machine has so many GPUs on one node.
#SBATCH --gpus-per-node=4096
echo never runs
