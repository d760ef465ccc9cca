#!/bin/bash
# No fractions of a unit: 1536M is what was meant.
#SBATCH --mem=1.5G
echo never runs
