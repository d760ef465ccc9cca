#!/bin/bash
# A notebook server on a compute node: prints the address to open, and how to reach it from afar.
#SBATCH --job-name=jupyter
#SBATCH --cpus-per-task=2
#SBATCH --mem=2G
#SBATCH --gpus=1
#SBATCH --time=4:00:00
#SBATCH --output=jupyter-%j.log

if ! command -v jupyter >/dev/null; then
    echo "jupyter is not installed: python3 -m pip install jupyterlab" >&2
    exit 127
fi
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
token=$(python3 -c 'import secrets; print(secrets.token_hex(16))')
host=$(hostname)
# The log may be read by others, so the address with its token goes to a file of your own.
address=$HOME/.jupyter-$SLURM_JOB_ID
(umask 077 && echo "http://127.0.0.1:$port/lab?token=$token" >"$address")
echo "server    http://127.0.0.1:$port/lab"
echo "open      the address in $address (cat it: it holds the token)"
echo "from afar ssh -L $port:127.0.0.1:$port $host    (then open the same address)"
echo "stop      scancel $SLURM_JOB_ID"
# The token goes by the environment: other users can read a command line.
export JUPYTER_TOKEN=$token
root=()
[ "$(id -u)" = 0 ] && root=(--allow-root)
exec jupyter lab --no-browser --ip=127.0.0.1 --port="$port" --ServerApp.port_retries=0 "${root[@]}"
