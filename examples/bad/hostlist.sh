#!/bin/bash
# A range that runs backwards names no host.
#SBATCH --nodelist=node[3-1]
echo never runs
