#!/bin/bash
# There is no such kind of dependency; aftergood is near afterok.
#SBATCH --dependency=aftergood:20
echo never runs
