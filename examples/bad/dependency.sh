#!/bin/bash
# "," and "?" cannot be mixed.
#SBATCH --dependency=afterok:20,afterok:21?afterany:22
echo never runs
