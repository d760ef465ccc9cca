#!/bin/bash
# A throttle that is no number must not lift the limit.
#SBATCH --array=1-3%x
echo never runs
