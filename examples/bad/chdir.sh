#!/bin/bash
# A folder that does not exist.
#SBATCH --chdir=/no/such/folder
echo never runs
