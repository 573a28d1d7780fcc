"""WattQueue as the scheduler of a real Flux: starts a second beside Flux's own scheduler, answers during passes.

10,000 jobs wait on 10,000 emulated nodes when a scheduler is loaded. Skipped where there is no Flux.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import Measured, Skip, benchmark
from tests.wattqueue_flux.fluxlab import IDLE_W, NET_W, Lab, instance, missing, wait_for, write_config
from wattqueue.formats.machine.file import read_machine
from wattqueue.model.jobs import Jobs
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate

NODES = QUEUED = 10_000
ROOM = 6000
"""Jobs that the cap has room for."""
SIMPLE_S = 60.0
"""How long Flux's own scheduler is watched; it would take minutes for all."""
FREE, SAME_S = 120, 0.05
"""Jobs of a free run, and how far starts of one decision lie apart."""
SETTLE_S = 3.0
"""From the last decision until Flux has stored it."""
CLIENT = Path(__file__).parents[1] / "peers" / "flux_client.py"


@contextmanager
def waiting() -> Iterator[Lab]:
    """An instance without a scheduler, in which the jobs wait."""
    if reason := missing():
        raise Skip(reason)
    with tempfile.TemporaryDirectory() as name:
        write_config(Path(name), NODES, policy="flux-priority", cap_w=NODES * IDLE_W + ROOM * NET_W)
        with instance(Path(name), emulated=NODES, load=False) as lab:
            lab.run("python", str(CLIENT), "submit", str(QUEUED), timeout_s=300)
            yield lab


def started_s(lab: Lab) -> np.ndarray[Any, Any]:
    """When jobs started."""
    return np.sort([float(job["t_run"]) for job in lab.jobs() if job.get("t_run")])


def rate(times: np.ndarray[Any, Any]) -> float:
    """Starts a second, between the first and the last."""
    return (len(times) - 1) / float(times[-1] - times[0])


def processor_s(pid: int) -> float:
    """Seconds of processor time of a process."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    return sum(map(int, after_name.split()[11:13])) / os.sysconf("SC_CLK_TCK")  # utime and stime (proc(5))


@cache
def ours() -> tuple[np.ndarray[Any, Any], dict[str, list[float]], float]:
    """When jobs started, how long answers took meanwhile by question, and the module's processor time after its load.

    That holds the 10,000 jobs that it is sent, and the answers.
    """
    with waiting() as lab:
        out = lab.folder / "answers"
        command = [lab.flux, "python", str(CLIENT), "ask"]
        environment = {**os.environ, "FLUX_URI": lab.uri}
        with (
            out.open("wb") as file,
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file, env=environment) as client,
        ):
            wait_for("the client", lambda: out.stat().st_size > 0)
            lab.load()
            module = lab.module_pid()
            begin_s = processor_s(module)
            wait_for("the starts", lambda: lab.stats()["used_w"] == ROOM * NET_W, 300.0, 1.0)
            used_s = processor_s(module) - begin_s
            time.sleep(SETTLE_S)
            client.communicate(b"\n")
        said = out.read_text().splitlines()[1:]
        times = started_s(lab)
    found: dict[str, list[float]] = {}
    for topic, begin_s, took_s in map(json.loads, said):
        if times[0] <= begin_s <= times[-1]:
            found.setdefault(topic, []).append(took_s)
    return times, found, used_s


@benchmark("Flux: starts a second over sched-simple's, 10,000 queued on 10,000 nodes", unit="ratio", at_least=5.0)
def starts() -> Measured:
    """Both in this run, one after the other."""
    times, _, used_s = ours()
    with waiting() as lab:
        lab.run("module", "load", "sched-simple")
        time.sleep(SIMPLE_S)
        simple_s, others = processor_s(lab.module_pid("sched-simple")), started_s(lab)
    detail = {
        "starts_s": rate(times), "sched_simple_s": rate(others),
        "processor_ms_a_start": 1e3 * used_s / len(times),
        "sched_simple_processor_ms_a_start": 1e3 * simple_s / len(others),
    }  # fmt: skip
    return Measured(rate(times) / rate(others), detail=detail)


@benchmark("Flux: answers during passes, 10,000 queued on 10,000 nodes, p99", unit="ms", at_most=100.0)
def answers() -> Measured:
    """The worst of the questions."""
    _, found, _ = ours()
    detail = {
        topic: {
            "answers": len(took), "median_ms": 1e3 * float(np.median(took)),
            "p99_ms": 1e3 * float(np.percentile(took, 99)), "most_ms": 1e3 * max(took),
        }
        for topic, took in found.items()
    }  # fmt: skip
    return Measured(max(one["p99_ms"] for one in detail.values()), detail=detail)


@benchmark("Flux: starts of a free run away from the simulator's, 120 jobs on 32 nodes, p90", unit="s")
def free_run() -> Measured:
    """One workload in Flux and in the simulator: EASY under a cap for 20 nodes; all jobs wait at the beginning.

    The detail names the first start, in the simulator's order, that another job of Flux went before.
    """
    if reason := missing():
        raise Skip(reason)
    rng = np.random.default_rng(7)
    nodes, seconds = rng.integers(1, 5, FREE), rng.integers(2, 9, FREE).astype(float)
    limits, cap_w = seconds * rng.integers(1, 4, FREE) + 5.0, 32 * IDLE_W + 20 * NET_W
    with tempfile.TemporaryDirectory() as name:
        write_config(Path(name), 32, policy="easy", cap_w=cap_w)
        machine = read_machine(Path(name) / "machine.toml")
        run = simulate(
            Jobs.build(np.zeros(FREE), nodes, seconds, walltime_s=limits), machine, load_policy("easy"),
            cap=Cap.constant(cap_w),
        )  # fmt: skip
        with instance(Path(name), emulated=32, load=False) as lab:
            rows = json.dumps([*zip(nodes.tolist(), seconds.tolist(), limits.tolist(), strict=True)])
            command = [lab.flux, "python", str(CLIENT), "list"]
            environment = {**os.environ, "FLUX_URI": lab.uri}
            said = subprocess.run(command, input=rows, capture_output=True, text=True, check=True, env=environment)
            lab.load()
            wait_for("the end of all", lambda: lab.states()["INACTIVE"] == FREE, 400.0, 1.0)
            started = {str(job["id"]): float(job["t_run"]) for job in lab.jobs()}
    live_s = np.array([started[number] for number in said.stdout.split()])
    own_s, live_s = run.schedule.start_s, live_s - live_s.min()
    away_s = live_s - own_s
    order = sorted(range(FREE), key=lambda k: (own_s[k], k))
    late = next((k for i, k in enumerate(order) if any(live_s[j] < live_s[k] - SAME_S for j in order[i + 1 :])), None)
    first = None
    if late is not None:
        before = min((k for k in order[order.index(late) + 1 :]), key=lambda k: live_s[k])
        first = {"job": late, "simulated_s": float(own_s[late]), "flux_s": float(live_s[late]), "overtaken_by": before,
                 "its_simulated_s": float(own_s[before]), "its_flux_s": float(live_s[before])}  # fmt: skip
    spread = {f"p{q}_s": float(np.percentile(away_s, q)) for q in (0, 10, 50, 90, 100)}
    detail = {
        **spread,
        "simulated_end_s": float((own_s + seconds).max()),
        "flux_end_s": float((live_s + seconds).max()),
    }
    return Measured(float(np.percentile(np.abs(away_s), 90)), detail={**detail, "first_that_differs": first})
