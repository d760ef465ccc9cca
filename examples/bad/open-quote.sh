#!/bin/bash
# The quote is never closed.
#SBATCH --job-name="open
echo never runs
