"""Write a custom backfill part in one file: the shortest job that fits starts first.

A backfill part implements one method, ``schedule(view)``, which returns the entries that start now and the option
(partition and frequency) of each. The view must not be changed: the pass works on copies.

The same part works on the command line: ``wattqueue simulate ... --policy custom_backfill.py:ShortestFirst``.
"""

from collections.abc import Sequence
from operator import itemgetter

import numpy as np

import wattqueue as wq
from wattqueue.parts import Start, View


class ShortestFirst:
    """Start every entry that fits, the shortest walltime first. There are no reservations: wide jobs may starve."""

    def schedule(self, view: View) -> Sequence[Start]:
        free, watts, taken, starts = view.free.tolist(), view.available_w, set(), []
        # One row for each entry and option that fits now, with the walltime in the last column.
        rows = zip(*(column.tolist() for column in view.fitting), strict=True)
        for entry, option, job, partition, nodes, net_w, _ in sorted(rows, key=itemgetter(-1)):
            # A job may have entries in several partitions; it starts through one of them.
            if job not in taken and nodes <= free[partition] and net_w <= watts:
                starts.append(Start(entry, option))
                taken.add(job)
                free[partition] -= nodes
                watts -= net_w
        return starts


def main() -> None:
    rng = np.random.default_rng(7)
    n = 400
    runtime_s = rng.lognormal(7.5, 1.0, n).round()
    jobs = wq.Jobs.build(
        submit_s=np.cumsum(rng.exponential(280.0, n)).round(),
        nodes=rng.choice([1, 1, 2, 4, 8], n),
        runtime_s=runtime_s,
        walltime_s=runtime_s * 2.0,
        mean_power_w=rng.uniform(180.0, 320.0, n).round(),
        origin="generated",
    )
    machine = wq.Machine("small", (wq.Partition("batch", nodes=32, idle_w=90.0, max_w=350.0),))
    print("generated jobs under a 70% cap   median wait   longest wait")
    for name, backfill in (("easy", "easy"), ("shortest first", ShortestFirst())):
        policy = wq.load_policy("easy", estimator="oracle-max", backfill=backfill)
        wait_min = wq.simulate(jobs, machine, policy=policy, cap="70%").jobs["waiting_time"].to_numpy() / 60
        print(f"{name:<32} {np.median(wait_min):7.1f} min   {wait_min.max():8.1f} min")


if __name__ == "__main__":
    main()
