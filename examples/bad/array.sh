#!/bin/bash
# A range that runs backwards.
#SBATCH --array=5-1
echo never runs
