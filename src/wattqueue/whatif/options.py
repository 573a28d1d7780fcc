"""Turn the options of ``whatif``, as text, into a ``Question``: the command line and the Python API share this reader.

Errors name the option of the command line (``--risk``), which is a keyword argument of the same name in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wattqueue.errors import InputError
from wattqueue.policy.rows import composed
from wattqueue.runs.task import Task
from wattqueue.whatif.ask import Question
from wattqueue.whatif.bill import parse_source


def question_of(  # noqa: PLR0913  as many as options
    task: Task,
    *,
    cap: str = "60%..100%",
    policy: str = "easy",
    settings: Sequence[str] = (),
    estimator: str | None = None,
    risk: str = "1%",
    prices: Path | None = None,
    price_unit: str = "EUR/MWh",
    intensity: Path | None = None,
    intensity_unit: str = "gCO2/kWh",
    start: str | None = None,
    repair: bool = False,
    at: str | None = None,
) -> Question:
    """Return the question that these options state.

    Args:
        task: Workload and machine; its policy, estimator and cap are not used.
        cap: ``60%..100%``, ``60%..100%:10%``, ``300kW..500kW:50kW``, or a list separated by commas.
        policy: Names of policies, separated by commas.
        settings: Choices of each of them that are changed, ``AXIS=PART``.
        estimator: Estimators instead of the policies' own, separated by commas; None keeps them.
        risk: Accepted share of time above the cap.
        prices: CSV of time and price, in ``price_unit``.
        price_unit: Amount per energy, such as ``EUR/MWh``.
        intensity: CSV of time and carbon intensity, in ``intensity_unit``.
        intensity_unit: Amount per energy, such as ``gCO2/kWh``.
        start: Date of the trace's time 0, or of its first job where the trace has dates.
        repair: Correct dates whose UTC offset contradicts their neighbours'.
        at: The cap to examine closely.

    Raises:
        InputError: A text that is not of these forms. Values are checked by ``ask.prepare``.
    """
    return Question(
        task,
        cap,
        tuple(composed(name, settings) for name in names(policy, "--policy")),
        names(estimator, "--estimator") if estimator else (None,),
        share(risk),
        parse_source(prices, price_unit, "--price-unit") if prices else None,
        parse_source(intensity, intensity_unit, "--intensity-unit") if intensity else None,
        start,
        repair,
        at,
    )


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
