"""Options of ``whatif``, and the ``Question`` that they state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wattqueue.errors import InputError
from wattqueue.options import option, workers_option
from wattqueue.runs.options import JobOptions

if TYPE_CHECKING:
    from wattqueue.api.inputs import PathLike
    from wattqueue.formats.tariff import AskedSource
    from wattqueue.runs.task import Task
    from wattqueue.whatif.prepare import Question


@dataclass(frozen=True)
class WhatifOptions(JobOptions):
    """A range of caps on a workload."""

    _: KW_ONLY
    cap: str = option("60%..100%", "60%..100%, 60%..100%:10%, 300kW..500kW:50kW, or a list.")
    policy: str = option("easy", "Policies, or my.toml:row; separate several by commas.")
    estimator: str | None = option(None, "Estimators instead of the policies' own (a+margin:factor=1.05), by commas.")
    settings: Sequence[str] = option(
        (), "Changes a choice of each policy.", flags=("--set",), metavar="AXIS=PART", many=True
    )
    risk: str = option("1%", "Accepted share of time above the cap.")
    prices: PathLike | None = option(None, "CSV of time and price.", kind=Path)
    price_unit: str | None = option(None, "Unit of the prices. [the file's, else EUR/MWh]")
    intensity: PathLike | None = option(None, "CSV of time and carbon intensity.", kind=Path)
    intensity_unit: str | None = option(None, "Unit of the carbon intensities. [the file's, else gCO2/kWh]")
    start: str | None = option(None, "Date of the trace's time 0, or of its first job where the trace has dates.")
    repair: bool = option(False, "Correct dates whose UTC offset contradicts their neighbours'.", kind=bool)
    detail_cap: str | None = option(None, "The cap to show in detail. [lowest safe, else knee, else lowest]")
    workers: int | None = workers_option()

    def question(self, task: Task) -> Question:
        """Return the question about a task: its policy, estimator and cap are not used.

        Errors name the option of the command line (``--risk``), which is an argument of the same name in Python.

        Raises:
            InputError: A text that is not of these forms. Values are checked by ``prepare.prepare``.
        """
        from wattqueue.policy.rows import composed
        from wattqueue.whatif.prepare import Question

        # two names may stand for one row, which is run once
        policies = ",".join(composed(name, self.settings) for name in names(self.policy, "--policy"))
        return Question(
            task,
            self.cap,
            names(policies, "--policy"),
            names(self.estimator, "--estimator") if self.estimator else (None,),
            share(self.risk),
            _source(self.prices, self.price_unit, "--price-unit", "EUR/MWh"),
            _source(self.intensity, self.intensity_unit, "--intensity-unit", "gCO2/kWh"),
            self.start,
            self.repair,
            self.detail_cap,
        )


def _source(path: PathLike | None, unit: str | None, where: str, default: str) -> AskedSource | None:
    """Return a series and its unit, None without one."""
    from wattqueue.formats.tariff import parse_source

    return None if path is None else parse_source(Path(path), unit, where, default)


def names(text: str, option: str) -> tuple[str, ...]:
    """Return names from a comma-separated list. Raises InputError for an empty or repeated one."""
    found = [name.strip() for name in text.split(",")]
    if not all(found) or len(set(found)) < len(found):
        raise InputError(
            f"{text!r} repeats a name or lacks one", where=option, hint="separate names by commas, each once"
        )
    return tuple(found)


def share(text: str) -> float:
    """Return a share of time from ``1%`` or ``0.01``. Raises InputError unless it is between 0 and 1."""
    number = text.strip().removesuffix("%")
    try:
        value = float(number) / (100.0 if text.strip().endswith("%") else 1.0)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise InputError(
            f"{text!r} is not a share of time", where="--risk", hint="write 1% or 0.01, above 0 and below 100%"
        )
    return value
