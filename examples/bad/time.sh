#!/bin/bash
# A clock time with a unit: Slurm has no "4h".
#SBATCH --job-name=time
#SBATCH --time=4h
echo never runs
