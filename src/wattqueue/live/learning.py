"""Measured jobs, kept: they teach the estimator again after a restart."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Column, Engine, Float, Integer, Table, Text, insert, select

from wattqueue.live.predictor import Asked, Learned, Ran
from wattqueue.live.slurm.snapshot import JobKey
from wattqueue.live.state.tables import METADATA
from wattqueue.live.telemetry.base import JobEnergy

LEARNED = Table(
    "live_learned",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("submit_s", Float, primary_key=True),
    Column("user", Text, nullable=False),
    Column("app", Text, nullable=False),
    Column("partition", Text, nullable=False),
    Column("nodes", Integer, nullable=False),
    Column("walltime_s", Float, nullable=False),
    Column("start_s", Float, nullable=False),
    Column("end_s", Float, nullable=False),
    Column("mean_node_w", Float, nullable=False),
    Column("max_node_w", Float),
    Column("predicted_node_w", Float),
)
"""Ended jobs with what they were measured to draw (watts of one node)."""
FORGET_S = 3600.0


@dataclass
class Lessons:
    """A table of measured jobs. ``gone`` keeps what is known of ended jobs until accounting tells their energy."""

    engine: Engine
    on_ratio: Callable[[float], None] = lambda _: None
    gone: dict[JobKey, tuple[Ran, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        METADATA.create_all(self.engine, tables=[LEARNED])

    def recall(self, most: int = 20_000) -> list[Learned]:
        """The last so many, in order of their ends."""
        with self.engine.connect() as connection:
            rows = connection.execute(select(LEARNED).order_by(LEARNED.c.end_s.desc()).limit(most)).all()
        out = []
        for r in reversed(rows):
            asked = Asked(JobKey(r.name, r.submit_s), r.user, r.app, r.partition, r.nodes, _limit(r.walltime_s))
            values = (_number(r.max_node_w), _number(r.predicted_node_w))
            out.append(Learned(asked, r.start_s, r.end_s, r.mean_node_w, *values))
        return out

    def keep(self, jobs: Iterable[Learned]) -> list[Learned]:
        """Store jobs that are not stored yet; returns those."""
        fresh: list[Learned] = []
        with self.engine.begin() as connection:
            for one in jobs:
                key = one.asked.key
                mine = (LEARNED.c.name == key.name) & (LEARNED.c.submit_s == key.submit_s)
                if connection.execute(select(LEARNED.c.name).where(mine)).first() is not None:
                    continue
                asked = one.asked
                connection.execute(
                    insert(LEARNED).values(
                        name=key.name, submit_s=key.submit_s, user=asked.user, app=asked.app,
                        partition=asked.partition, nodes=asked.nodes, walltime_s=min(asked.walltime_s, 1e18),
                        start_s=one.start_s, end_s=one.end_s, mean_node_w=one.mean_node_w,
                        max_node_w=_column(one.max_node_w), predicted_node_w=_column(one.predicted_node_w),
                    )
                )  # fmt: skip
                fresh.append(one)
        for one in fresh:
            if one.predicted_node_w > 0:
                self.on_ratio(one.mean_node_w / one.predicted_node_w)
        return fresh

    def ended(self, ran: Ran, now_s: float) -> None:
        """A job that runs no more: accounting may still tell its energy."""
        self.gone[ran.asked.key] = (ran, now_s)
        self.gone = {k: v for k, v in self.gone.items() if now_s - v[1] < FORGET_S}

    def from_accounting(self, energies: Sequence[JobEnergy]) -> list[Learned]:
        """Jobs of ours that accounting has measured."""
        out = []
        for e in energies:
            known = self.gone.get(JobKey(e.name, e.submit_s))
            if known is not None and not math.isnan(e.mean_node_w):
                ran, _ = self.gone.pop(JobKey(e.name, e.submit_s))
                asked, where = ran.asked._replace(nodes=e.nodes), (ran.hardware, ran.frequency_hz)
                times = (e.start_s, e.end_s)
                out.append(Learned(asked, *times, e.mean_node_w, math.nan, ran.predicted_node_w, *where))
        return out


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _column(value: float) -> float | None:
    return None if math.isnan(value) else value


def _limit(seconds: float) -> float:
    return math.inf if seconds >= 1e18 else seconds
