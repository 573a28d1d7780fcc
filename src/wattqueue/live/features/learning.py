"""Store measured jobs, so that they train the estimator again after a restart.

A job is measured in one of two ways. Telemetry samples its nodes while it runs (``live.watts.tracking``),
which gives mean and maximum. Or Slurm's accounting reports its energy some time after it ended; until
then ``MeasuredJobs.gone`` remembers what the job was and what was predicted for it.

Flow: ``Tracker.ended`` -> ``Controller._learn`` -> ``keep`` and ``Predictor.learn``; without telemetry
``Controller.on_ended`` -> ``ended`` -> (once a minute) ``from_accounting`` -> the same. ``recall`` closes the
circle at the start of a controller, so that an online estimator is trained on the same jobs, in the same
order, as one that was never restarted.

Jobs that run are stored too (``began``), with what was predicted for them: one that ends while no controller is at work
is missed at the next start, and looked up in the accounting from its start on.

Storing is for the benefit of later predictions only. No decision of the present depends on it, so a
database that fails here loses training data and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Column, ColumnElement, Engine, Float, Integer, Table, Text, and_, delete, insert, select

from wattqueue.live.cluster import JobKey
from wattqueue.live.requests import JobRequest, MeasuredJob, ObservedJob, where_it_ran
from wattqueue.live.state.database import given, job_table
from wattqueue.live.telemetry.base import JobEnergy


def request_columns() -> list[Column[Any]]:
    """Return the columns of what a job asked for; a column belongs to one table."""
    return [
        given("user", Text),
        given("app", Text),
        given("partition", Text),
        given("nodes", Integer),
        given("walltime_s", Float),
    ]


LEARNED = job_table(
    "live_learned",
    *request_columns(),
    given("start_s", Float),
    given("end_s", Float),
    given("mean_node_w", Float),
    Column("max_node_w", Float),
    Column("predicted_node_w", Float),
    Column("hardware", Text),
    Column("frequency_hz", Float),
    Column("node_names", Text),
)
"""Ended jobs with what they were measured to draw (watts of one node)."""
RUNNING = job_table(
    "live_running",
    *request_columns(),
    Column("predicted_node_w", Float),
    given("hardware", Text),
    Column("frequency_hz", Float),
    Column("node_names", Text),
)
"""Jobs that run, or whose energy accounting has not reported yet."""
FORGET_S = 3600.0
"""How long accounting may take to report a job's energy: slurmdbd lags by minutes, not by hours."""


