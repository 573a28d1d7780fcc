"""A scheduling pass of one's own, in one file: the shortest job that fits goes first.

The same part works on the command line: ``wattqueue simulate ... --policy custom_backfill.py:ShortestFirst``.
"""

from collections.abc import Sequence

import numpy as np

from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Start
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import simulate


class ShortestFirst:
    """Whatever fits starts, the shortest walltime first. Nothing is promised: long and wide jobs may starve."""

    def schedule(self, view: View) -> Sequence[Start]:
        free, watts, taken, starts = view.free.copy(), view.available_w, set(), []
        for entry in sorted(view.queue, key=lambda entry: view.jobs.walltime_s[view.entry_job(entry)]):
            job, partition = view.entry_job(entry), view.entry_partition(entry)
            for option in view.entry_options(entry):
                net_w = view.net_watts(job, option)
                if job not in taken and view.jobs.nodes[job] <= free[partition] and net_w <= watts:
                    starts.append(Start(entry, option))
                    taken.add(job)
                    free[partition] -= view.jobs.nodes[job]
                    watts -= net_w
        return starts


def main() -> None:
    rng = np.random.default_rng(7)
    n = 400
    runtime_s = rng.lognormal(7.5, 1.0, n).round()
    jobs = Jobs.build(
        submit_s=np.cumsum(rng.exponential(280.0, n)).round(),
        nodes=rng.choice([1, 1, 2, 4, 8], n),
        runtime_s=runtime_s,
        walltime_s=runtime_s * 2.0,
        mean_power_w=rng.uniform(180.0, 320.0, n).round(),
        origin="generated",
    )
    machine = Machine("small", (Partition("batch", nodes=32, idle_w=90.0, max_w=350.0),))
    cap = Cap.constant(0.7 * (machine.scope_max_w() or 0.0))
    print("generated jobs under a 70% cap   median wait   longest wait")
    for name, backfill in (("easy", "easy"), ("shortest first", ShortestFirst())):
        run = simulate(jobs, machine, load_policy("easy", estimator="oracle-max", backfill=backfill), cap=cap)
        wait_min = (run.schedule.start_s - jobs.submit_s) / 60
        print(f"{name:<32} {np.median(wait_min):7.1f} min   {wait_min.max():8.1f} min")


if __name__ == "__main__":
    main()
