#!/bin/bash
# Counts to 120 and loses nothing: a minute before the limit it gets USR1, saves, and puts
# itself back into the queue.
#SBATCH --job-name=checkpoint
#SBATCH --mem=64M
#SBATCH --time=2
#SBATCH --signal=B:USR1@60        # to the batch shell, 60 seconds before the limit
#SBATCH --requeue
#SBATCH --open-mode=append        # one log over all runs
#SBATCH --output=checkpoint-%j.log

state=checkpoint-$SLURM_JOB_ID.txt
count=$(cat "$state" 2>/dev/null || echo 0)
save() {
    echo "$count" >"$state.draft" && mv "$state.draft" "$state"
    echo "saved at $count, back into the queue"
    scontrol requeue "$SLURM_JOB_ID"
    exit 0
}
trap save USR1

echo "run $((${SLURM_RESTART_COUNT:-0} + 1)) starts at $count"
while ((count < 120)); do
    sleep 1 &
    wait $!                       # a trap runs at once during wait, not during sleep
    count=$((count + 1))
done
echo "reached $count"
rm -f "$state"
