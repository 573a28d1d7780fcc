"""Ranges of the options of workload generators, each with its reason.

A generator allocates tables by its options, so an option that is far too large (``jobs=1e18``) would end in an error
of numpy, or fill the memory of the machine before it fails. These limits refuse it first, in one line. They lie above
any real trace: the largest published one, F-DATA, has 24 million jobs.

``require`` checks the options as they are given; ``require_count`` and ``require_span`` check what follows from
several of them together (jobs that a load needs, length of the trace), which no single range can exclude.
"""

from __future__ import annotations

from wattqueue.errors import InputError
from wattqueue.model.bounds import TIME_S, UNITS, Bound

JOBS = Bound(1, 5e7, "", "twice the largest published trace; every job takes memory")
"""Jobs of a generated trace."""
USERS = Bound(1, 1e6, "", "every user takes memory")
"""Users of a generated trace."""
DAYS = Bound(1e-4, 99_420, "d", "a trace lasts some seconds at least, and times end at 2**33 s")
"""Length of a generated trace; the upper limit is that of times, ``model.bounds.TIME_S``."""
LOAD = Bound(1e-6, 1e3, "", "1 is the whole capacity of the machine")
"""Work of a trace over what the machine can do in its time."""
SCALE = Bound(0, 100, "", "1 is the published or assumed spread, 0 is none")
"""Factors on standard deviations."""

RATIO = Bound(1, 1e3, "", "a figure over another that is not greater")
"""Ratios of times: of a benchmark to its light version, of a requested time to the run time."""
FIRST = Bound(0, 5e7, "", "as jobs of a trace")
"""Jobs that are there when a trace begins."""

OPTIONS = {
    "jobs": JOBS,
    "nodes": UNITS,
    "users": USERS,
    "days": DAYS,
    "load": LOAD,
    "drift": SCALE,
    "spread": SCALE,
    "divide": RATIO,
    "accuracy": RATIO,
    "first": FIRST,
}
"""Range of each option by its name; an option means the same for every generator."""
WHOLE = frozenset({"jobs", "nodes", "users", "first"})
"""Options that are whole numbers."""


def require(**options: float | None) -> None:
    """Check options by name; None (not given) passes. Raises: InputError naming the first that is out of range."""
    for name, value in options.items():
        if value is not None:
            OPTIONS[name].require(value, name)


def require_count(jobs: int, generator: str) -> None:
    """Check how many jobs follow from the options. Raises: InputError."""
    if not jobs <= JOBS.high:
        raise InputError(
            f"the {generator} generator would draw {jobs:,.6g} jobs, more than {JOBS.high:,.0f}",
            hint="take fewer days, a lower load or fewer nodes",
        )


def require_span(span_s: float, generator: str) -> float:
    """Return the length of a trace if times can represent it. Raises: InputError."""
    if not span_s <= TIME_S.high:
        raise InputError(
            f"the {generator} generator would spread the jobs over {span_s / 86_400:,.6g} days",
            hint="take a higher load, fewer nodes or fewer jobs",
        )
    return span_s
