# The first line must be #! and an interpreter.
#SBATCH --time=10
echo never runs
