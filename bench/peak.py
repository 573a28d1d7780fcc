"""``python -m bench.peak N``: bytes a job that a run of N jobs takes at its peak, beyond the job table."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from bench.cases.engine import CAP_SHARE, IDLE_W, MAX_W, NODES, capped, simulation, workload
from wattqueue.model.machine import plain_machine
from wattqueue.policy.policy import load_policy


def status_bytes(name: str) -> int:
    """A figure of Linux's ``/proc/self/status``."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


def main() -> None:
    """Kernels are loaded, and the table is built, before the first look."""
    n = int(sys.argv[1])
    machine = plain_machine(NODES, IDLE_W, MAX_W)
    jobs, policy, cap = workload(n, NODES, 1.0), load_policy("easy", estimator="oracle-max"), capped(machine, CAP_SHARE)
    simulation(jobs.take(np.arange(50)), machine, policy, cap).go()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak counts from here
    before = status_bytes("VmRSS")
    whole = simulation(jobs, machine, policy, cap)
    whole.go()
    whole.result()
    print((status_bytes("VmHWM") - before) / n)


if __name__ == "__main__":
    main()
