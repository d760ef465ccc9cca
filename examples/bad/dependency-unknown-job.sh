#!/bin/bash
# Whether a job that never was ended well cannot be known.
#SBATCH --dependency=afterok:999999
echo never runs
