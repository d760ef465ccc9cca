#!/bin/bash
# Saved by an editor with DOS line ends.
#SBATCH --time=10
echo never runs
