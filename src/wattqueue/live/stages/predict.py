"""Predict the watts and the run times of jobs whose row is new."""

from __future__ import annotations

from wattqueue.live.planner import RoundState, stage


@stage(
    reads="snapshot fresh jobs.request",
    writes="",
)
def predict(now: RoundState) -> None:
    """Have the session predict the jobs that have no prediction yet (``live.predictor``)."""
    now.planner.predictor.predict([now.jobs.request[slot] for slot in now.fresh], now.now_s, now.jobs.slot)
