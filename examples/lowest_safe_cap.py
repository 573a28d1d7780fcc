"""How low may a cap be: a generated month under five caps, where waits bend, and what its data call safe."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from wattqueue.campaign.shared import Shared
from wattqueue.formats.table import write_table
from wattqueue.model.jobs import Jobs
from wattqueue.sim.task import Task
from wattqueue.whatif.answer import conclude
from wattqueue.whatif.ask import Question, ask, prepare
from wattqueue.whatif.safe import percent

rng = np.random.default_rng(7)
n = 6_000
user = rng.integers(0, 12, n)
jobs = Jobs.build(
    submit_s=np.cumsum(rng.exponential(430.0, n)).round(),
    nodes=rng.choice([1, 1, 2, 4], n),
    runtime_s=rng.lognormal(7.5, 1.0, n).round() + 1.0,
    walltime_s=np.full(n, 86_400.0),
    user=[f"u{u}" for u in user],
    mean_power_w=(180.0 + 10.0 * user + rng.normal(0.0, 8.0, n)).round(),
    origin="generated",
)

with TemporaryDirectory() as folder:
    table = Path(folder) / "jobs.csv"
    write_table(table, jobs)
    task = Task(str(table), nodes=24, node_watts="90:350")
    setup = prepare(Question(task, "40%..80%:10%", estimators=("history-max",), risk=0.05))
    answer = conclude(setup, ask(setup, Shared(Path(folder)), workers=1))

curve = answer.curves[0]
print("cap   mean wait   above   at most")
for k, cap in enumerate(setup.caps):
    wait_s = curve.ran[k].metrics["wait_s_mean"] or 0.0
    seen = curve.evidence[k]
    print(f"{cap.text:4} {wait_s / 60:6.1f} min  {percent(seen.share):>6}  {percent(seen.upper):>6}")
print("knee:", "none" if curve.knee is None else setup.caps[curve.knee].text)
print("lowest safe cap at 5 %:", "none" if curve.verdict.lowest is None else setup.caps[curve.verdict.lowest].text)
print(curve.verdict.why)
