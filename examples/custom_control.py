"""Write a custom control: shut idle nodes down, and wake them while jobs wait.

A control implements ``act(view)`` and returns actions. It states when it is called: every ``period_s`` seconds and
after the events it names.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import wattqueue as wq
from wattqueue.parts import Action, StopNode, View, WakeNode


@dataclass
class SleepWhileIdle:
    """Keep ``spare`` idle nodes on, and wake as many as the queue needs."""

    spare: int = 2
    period_s: float = 60.0
    events: frozenset[str] = frozenset({"arrival"})

    def act(self, view: View) -> Sequence[Action]:
        wanted = sum(int(view.jobs.nodes[view.entry_job(entry)]) for entry in view.queue)
        missing = wanted + self.spare - int(view.free.sum()) - len(view.units_booting)
        if missing > 0:
            return [WakeNode(int(unit)) for unit in view.units_off[:missing]]
        idle = [int(unit) for unit in view.units_on if view.unit_is_free(int(unit))]
        # From the highest number down: placement takes the lowest numbers first.
        return [StopNode(unit) for unit in idle[::-1][: min(-missing, len(idle))]]


def main() -> None:
    rng = np.random.default_rng(5)
    n = 300
    jobs = wq.Jobs.build(
        submit_s=np.cumsum(rng.exponential(700.0, n)).round(),
        nodes=rng.choice([1, 1, 2, 4, 8], n),
        runtime_s=rng.lognormal(7.5, 1.0, n).round(),
        walltime_s=np.full(n, 86_400.0),
        mean_power_w=rng.uniform(180.0, 320.0, n).round(),
        origin="generated",
    )
    node = wq.Partition("batch", 32, idle_w=90.0, max_w=350.0, boot_s=120.0, boot_w=160.0, shutdown_s=30.0, off_w=6.0)
    machine = wq.Machine("small", (node,))
    print("generated jobs         mean wait    energy")
    for name, controls in (("always on", []), ("2 spare nodes awake", [SleepWhileIdle()])):
        policy = wq.load_policy("easy", estimator="oracle-mean", controls=controls)
        found = wq.simulate(jobs, machine, policy=policy).metrics
        wait_min, energy_kwh = found["wait_s_mean"] / 60, found["machine_energy_j"] / 3.6e6
        print(f"{name:<20} {wait_min:7.1f} min {energy_kwh:7.1f} kWh")


if __name__ == "__main__":
    main()
