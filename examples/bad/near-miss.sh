#!/bin/bash
# The option is --cpus-per-task.
#SBATCH --cpu-per-task=4
echo never runs
