"""dask-jobqueue starts workers as jobs on muster, adapts their number, and computes on them."""

import subprocess

from dask.distributed import Client
from dask_jobqueue import SLURMCluster

LIMIT_S = 90


def waiting_and_running():
    return subprocess.check_output(["squeue", "-h", "-n", "dask-worker", "-o", "%i %t"], text=True).split("\n")


if __name__ == "__main__":
    cluster = SLURMCluster(
        queue="main",
        account="default",
        cores=1,
        memory="500MB",
        walltime="00:10:00",
        interface="lo",
        log_directory="dask",
        worker_extra_args=["--no-dashboard"],
        scheduler_options={"dashboard_address": None},
    )
    cluster.scale(jobs=2)
    client = Client(cluster)
    client.wait_for_workers(2, timeout=LIMIT_S)
    assert len([line for line in waiting_and_running() if line]) == 2
    squares = client.gather(client.map(lambda x: x * x, range(100)))
    assert sum(squares) == 328350
    print("two workers computed", sum(squares))
    cluster.adapt(minimum_jobs=1, maximum_jobs=2)
    assert client.submit(sum, [1, 2, 3]).result(timeout=LIMIT_S) == 6
    print("one of them still does after adapt")
    client.close()
    cluster.close()
