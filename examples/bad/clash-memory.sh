#!/bin/bash
# Memory by node and by CPU exclude one another.
#SBATCH --mem=4G
#SBATCH --mem-per-cpu=1G
echo never runs
