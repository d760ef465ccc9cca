#!/bin/bash
#SBATCH --job-name=packed
#SBATCH --cpus-per-task=4
#SBATCH --mem=1G
#SBATCH --time=10
#SBATCH --output=packed.log
exec python3 load.py --packed
