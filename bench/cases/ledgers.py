"""What ledgers cost: processor time of EASY under a cap with each of them, beyond that of predictions.

Runs with and without the ledger take turns, and the least times of each are compared: other work on the machine counts
less. Starts differ from ledger to ledger, and with them the queue; ``detail`` gives its length. A digest covers all
starts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.cases.engine import IDLE_W, MAX_W, NODES, capped, depth_of, replay, workload
from bench.harness import Measured, benchmark, digest
from wattqueue.model.machine import Machine, plain_machine
from wattqueue.model.power_sensor import PowerSensor
from wattqueue.parts.ledger.chance import Chance
from wattqueue.policy.policy import load_policy

COUNT = 200_000
TURNS = 3
EACH_MINUTE = PowerSensor(sample_s=60.0, poll_s=60.0)
"""A sensor on each node, as baseboard controllers are mostly read."""


def beyond_predictions(ledger: Any, machine: Machine) -> Measured:
    """Return by how many percent more processor time EASY takes with a ledger, a part or its name."""
    jobs, cap = workload(COUNT, NODES, 1.0), capped(machine)
    policies = [load_policy("easy", estimator="oracle-max", ledger=one) for one in ("predicted", ledger)]
    turns = [[replay(jobs, machine, policy, cap) for policy in policies] for _ in range(TURNS)]
    plain_s, took_s = (min(seconds for seconds, _ in runs) for runs in zip(*turns, strict=True))
    plain, run = (run for _, run in turns[-1])
    detail = {
        "cpu_s": took_s, "plain_cpu_s": plain_s, "queued_mean": depth_of(run)[0],
        "plain_queued_mean": depth_of(plain)[0], "days": round(float(run.schedule.end_s.max()) / 86_400.0, 1),
    }  # fmt: skip
    return Measured(100.0 * (took_s / plain_s - 1.0), digest(run.schedule.start_s, run.schedule.state), detail)


@benchmark("chance ledger, EASY of 200,000 jobs on 980 nodes, beyond predictions", unit="% more time", at_most=30.0)
def chance() -> Measured:
    """A margin too small to change more than a few starts: what is measured is the ledger, not a longer queue."""
    return beyond_predictions(Chance(own=1e-6, common=0.0), plain_machine(NODES, IDLE_W, MAX_W))


@benchmark("chance ledger with its usual margin, 200,000 jobs on 980 nodes, beyond predictions", unit="% more time")
def chance_and_queue() -> Measured:
    """The same with the watts that it keeps free by default, for which three times as many jobs wait."""
    return beyond_predictions("chance", plain_machine(NODES, IDLE_W, MAX_W))


@benchmark("adaptive ledger, EASY of 200,000 jobs on 980 nodes, beyond predictions", unit="% more time", at_most=30.0)
def adaptive() -> Measured:
    """A meter of the whole machine that is read each minute, and the margin that it teaches."""
    return beyond_predictions("adaptive", plain_machine(NODES, IDLE_W, MAX_W))


@benchmark("measured ledger, EASY of 200,000 jobs on 980 nodes, beyond predictions", unit="% more time", at_most=50.0)
def measured() -> Measured:
    """A sensor on each node that is read each minute; without this ledger nothing reads them."""
    return beyond_predictions("measured", replace(plain_machine(NODES, IDLE_W, MAX_W), sensor=EACH_MINUTE))
