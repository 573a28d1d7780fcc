"""Store how long jobs ran, so that run times are predicted after a restart as they were before.

Storing is for the benefit of later predictions only, as with measured jobs (``live.features.learning``): no decision
of the present depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Engine, Float, insert, select

from wattqueue.live.cluster import JobKey
from wattqueue.live.features.learning import limit_column, limit_of, of_job, request_columns
from wattqueue.live.requests import JobRequest
from wattqueue.live.run_times import EndedRun
from wattqueue.live.state.database import given, job_table

RAN = job_table(
    "live_ran",
    *request_columns(),
    given("end_s", Float),
    given("run_s", Float),
)
"""Ended jobs with their run times at reference speed."""


@dataclass
class RunHistory:
    """The table of run times, one row per (id, submit time)."""

    engine: Engine

    def keep(self, runs: Iterable[EndedRun]) -> None:
        """Store run times that are not stored yet: the first report of a job counts."""
        with self.engine.begin() as connection:
            for request, end_s, run_s in runs:
                if connection.execute(select(RAN.c.name).where(of_job(RAN, request.key))).first() is None:
                    values = request._asdict() | {"walltime_s": limit_column(request.walltime_s)}
                    values |= {"name": request.key.name, "submit_s": request.key.submit_s}
                    del values["key"], values["node_w"]  # of the history nobody reads what users stated
                    connection.execute(insert(RAN).values(**values, end_s=end_s, run_s=run_s))

    def recall(self, most: int = 20_000) -> list[EndedRun]:
        """Return the last ``most`` run times, in order of their ends."""
        with self.engine.connect() as connection:
            rows = connection.execute(select(RAN).order_by(RAN.c.end_s.desc(), RAN.c.name.desc()).limit(most)).all()
        return [
            EndedRun(
                JobRequest(JobKey(r.name, r.submit_s), r.user, r.app, r.partition, r.nodes, limit_of(r.walltime_s)),
                r.end_s,
                r.run_s,
            )
            for r in reversed(rows)
        ]
