#!/bin/bash
#SBATCH --job-name=make
#SBATCH --cpus-per-task=4
#SBATCH --mem=1G
#SBATCH --time=10
#SBATCH --output=make.log
exec python3 make.py
