"""What fits now, as arrays, is what single calls say; a pass in Python is asked where a start is possible, and there
alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.sim.workloads import random_world
from wattqueue.kernels import codes
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.parts import Start, View
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate


def one_by_one(view: View) -> list[tuple[object, ...]]:
    """The same, entry by entry and option by option."""
    found: list[tuple[object, ...]] = []
    for entry in view.queue.tolist():
        job, partition = view.entry_job(entry), view.entry_partition(entry)
        if view.jobs.nodes[job] <= view.free[partition]:
            for option in view.entry_options(entry):
                net_w = view.net_watts(job, option)
                if net_w <= view.available_w:
                    row = (entry, option, job, partition, view.jobs.nodes[job], net_w, view.jobs.walltime_s[job])
                    found.append(row)
    return found


class Compared:
    """Starts the first that fits, and looks at both."""

    def __init__(self) -> None:
        self.calls = self.rows = 0

    def schedule(self, view: View) -> Sequence[Start]:
        fits = view.fitting
        rows = list(zip(*(column.tolist() for column in fits), strict=True))
        assert rows == one_by_one(view)
        self.calls, self.rows = self.calls + 1, self.rows + len(rows)
        return [Start(int(fits.entry[0]), int(fits.option[0]))] if rows else []


@pytest.mark.parametrize("seed", range(12))
def test_what_fits_is_what_single_calls_say(seed: int) -> None:
    """And a run in which every pass is asked, as long as a job waits, has the same starts from more calls."""
    asked, always = Compared(), Compared()
    world = random_world(seed)
    runs = [world.simulation(backfill=part) for part in (asked, always)]
    runs[1].truth.loop.stop_mask |= codes.STOP_FOR_PASS
    for run in runs:
        run.go()
    assert np.array_equal(runs[0].log.start, runs[1].log.start, equal_nan=True)
    assert asked.rows == always.rows
    assert 0 < asked.calls <= always.calls


def test_a_full_machine_and_an_empty_queue_ask_nobody() -> None:
    """Ten jobs of the whole machine at once: a call for each start, none between."""
    part = Compared()
    jobs = Jobs.build([0.0] * 10, [4] * 10, [100.0] * 10)
    machine = Machine("m", (Partition("p", 4),))
    run = simulate(jobs, machine, load_policy("easy", backfill=part))
    assert run.schedule.start_s.tolist() == [100.0 * k for k in range(10)]
    assert part.calls == 10
