#!/bin/bash
# More nodes at least than at most.
#SBATCH --nodes=4-1
echo never runs
