"""The engine on nodes of GPUs: jobs that ask for GPUs, limits on GPUs as operating points, under a cap."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from bench.harness import Measured, benchmark, digest
from wattqueue.model.fragmentation import fragmented_gpus
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.parts.memory import with_needed_units
from wattqueue.policy.policy import policy_from_row
from wattqueue.sim.engine import simulate

JOBS, NODES, OF_NODE = 1_000_000, 512, 8
GPU = Partition(
    "gpu", NODES, unit="gpu", idle_w=170.0, max_w=860.0, gpus_per_node=OF_NODE, gpu_idle_w=60.0, gpu_max_w=700.0,
    gpu_caps_w=(700.0, 600.0, 500.0, 400.0),
)  # fmt: skip
ROW = {"estimator": "oracle-mean", "backfill": "easy", "frequency": "frequency-window"}
CAP_SHARE, LOAD = 0.55, 0.9
"""Cap as a share of the maxima; load of the GPUs, at which jobs wait under the cap."""
SIZES, SHARES = (1, 2, 4, 8, 16, 32, 64), (0.5, 0.15, 0.13, 0.15, 0.04, 0.02, 0.01)
"""GPUs of a job, and how many jobs ask for so many: most for one, one in fifteen for more than a node."""


def workload(n: int) -> Jobs:
    """Generate jobs of 1 to 64 GPUs, at ``LOAD``; watts are those of a node."""
    rng = np.random.default_rng(1)
    gpus = rng.choice(SIZES, n, p=SHARES)
    nodes = -(-gpus // OF_NODE)
    run = np.round(np.clip(rng.lognormal(6.5, 1.4, n), 30, 86400), 3)
    wall = np.round(np.minimum(run * rng.uniform(1, 6, n), 172800), 3)
    span = float((gpus * run).sum()) / (NODES * OF_NODE * LOAD)
    submit = np.round(np.sort(rng.uniform(0, span, n)), 3)
    own = np.minimum(gpus, OF_NODE)
    power = np.round(OF_NODE * GPU.idle_w + own * rng.uniform(50, 690, n), 3)
    more = {"mean_power_w": power, "origin": "generated", "extra": {"gpus": gpus}}
    return Jobs.build(submit, nodes, run, walltime_s=wall, **more)


@benchmark("EASY with GPU limits under a cap, 1,000,000 jobs on 4,096 GPUs", unit="jobs/s", at_least=100_000)
def gpu_limits() -> Measured:
    """Measure jobs a second of processor time; the first run of a few jobs compiles."""
    machine, policy = Machine("gpus", (GPU,)), policy_from_row("gpus", ROW)
    jobs = with_needed_units(workload(JOBS), machine)
    cap = Cap.constant(CAP_SHARE * (machine.scope_max_w() or 0.0))
    simulate(jobs.take(slice(0, 100)), machine, policy, cap=cap)
    began = time.process_time()
    run = simulate(jobs, machine, policy, cap=cap)
    seconds = time.process_time() - began
    unlimited = replace(machine, partitions=(replace(GPU, gpu_caps_w=()),))
    began = time.process_time()
    simulate(jobs, unlimited, policy, cap=cap)
    detail = {
        "jobs_at_each_limit": np.bincount(run.schedule.option[run.schedule.ran], minlength=4).tolist(),
        "fragmented_gpus_mean": fragmented_gpus(jobs, run.schedule, machine),
        "mean_wait_s": float(np.nanmean(run.schedule.start_s - jobs.submit_s)),
        "over_one_without_limits": seconds / (time.process_time() - began),
    }
    return Measured(JOBS / seconds, digest(run.schedule.start_s), detail)
