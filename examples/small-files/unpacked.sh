#!/bin/bash
#SBATCH --job-name=unpacked
#SBATCH --cpus-per-task=4
#SBATCH --mem=1G
#SBATCH --time=10
#SBATCH --output=unpacked.log
exec python3 load.py
