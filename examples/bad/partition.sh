#!/bin/bash
# No such partition.
#SBATCH --partition=gpuu
echo never runs
