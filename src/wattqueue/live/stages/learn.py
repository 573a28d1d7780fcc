"""Learn from the jobs that have ended, before new ones are predicted (semantics, rule 2)."""

from __future__ import annotations

from wattqueue.live.planner import RoundState, stage
from wattqueue.live.requests import where_it_ran


@stage(
    reads="snapshot running jobs.row",
    writes="measured unmeasured ended",
)
def learn(now: RoundState) -> None:
    """Hand what was measured of ended jobs, and how long they ran, to the parts that learn from it."""
    planner, predictor = now.planner, now.planner.predictor
    running = {row.key for row in now.jobs.rows(now.running)}
    now.measured = []
    for one in planner.tracker.ended(running):
        ran = planner.ran.get(one.request.key)
        now.measured.append(one if ran is None else one._replace(**where_it_ran(ran)))
    if now.measured:
        predictor.learn(now.measured)
    now.ended = []
    if predictor.run_times is not None:
        now.ended = predictor.run_times.gone(running, {row.key.name: row.key for row in now.snapshot.jobs}, now.now_s)
    predictor.learn_runs(now.ended)
    # a job that telemetry measured long enough is not looked for in the accounting again
    known = {one.request.key for one in now.measured}
    gone = {key: planner.ran.pop(key) for key in [key for key in planner.ran if key not in running]}
    now.unmeasured = [ran for key, ran in gone.items() if key not in known]
