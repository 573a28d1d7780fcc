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

NODES = QUEUED = 10_000
ROOM = 6000
"""Jobs that the cap has room for."""
SIMPLE_S = 60.0
"""How long Flux's own scheduler is watched; it would take minutes for all."""
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


@cache
def ours() -> tuple[np.ndarray[Any, Any], dict[str, list[float]]]:
    """When jobs started, and how long answers took from the first start to the last, by question."""
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
            wait_for("the starts", lambda: lab.stats()["used_w"] == ROOM * NET_W, 300.0, 1.0)
            time.sleep(SETTLE_S)
            client.communicate(b"\n")
        said = out.read_text().splitlines()[1:]
        times = started_s(lab)
    found: dict[str, list[float]] = {}
    for topic, begin_s, took_s in map(json.loads, said):
        if times[0] <= begin_s <= times[-1]:
            found.setdefault(topic, []).append(took_s)
    return times, found


@benchmark("Flux: starts a second over sched-simple's, 10,000 queued on 10,000 nodes", unit="ratio", at_least=5.0)
def starts() -> Measured:
    """Both in this run, one after the other."""
    times, _ = ours()
    with waiting() as lab:
        lab.run("module", "load", "sched-simple")
        time.sleep(SIMPLE_S)
        simple = rate(started_s(lab))
    return Measured(rate(times) / simple, detail={"starts_s": rate(times), "sched_simple_s": simple})


@benchmark("Flux: answers during passes, 10,000 queued on 10,000 nodes, p99", unit="ms", at_most=100.0)
def answers() -> Measured:
    """The worst of the questions."""
    _, found = ours()
    detail = {
        topic: {
            "answers": len(took), "median_ms": 1e3 * float(np.median(took)),
            "p99_ms": 1e3 * float(np.percentile(took, 99)), "most_ms": 1e3 * max(took),
        }
        for topic, took in found.items()
    }  # fmt: skip
    return Measured(max(one["p99_ms"] for one in detail.values()), detail=detail)
