//! Slurm's commands over muster: sbatch, srun, squeue, scancel, sinfo, scontrol, sacct.