@dataclass
class MeasuredJobs:
    """The table of measured jobs, one row per (id, submit time)."""

    engine: Engine
    on_ratio: Callable[[float], None] = lambda _: None
    """Called with measured over predicted watts of each job that is stored (metrics)."""
    gone: dict[JobKey, tuple[ObservedJob, float]] = field(default_factory=dict)
    """Ended jobs whose energy accounting has not reported yet, with the time at which they were missed."""

    def began(self, jobs: Iterable[ObservedJob]) -> None:
        """Store jobs that run, for a controller that is started after they have ended."""
        with self.engine.begin() as connection:
            for ran in jobs:
                request = ran.request
                connection.execute(delete(RUNNING).where(of_job(RUNNING, request.key)))
                connection.execute(
                    insert(RUNNING).values(
                        name=request.key.name, submit_s=request.key.submit_s, user=request.user, app=request.app,
                        partition=request.partition, nodes=request.nodes, walltime_s=limit_column(request.walltime_s),
                        predicted_node_w=_column(ran.predicted_node_w), hardware=ran.hardware,
                        frequency_hz=_column(ran.frequency_hz), node_names=" ".join(ran.node_names),
                    )
                )  # fmt: skip

    def forget(self, keys: Iterable[JobKey]) -> None:
        """Forget running jobs: their energy is known, or will not come."""
        with self.engine.begin() as connection:
            for key in keys:
                connection.execute(delete(RUNNING).where(of_job(RUNNING, key)))

    def running(self) -> list[ObservedJob]:
        """Return the jobs that ran, and were not measured, when the last controller ended."""
        with self.engine.connect() as connection:
            rows = connection.execute(select(RUNNING).order_by(RUNNING.c.submit_s, RUNNING.c.name)).all()
        out = []
        for r in rows:
            request = JobRequest(
                JobKey(r.name, r.submit_s), r.user, r.app, r.partition, r.nodes, limit_of(r.walltime_s)
            )
            where = r.hardware, _number(r.frequency_hz), _names(r.node_names)
            out.append(ObservedJob(request, _number(r.predicted_node_w), *where))
        return out

    def recall(self, most: int = 20_000) -> list[MeasuredJob]:
        """Return the last ``most`` jobs, in order of their ends."""
        with self.engine.connect() as connection:
            rows = connection.execute(select(LEARNED).order_by(LEARNED.c.end_s.desc()).limit(most)).all()
        out = []
        for r in reversed(rows):
            request = JobRequest(
                JobKey(r.name, r.submit_s), r.user, r.app, r.partition, r.nodes, limit_of(r.walltime_s)
            )
            where = r.hardware or "", _number(r.frequency_hz), _names(r.node_names)
            values = (_number(r.max_node_w), _number(r.predicted_node_w), *where)
            out.append(MeasuredJob(request, r.start_s, r.end_s, r.mean_node_w, *values))
        return out

    def keep(self, jobs: Iterable[MeasuredJob]) -> list[MeasuredJob]:
        """Store jobs that are not stored yet, and return those.

        A job can arrive twice, from telemetry and from accounting: the first report counts.
        """
        fresh: list[MeasuredJob] = []
        with self.engine.begin() as connection:
            for one in jobs:
                key = one.request.key
                if connection.execute(select(LEARNED.c.name).where(of_job(LEARNED, key))).first() is not None:
                    continue
                request = one.request
                connection.execute(
                    insert(LEARNED).values(
                        name=key.name, submit_s=key.submit_s, user=request.user, app=request.app,
                        partition=request.partition, nodes=request.nodes, walltime_s=limit_column(request.walltime_s),
                        start_s=one.start_s, end_s=one.end_s, mean_node_w=one.mean_node_w,
                        max_node_w=_column(one.max_node_w), predicted_node_w=_column(one.predicted_node_w),
                        hardware=one.hardware, frequency_hz=_column(one.frequency_hz),
                        node_names=" ".join(one.node_names),
                    )
                )  # fmt: skip
                fresh.append(one)
        for one in fresh:
            if one.predicted_node_w > 0:
                self.on_ratio(one.mean_node_w / one.predicted_node_w)
        return fresh

    def ended(self, ran: ObservedJob, now_s: float) -> None:
        """Remember a job that ended unmeasured: accounting may still report its energy."""
        self.gone[ran.request.key] = (ran, now_s)
        # bounded: what accounting has not reported within FORGET_S it never will
        late = [key for key, (_, at_s) in self.gone.items() if now_s - at_s >= FORGET_S]
        for key in late:
            del self.gone[key]
        if late:
            self.forget(late)

    def from_accounting(self, energies: Sequence[JobEnergy]) -> list[MeasuredJob]:
        """Return the remembered jobs among those that accounting has measured, and forget them.

        The node count is accounting's: what the job had, not what it requested.
        """
        out = []
        for e in energies:
            known = self.gone.get(JobKey(e.name, e.submit_s))
            # an energy of NaN may still come: the job stays remembered
            if known is not None and not math.isnan(e.mean_node_w):
                ran, _ = self.gone.pop(JobKey(e.name, e.submit_s))
                request, watts = ran.request._replace(nodes=e.nodes), (e.mean_node_w, math.nan, ran.predicted_node_w)
                out.append(MeasuredJob(request, e.start_s, e.end_s, *watts, **where_it_ran(ran)))
        return out


def of_job(table: Table, key: JobKey) -> ColumnElement[bool]:
    """Return the condition for the row of one job."""
    return and_(table.c.name == key.name, table.c.submit_s == key.submit_s)


def _names(value: str | None) -> tuple[str, ...]:
    """Return names of nodes from a column; none where an earlier version wrote the row."""
    return tuple((value or "").split())


def _number(value: float | None) -> float:
    """Return a column's value, NULL as NaN."""
    return math.nan if value is None else value


def _column(value: float) -> float | None:
    """Return a value for a column, NaN as NULL: databases disagree about NaN."""
    return None if math.isnan(value) else value


def limit_column(seconds: float) -> float:
    """Return a walltime for a column: see ``limit_of``."""
    return min(seconds, 1e18)


def limit_of(seconds: float) -> float:
    """Return a stored walltime; 1e18 stands for no limit, since not every database stores infinity."""
    return math.inf if seconds >= 1e18 else seconds
