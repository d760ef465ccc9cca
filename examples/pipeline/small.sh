#!/bin/bash
#SBATCH --job-name=small
#SBATCH --gpus=1
#SBATCH --mem=64M
#SBATCH --time=1                  # short, so it fits in before the big job
#SBATCH --output=small-%j.log
sleep "${1:-2}"
echo "one GPU for a moment: ${CUDA_VISIBLE_DEVICES:-none}"
