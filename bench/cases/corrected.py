"""Estimators with corrections inside the compiled loop, over what they correct.

Processor times of one process, the two in turn, so that whatever else the machine does falls on both. Starts are the
same under both of a pair: the cap is never reached, so that the same work is compared.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from bench.cases.engine import IDLE_W, MAX_W, NODES, capped, simulation, workload
from bench.harness import Measured, benchmark, digest
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.machine import plain_machine
from wattqueue.model.unit_table import UnitTable
from wattqueue.policy.policy import load_policy

JOBS, APPS, USERS = 100_000, 16, 300
TIMES = 5
MACHINE = plain_machine(NODES, IDLE_W, MAX_W)
MARGIN = {"part": "margin", "factor": 1.05}


def inputs() -> tuple[Jobs, UnitTable]:
    """Return jobs of some users and applications, and what each application draws on each node."""
    rng = np.random.default_rng(2)
    jobs = workload(JOBS, NODES, 0.95)
    app, user = (
        Labels(rng.integers(0, count, JOBS).astype(np.int32), tuple(f"{letter}{k}" for k in range(count)))
        for letter, count in (("a", APPS), ("u", USERS))
    )
    factor = np.clip(rng.normal(1, 0.08, NODES) + rng.normal(0, 0.01, (APPS, NODES)), 0.5, 1.5)
    table = UnitTable.of_watts(app.names, [str(k) for k in range(NODES)], 700.0 * factor, "generated")
    return replace(jobs, app=app, user=user), table


def in_turn(jobs: Jobs, estimators: dict[str, Any]) -> tuple[dict[str, float], str]:
    """Return the least processor seconds of each estimator, and a digest of starts and predictions."""
    seconds, columns = dict.fromkeys(estimators, np.inf), []
    for turn in range(-1, TIMES):
        for name, estimator in estimators.items():
            some = jobs.take(np.arange(50)) if turn < 0 else jobs  # the first turn compiles
            whole = simulation(some, MACHINE, load_policy("easy", estimator=estimator), capped(MACHINE, 0.5))
            begin = time.process_time()
            whole.go()
            if turn >= 0:
                seconds[name] = min(seconds[name], time.process_time() - begin)
            if turn == 0:
                schedule = whole.result().schedule
                columns += [schedule.start_s, np.rint(schedule.predicted_w)]  # last bits of pow depend on the machine
    return seconds, digest(*columns)


@benchmark("history-mean with a margin, 100,000 jobs, over history-mean", unit="times", at_most=1.3)
def margin() -> Measured:
    """Measure a margin, which multiplies what the loop predicts."""
    seconds, answer = in_turn(inputs()[0], {"base": "history-mean", "corrected": ["history-mean", MARGIN]})
    return Measured(seconds["corrected"] / seconds["base"], answer, seconds)


@benchmark("history-mean with unit factors, 100,000 jobs, over unit-watts", unit="times", at_most=1.3)
def unit_factors() -> Measured:
    """Measure unit factors behind a history, over the same factors without one: what learning through them costs.

    ``detail`` has the times of the history alone, too: passes sum watts unit by unit where units differ.
    """
    jobs, table = inputs()
    corrected = ["history-mean", {"part": "unit-factors", "table": table}, MARGIN]
    estimators = {"base": "history-mean", "factors": {"part": "unit-watts", "table": table}, "corrected": corrected}
    seconds, answer = in_turn(jobs, estimators)
    more = {"over_history_mean": seconds["corrected"] / seconds["base"]}
    return Measured(seconds["corrected"] / seconds["factors"], answer, {**seconds, **more})
