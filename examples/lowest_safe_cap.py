"""Find the lowest safe cap: a generated month under five caps, the knee of the waits, and what the data certify.

``whatif`` runs every cap and evaluates the runs. A cap is safe at a risk of 5 % if the upper confidence bound of the
time above it is at most 5 % (see docs/guide/whatif.md).
"""

import numpy as np

import wattqueue as wq

rng = np.random.default_rng(7)
n = 6_000
user = rng.integers(0, 12, n)
jobs = wq.Jobs.build(
    submit_s=np.cumsum(rng.exponential(430.0, n)).round(),
    nodes=rng.choice([1, 1, 2, 4], n),
    runtime_s=rng.lognormal(7.5, 1.0, n).round() + 1.0,
    walltime_s=np.full(n, 86_400.0),
    user=[f"u{u}" for u in user],
    mean_power_w=(180.0 + 10.0 * user + rng.normal(0.0, 8.0, n)).round(),
    origin="generated",
)

caps = wq.whatif(jobs, nodes=24, node_watts="90:350", cap="40%..80%:10%", estimator="history-max", risk="5%", workers=1)
print("cap   mean wait   above   at most")
for row in caps.frame.filter(caps.frame["cap"] != "none").iter_rows(named=True):
    wait_min, above, at_most = row["wait_s_mean"] / 60, row["over_share"], row["over_share_upper"]
    print(f"{row['cap']:4} {wait_min:6.1f} min  {above:6.1%}  {at_most:6.1%}")
found = caps.conclusions[0]
print("knee:", found["knee"] or "none")
print("lowest safe cap at 5 %:", found["lowest_safe_cap"] or "none")
print(found["why"])
