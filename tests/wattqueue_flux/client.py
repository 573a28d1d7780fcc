"""What asks a Flux beside the adversary, run by ``flux python`` inside an instance.

``stream SEED`` submits short jobs one after the other until its input ends, and prints each id. ``release`` lets held
jobs go, and cancels those of the name "wide". ``ledger`` prints what Flux recorded of all jobs, one line of JSON each:
the events come from the job manager's journal, which has every job of the instance whatever its store has taken.
"""

from __future__ import annotations

import json
import random
import select
import sys
from contextlib import suppress
from typing import Any

import flux
import flux.job
from flux.job.journal import JournalConsumer

PAUSE_S = 0.4
"""Mean time between two jobs of the stream."""
FEW_S, LONG_S = 10.0, 600.0
"""How long one answer, and the whole journal, may take."""


def write(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def plain(number: int) -> str:
    """Return a job's id in plain letters."""
    return str(flux.job.JobID(number).f58plain)


def stream(handle: flux.Flux, seed: int) -> None:
    """Submit jobs; what Flux refuses (a full store) is no job."""
    draw = random.Random(seed)
    while not select.select([sys.stdin], [], [], draw.expovariate(1.0 / PAUSE_S))[0]:
        nodes = draw.choice([1, 1, 1, 2])
        spec = flux.job.JobspecV1.from_command(["true"], num_nodes=nodes, num_tasks=nodes)
        spec.duration = draw.choice([0, 20, 60])
        spec.setattr("system.exec.test.run_duration", f"{draw.choice([0.05, 0.3, 1.0])}s")
        with suppress(OSError):
            write(plain(flux.job.submit(handle, spec.dumps())))


def release(handle: flux.Flux) -> None:
    """Let all jobs end that would wait for ever."""
    for job in flux.job.JobList(handle, max_entries=1_000_000, filters=["pending"]).jobs():
        with suppress(OSError):  # it has ended
            if job.name == "wide":
                flux.job.cancel(handle, job.id)
            elif job.urgency == 0:
                handle.rpc("job-manager.urgency", {"id": job.id, "urgency": 16}).get()


def stored(handle: flux.Flux, number: int) -> list[str] | str:
    """Return the names of a job's events as the store has them, else why they cannot be read."""
    future = handle.rpc("job-info.lookup", {"id": number, "keys": ["eventlog"], "flags": 0})
    try:
        future.wait_for(FEW_S)
        found = future.get()["eventlog"]
    except OSError as error:
        return str(error)
    return [json.loads(line)["name"] for line in found.splitlines()]


def ledger(handle: flux.Flux) -> None:
    """Print job, events (name, time) in order, the watts of its ``alloc`` events, and what the store has."""
    journal, events = JournalConsumer(handle, full=True, include_sentinel=True).start(), dict[int, list[Any]]()
    while not (event := journal.poll(LONG_S)).is_empty():
        events.setdefault(int(event.jobid), []).append(event)
    for number, found in events.items():
        watts = [one["context"]["annotations"]["wattqueue"]["watts"] for one in found if one["name"] == "alloc"]
        times = [[one["name"], one["timestamp"]] for one in found]
        write(json.dumps([plain(number), times, watts, stored(handle, number)]))


if __name__ == "__main__":
    commands: dict[str, Any] = {"stream": stream, "release": release, "ledger": ledger}
    commands[sys.argv[1]](flux.Flux(), *map(int, sys.argv[2:]))
