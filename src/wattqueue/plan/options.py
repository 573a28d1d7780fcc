"""Options of ``plan``, and the ``PlanQuestion`` that they state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wattqueue.errors import InputError
from wattqueue.options import option
from wattqueue.runs.options import SETTINGS, JobOptions

if TYPE_CHECKING:
    from wattqueue.api.inputs import PathLike
    from wattqueue.plan.prepare import PlanQuestion
    from wattqueue.runs.task import Task


@dataclass(frozen=True)
class PlanOptions(JobOptions):
    """A machine that may grow, and a workload for it."""

    _: KW_ONLY
    breaker: str | None = option(None, "Limit above the whole machine, such as 400kW. [the machine file's domains]")
    partition: str | None = option(None, "Partition that gets more nodes. [the first]")
    policy: str = option("easy", "A row's name, or my.toml:row.")
    estimator: str | None = option(None, "Replaces the policy's own: history-max, history-mean+margin:factor=1.1, ...")
    settings: Sequence[str] = option((), SETTINGS, flags=("--set",), metavar="AXIS=PART", many=True)
    risk: str = option("0.1%", "Accepted share of time above the limit of a domain.")
    wait_rise: str = option("5%", "Accepted rise of the mean wait of the same jobs.")
    power_quantiles: PathLike | None = option(None, "CSV of percent and watts of a node, for jobs without.", kind=Path)
    column: str | None = option(None, "Column of --power-quantiles. [the second]")
    load: Literal["grow", "same"] = option(
        "grow", "Submissions come faster as nodes are added, or stay.", kind=Literal["grow", "same"]
    )
    derate: str = option("75%", "Limit of the domain that is rehearsed at less for 8 hours, as a share of its own.")
    derate_domain: str | None = option(None, "That domain. [the largest that feeds others, else the largest]")

    def question(self, task: Task) -> PlanQuestion:
        """Return the question about a task: its policy and estimator are those of this one.

        Raises: InputError for a text that is not of these forms.
        """
        from dataclasses import replace

        from wattqueue.plan.prepare import PlanQuestion
        from wattqueue.policy.rows import composed

        if self.load not in ("grow", "same"):
            raise InputError(f"{self.load!r} is no load", where="--load", hint="grow or same")
        if self.column is not None and self.power_quantiles is None:
            raise InputError("a column of no file", where="--column", hint="name the file with --power-quantiles")
        task = replace(task, policy=composed(str(self.policy), self.settings), estimator=self.estimator)
        return PlanQuestion(
            task,
            self.breaker,
            self.partition,
            parsed_share(self.risk, "--risk", most=1.0),
            parsed_share(self.wait_rise, "--wait-rise", most=10.0),
            None if self.power_quantiles is None else Path(self.power_quantiles),
            self.column,
            self.load == "same",
            parsed_share(self.derate, "--derate", most=1.0),
            self.derate_domain,
        )


def parsed_share(text: str, where: str, *, most: float) -> float:
    """Return a share from ``5%`` or ``0.05``. Raises: InputError unless it is above 0 and below ``most``."""
    from wattqueue.model.plain_numbers import number_of

    value = number_of(str(text).strip().removesuffix("%"))
    value /= 100.0 if str(text).strip().endswith("%") else 1.0
    if not 0.0 < value < most:
        raise InputError(f"{text!r} is no share", where=where, hint=f"write 5% or 0.05, above 0 and below {most:.0%}")
    return value
