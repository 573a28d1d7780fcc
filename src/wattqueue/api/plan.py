"""``plan``: how many nodes fit under the limits of the power domains, and what they cost, as ``wattqueue plan``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wattqueue.api.answer import SavedAnswer
from wattqueue.api.inputs import machine_arguments, of_options, physics_arguments, text
from wattqueue.api.jobs import job_table
from wattqueue.formats.results import results_frame
from wattqueue.plan.answer import PlanAnswer, answer
from wattqueue.plan.options import PlanOptions
from wattqueue.plan.page import document, files, plain, rows
from wattqueue.plan.prepare import prepare
from wattqueue.plan.text import headline
from wattqueue.report.document import Document

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class NodePlan(SavedAnswer):
    """The answer of ``plan``; in a notebook its sentence, baselines and assumptions."""

    sentence: str
    """The answer in one sentence."""
    nodes: int
    """Nodes of the partition that fit."""
    more: int
    """Of these, nodes beyond those that fit at their stated maximum."""
    nodes_at_stated_maximum: int
    nodes_at_high_quantile: int
    """Nodes that fit at the 99.9 % quantile of measured watts."""
    more_if_hotter: int
    """``more``, if jobs draw 10 % more than was measured."""
    limits_for_pass: float
    """Limits to give to the pass, over those of the breakers."""
    shown: Document
    """What terminals and notebooks show."""
    files: Mapping[str, str]
    """Text of every file that ``save`` writes, by name."""
    rows: tuple[dict[str, Any], ...]

    def __repr__(self) -> str:
        return f"<{self.sentence}>"

    @cached_property
    def frame(self) -> pl.DataFrame:
        """Return the columns of plan.csv as a polars frame: one row for each number of nodes that was tried."""
        return results_frame(self.rows)


@of_options(PlanOptions)
def plan(options: PlanOptions) -> NodePlan:
    """Find how many more nodes fit under the limits of the power domains, and what they cost users.

    Raises:
        WattQueueError: One line that says what is wrong, where, and how to correct it.

    Example::

        wq.plan("jobs.parquet", "site.toml", estimator="history-max").sentence
    """
    o = options
    for value, name, hint in (
        (o.risk, "risk", 'a text such as "0.1%"'), (o.wait_rise, "wait_rise", 'a text such as "5%"'),
        (o.derate, "derate", 'a text such as "75%"'), (o.breaker or "", "breaker", 'a text such as "400kW"'),
        (o.power_quantiles or "", "power_quantiles", "the name of a CSV"),
    ):  # fmt: skip
        text(value, name, hint)
    table = job_table(o.jobs, o.seed, o.default_walltime, o.procs_per_node)
    made, named = machine_arguments(o.machine, o.nodes, o.node_watts)
    physics, stated = physics_arguments(table.task, o.physics, o.physics_error, o.seed)
    question = o.question(replace(table.task, **named, **stated))
    return _node_plan(answer(prepare(question, machine=made, workload=table.workload, physics=physics)))


def _node_plan(found: PlanAnswer) -> NodePlan:
    """Return what is kept of an answer."""
    shown = document(found)
    return NodePlan(
        plain(headline(found)), found.nodes, found.more, found.nameplate, found.high, found.hotter - found.nameplate,
        found.planning, replace(shown, blocks=()), files(found, shown), tuple(rows(found)),
    )  # fmt: skip
