"""What asks a real Flux, run by ``flux python``: ``submit COUNT`` jobs of one node, ``list`` of jobs, ``ask``.

``list`` reads ``[[nodes, seconds, limit in seconds], ...]`` from its input, and prints the number of each job.

``ask`` prints one line of JSON an answer, ``[question, when it was asked, seconds]``, until its input ends.
"""

from __future__ import annotations

import json
import select
import sys
import time

import flux
import flux.job

PAUSE_S = 0.02


def jobspec(nodes: int = 1, seconds: float = 600.0, limit_s: float = 600.0) -> flux.job.JobspecV1:
    """A job that only lasts."""
    spec = flux.job.JobspecV1.from_command(["true"], num_nodes=nodes, num_tasks=nodes)
    spec.duration = limit_s
    spec.setattr("system.exec.test.run_duration", f"{seconds}s")
    return spec


def submit(handle: flux.Flux, count: int) -> None:
    """Submit jobs, 200 at a time."""
    text = jobspec().dumps()
    for begin in range(0, count, 200):
        asked = [flux.job.submit_async(handle, text, novalidate=True) for _ in range(min(200, count - begin))]
        for future in asked:
            future.get_id()


def submit_list(handle: flux.Flux) -> None:
    """Submit unlike jobs, one after the other."""
    for row in json.load(sys.stdin):
        print(int(flux.job.submit(handle, jobspec(*row).dumps())))


def has_scheduler(handle: flux.Flux) -> bool:
    """Whether a scheduler answers."""
    try:
        handle.rpc("sched_wattqueue.stats-get").get()
    except OSError:
        return False
    return True


def ask(handle: flux.Flux) -> None:
    """Ask one question after the other. ``stats-get`` stands for ``free``, which waits in its line unanswered.

    A cancellation is answered when the job manager notes its end, which its event log says: what Flux takes to store
    and send that log is not in it.
    """
    spec = json.loads(jobspec().dumps())
    last = [job.id for job in flux.job.JobList(handle, max_entries=100_000, filters=["pending"]).jobs()][-500:]
    questions = [
        ("feasibility.check", {"jobspec": spec}),
        ("sched.expiration", {"id": 0, "expiration": 0.0}),
        ("sched_wattqueue.stats-get", None),
    ]
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        if not has_scheduler(handle):
            continue
        for topic, said in questions:
            begin = time.time()
            handle.rpc(topic, said).get()
            print(json.dumps([topic, begin, time.time() - begin]))
        if last:
            job = last.pop()
            flux.job.cancel(handle, job)
            at = {event.name: event.timestamp for event in flux.job.event_watch(handle, job)}
            print(json.dumps(["cancel", at["exception"], at["clean"] - at["exception"]]))


if __name__ == "__main__":
    if sys.argv[1] == "submit":
        submit(flux.Flux(), int(sys.argv[2]))
    else:
        {"list": submit_list, "ask": ask}[sys.argv[1]](flux.Flux())
