#!/bin/bash
#SBATCH --job-name=deploy
#SBATCH --cpus-per-task=1
#SBATCH --gpus=1
#SBATCH --mem=64M
#SBATCH --time=1:00:00            # a service: it runs until it is cancelled
#SBATCH --output=deploy.log
exec python3 serve.py
