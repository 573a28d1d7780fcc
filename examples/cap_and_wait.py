"""Measure what a power cap costs in waiting time and energy: one small generated workload under four caps, with EASY.

The caps are shares of the sum of node maxima. ``oracle-max`` predicts each job's true maximum, so the waits are those
of a perfect predictor. Below some cap energy rises: the run lasts longer, and idle nodes draw power for longer.
"""

import numpy as np

import wattqueue as wq

rng = np.random.default_rng(7)
n = 500
jobs = wq.Jobs.build(
    submit_s=np.cumsum(rng.exponential(240.0, n)).round(),
    nodes=rng.choice([1, 1, 2, 4, 8], n),
    runtime_s=rng.lognormal(7.5, 1.0, n).round(),
    walltime_s=np.full(n, 86_400.0),
    mean_power_w=rng.uniform(180.0, 320.0, n).round(),
    origin="generated",
)
machine = wq.Machine("small", (wq.Partition("batch", nodes=32, idle_w=90.0, max_w=350.0),))

print("cap        mean wait   energy")
for cap in ("100%", "80%", "60%", "50%"):
    run = wq.simulate(jobs, machine, policy="easy", estimator="oracle-max", cap=cap)
    wait_s, energy_j = run.metrics["wait_s_mean"], run.metrics["machine_energy_j"]
    print(f"{cap:>4} {run.cap.cap_w[0] / 1e3:5.2f} kW {wait_s / 60:7.1f} min {energy_j / 3.6e6:8.1f} kWh")
