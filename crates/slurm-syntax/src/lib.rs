//! The text Slurm users and tools write: scripts, durations, host lists, GRES.
