#!/bin/bash
#SBATCH --job-name=evaluate
#SBATCH --cpus-per-task=1
#SBATCH --mem=64M
#SBATCH --time=2
#SBATCH --output=evaluate.log
exec python3 evaluate.py
