#!/bin/bash
# Submits the pipeline: each step waits for the one before it. Run it in this folder.
set -euo pipefail
preprocess=$(sbatch --parsable preprocess.sh)
train=$(sbatch --parsable --dependency="afterok:$preprocess" train.sh)
evaluate=$(sbatch --parsable --dependency="afterok:$train" evaluate.sh)
deploy=$(sbatch --parsable --dependency="afterok:$evaluate" deploy.sh)
echo "preprocess $preprocess -> train $train -> evaluate $evaluate -> deploy $deploy"
echo "watch it with: squeue; muster why $train"
