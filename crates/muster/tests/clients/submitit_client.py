"""submitit runs functions on muster: single, array, several tasks, failing, cancelled, requeued."""

import os
import pathlib
import subprocess
import sys
import time

import submitit

LIMIT_S = 60


def add(a, b):
    return a + b


def rank():
    environment = submitit.JobEnvironment()
    return environment.global_rank, environment.num_tasks, os.environ.get("CUDA_VISIBLE_DEVICES")


def fail():
    raise ValueError("this one is meant to fail")


class Resumes:
    """Is interrupted before its time limit, put back in the queue, and goes on from its checkpoint."""

    def __init__(self, attempts=0):
        self.attempts = attempts

    def __call__(self, marker):
        pathlib.Path(marker).touch()
        if self.attempts == 0:
            time.sleep(LIMIT_S)
        return self.attempts

    def checkpoint(self, *args, **kwargs):
        return submitit.helpers.DelayedSubmission(Resumes(self.attempts + 1), *args, **kwargs)


def until(what, ask):
    """Asks until the answer is yes, with a deadline."""
    end = time.monotonic() + LIMIT_S
    while not ask():
        assert time.monotonic() < end, f"waited too long until {what}"
        time.sleep(0.1)


def state(job_id):
    words = ["sacct", "-X", "-n", "-P", "-o", "state", "-j", job_id]
    return subprocess.check_output(words, text=True).strip()


executor = submitit.AutoExecutor(folder="submitit/%j", cluster="slurm", slurm_max_num_timeout=3)
assert executor.cluster == "slurm"
executor.update_parameters(timeout_min=5, cpus_per_task=1, mem_gb=1)

job = executor.submit(add, 5, 7)
assert job.result() == 12
print("one function:", job.job_id)

jobs = executor.map_array(add, [1, 2, 3], [10, 20, 30])
assert [job.result() for job in jobs] == [11, 22, 33]
assert jobs[2].job_id == jobs[0].job_id.split("_")[0] + "_2"
print("an array:", [job.job_id for job in jobs])

executor.update_parameters(tasks_per_node=2, gpus_per_node=2)
ranks = executor.submit(rank).results()
assert [(rank, tasks) for rank, tasks, _ in ranks] == [(0, 2), (1, 2)], ranks
assert all(len(gpus.split(",")) == 2 for _, _, gpus in ranks), ranks
print("two tasks with two GPUs:", ranks)

executor.update_parameters(tasks_per_node=1, gpus_per_node=0)
job = executor.submit(fail)
try:
    job.result()
    sys.exit("a failing function gave a result")
except submitit.core.utils.FailedJobError as error:
    assert "meant to fail" in str(error)
until("the job has failed", lambda: state(job.job_id) == "FAILED")
print("a failure is a failure:", job.job_id)

job = executor.submit(time.sleep, LIMIT_S)
until("the job runs", lambda: state(job.job_id) == "RUNNING")
job.cancel()
until("the job is cancelled", lambda: state(job.job_id).startswith("CANCELLED"))
assert job.watcher.get_state(job.job_id, mode="force").startswith("CANCELLED")
print("a cancelled job:", job.job_id, state(job.job_id))

# The limit is a minute; the signal comes some seconds after the start.
executor.update_parameters(timeout_min=1, slurm_signal_delay_s=57)
job = executor.submit(Resumes(), str(pathlib.Path("started").absolute()))
assert job.result() == 1
restarts = subprocess.check_output(["squeue", "-h", "-t", "all", "-j", job.job_id, "-O", "RestartCnt"], text=True)
assert restarts.strip() == "1", restarts
print("requeued before its limit:", job.job_id)
