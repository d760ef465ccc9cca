#!/bin/bash
# No such account.
#SBATCH --account=nobody-has-this
echo never runs
