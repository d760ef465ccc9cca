#!/bin/bash
# No such day.
#SBATCH --begin=2026-02-30
echo never runs
