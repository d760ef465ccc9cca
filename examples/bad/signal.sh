#!/bin/bash
# No such signal.
#SBATCH --signal=B:SIGFOO@60
echo never runs
