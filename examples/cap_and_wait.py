"""What a power cap costs: one small generated workload, EASY without and with caps."""

import numpy as np

from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate

rng = np.random.default_rng(7)
n = 500
jobs = Jobs.build(
    submit_s=np.cumsum(rng.exponential(240.0, n)).round(),
    nodes=rng.choice([1, 1, 2, 4, 8], n),
    runtime_s=rng.lognormal(7.5, 1.0, n).round(),
    walltime_s=np.full(n, 86_400.0),
    mean_power_w=rng.uniform(180.0, 320.0, n).round(),
    origin="generated",
)
machine = Machine("small", (Partition("batch", nodes=32, idle_w=90.0, max_w=350.0),))

print("cap        mean wait   energy")
for share in (1.0, 0.8, 0.6, 0.5):
    cap = Cap.constant(share * (machine.scope_max_w() or 0.0))
    run = simulate(jobs, machine, load_policy("easy", estimator="oracle-max"), cap=cap)
    wait_s = np.nanmean(run.schedule.start_s - jobs.submit_s)
    energy_j = np.sum(run.power.machine_w[:-1] * np.diff(run.power.time_s))
    print(f"{share:4.0%} {cap.cap_w[0] / 1e3:5.2f} kW {wait_s / 60:7.1f} min {energy_j / 3.6e6:8.1f} kWh")
