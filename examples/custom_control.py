"""A control of one's own: idle nodes are shut down, and woken again while somebody waits."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wattqueue.kernels import codes
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.policy.actions import Action, StopNode, WakeNode
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import simulate


@dataclass
class SleepWhileIdle:
    """Keeps ``spare`` free nodes awake; wakes as many as the queue asks for."""

    spare: int = 2
    period_s: float = 60.0
    events: frozenset[str] = frozenset({"arrival"})

    def act(self, view: View) -> Sequence[Action]:
        wanted = sum(int(view.jobs.nodes[view.entry_job(entry)]) for entry in view.queue)
        coming = int(np.sum(view.unit_state == codes.UNIT_BOOTING))
        missing = wanted + self.spare - int(view.free.sum()) - coming
        if missing > 0:
            return [WakeNode(int(unit)) for unit in np.flatnonzero(view.unit_state == codes.UNIT_OFF)[:missing]]
        awake = np.flatnonzero(view.unit_state == codes.UNIT_ON)
        idle = [int(unit) for unit in awake if view.unit_is_free(int(unit))]
        return [StopNode(unit) for unit in idle[::-1][: min(-missing, len(idle))]]


def main() -> None:
    rng = np.random.default_rng(5)
    n = 300
    jobs = Jobs.build(
        submit_s=np.cumsum(rng.exponential(700.0, n)).round(),
        nodes=rng.choice([1, 1, 2, 4, 8], n),
        runtime_s=rng.lognormal(7.5, 1.0, n).round(),
        walltime_s=np.full(n, 86_400.0),
        mean_power_w=rng.uniform(180.0, 320.0, n).round(),
        origin="generated",
    )
    node = Partition("batch", 32, idle_w=90.0, max_w=350.0, boot_s=120.0, boot_w=160.0, shutdown_s=30.0, off_w=6.0)
    machine = Machine("small", (node,))
    print("generated jobs         mean wait    energy")
    for name, controls in (("always on", []), ("2 spare nodes awake", [SleepWhileIdle()])):
        run = simulate(jobs, machine, load_policy("easy", estimator="oracle-mean", controls=controls))
        wait_min = float(np.mean(run.schedule.start_s - jobs.submit_s)) / 60
        energy_kwh = float(run.power.machine_w[:-1] @ np.diff(run.power.time_s)) / 3.6e6
        print(f"{name:<20} {wait_min:7.1f} min {energy_kwh:7.1f} kWh")


if __name__ == "__main__":
    main()
