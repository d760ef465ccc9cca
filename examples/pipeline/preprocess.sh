#!/bin/bash
#SBATCH --job-name=preprocess
#SBATCH --array=0-3               # one task for each file in data/
#SBATCH --cpus-per-task=1
#SBATCH --mem=64M
#SBATCH --time=2
#SBATCH --output=preprocess-%a.log
exec python3 preprocess.py
