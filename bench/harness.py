"""The frame of all benchmarks: register, run, compare digests, print a table, write JSON.

A benchmark is a function in ``bench/cases`` that measures one figure:

    @benchmark("EASY, 500,000 jobs", unit="jobs/s", at_least=500_000)
    def easy() -> Measured:
        seconds, run = timed(lambda: simulate(...))
        return Measured(500_000 / seconds, digest(run.schedule.start_s))

Times depend on the machine and are reported, against the target where there is one. Digests do not, and are
held: one that differs from ``digests.json`` fails the run, so that a fast wrong answer cannot pass.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from wattqueue.errors import WattQueueError

HERE = Path(__file__).parent
RESULTS = HERE / "results"
DIGESTS = HERE / "digests.json"
T = TypeVar("T")


class Skip(Exception):  # noqa: N818  no error: a reason
    """Raised by a benchmark that cannot run here; the message says what it wants."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a benchmark found; ``detail`` holds further figures for the JSON file."""

    value: float
    digest: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A registered benchmark."""

    name: str
    unit: str
    measure: Callable[[], Measured]
    at_least: float | None = None
    at_most: float | None = None

    @property
    def target(self) -> str:
        """The bound as text; empty where there is none."""
        if self.at_least is not None:
            return f">= {figure(self.at_least)}"
        return "" if self.at_most is None else f"<= {figure(self.at_most)}"

    def met(self, value: float) -> bool:
        """Whether a value keeps the bound."""
        low = -math.inf if self.at_least is None else self.at_least
        high = math.inf if self.at_most is None else self.at_most
        return low <= value <= high


@dataclass(frozen=True, slots=True)
class Outcome:
    """A benchmark, and what came of it here."""

    benchmark: Benchmark
    measured: Measured | None
    note: str
    failed: bool = False


REGISTERED: dict[str, Benchmark] = {}


def benchmark(
    name: str, *, unit: str, at_least: float | None = None, at_most: float | None = None
) -> Callable[[Callable[[], Measured]], Callable[[], Measured]]:
    """Register the function below under ``name``."""

    def register(measure: Callable[[], Measured]) -> Callable[[], Measured]:
        REGISTERED[name] = Benchmark(name, unit, measure, at_least, at_most)
        return measure

    return register


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Seconds that ``work`` takes, and what it gives."""
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def best_of(times: int, work: Callable[[], T]) -> tuple[float, T]:
    """The least seconds of several runs: what the machine can do when nothing disturbs it."""
    runs = [timed(work) for _ in range(times)]
    return min(seconds for seconds, _ in runs), runs[-1][1]


def digest(*columns: Any) -> str:
    """A short hash of arrays: dtype, shape, bytes."""
    total = hashlib.sha256()
    for column in columns:
        array = np.ascontiguousarray(column)
        total.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    return total.hexdigest()[:16]


def load_cases() -> None:
    """Import every module of ``bench/cases``, in order of their names."""
    for path in sorted((HERE / "cases").glob("[!_]*.py")):
        importlib.import_module(f"bench.cases.{path.stem}")


def run_all(names: Sequence[str], *, accept: bool = False) -> int:
    """Run the benchmarks whose name holds one of ``names`` (all, if none); how many failed."""
    load_cases()
    chosen = [b for b in REGISTERED.values() if not names or any(n.lower() in b.name.lower() for n in names)]
    known: dict[str, str] = json.loads(DIGESTS.read_text()) if DIGESTS.is_file() else {}
    console = Console()
    outcomes = []
    for one in chosen:
        with console.status(one.name):
            outcomes.append(run_one(one, known, accept=accept))
        console.print(f"[dim]{outcomes[-1].benchmark.name}: {line_of(outcomes[-1])}[/dim]")
    console.print(table_of(outcomes))
    console.print(f"Written: {write(outcomes)}")
    if accept:
        found = {o.benchmark.name: o.measured.digest for o in outcomes if o.measured and o.measured.digest}
        DIGESTS.write_text(json.dumps(dict(sorted((known | found).items())), indent=2) + "\n")
    return sum(o.failed for o in outcomes)


def run_one(one: Benchmark, known: dict[str, str], *, accept: bool) -> Outcome:
    """Measure, and hold the digest against the known one."""
    try:
        measured = one.measure()
    except Skip as reason:
        return Outcome(one, None, f"left out: {reason}")
    except (subprocess.CalledProcessError, WattQueueError, OSError, AssertionError) as error:
        return Outcome(one, None, f"FAILED: {error}", failed=True)
    expected = known.get(one.name)
    if measured.digest is not None and not accept and measured.digest != expected:
        return Outcome(one, measured, f"WRONG ANSWER: digest {measured.digest}, expected {expected}", failed=True)
    if not one.target:
        return Outcome(one, measured, "")
    return Outcome(one, measured, "met" if one.met(measured.value) else "not met here")


def line_of(outcome: Outcome) -> str:
    """The outcome in a few words."""
    if outcome.measured is None:
        return outcome.note
    return f"{figure(outcome.measured.value)} {outcome.benchmark.unit} {outcome.note}".rstrip()


def figure(value: float) -> str:
    """A number with three digits that count, thousands apart."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"


def table_of(outcomes: Iterable[Outcome]) -> Table:
    """What the terminal shows at the end."""
    table = Table(title=f"Benchmarks on {processor()}, Python {platform.python_version()}")
    table.add_column("benchmark", overflow="fold")
    for name in ("measured", "target"):
        table.add_column(name, justify="right")
    for name in ("unit", "verdict"):
        table.add_column(name, overflow="fold")
    for o in outcomes:
        value = "-" if o.measured is None else figure(o.measured.value)
        table.add_row(o.benchmark.name, value, o.benchmark.target, o.benchmark.unit, o.note)
    return table


def write(outcomes: Iterable[Outcome]) -> Path:
    """All figures with what they were measured on, under bench/results; the path."""
    RESULTS.mkdir(exist_ok=True)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    rows = [
        {
            "name": o.benchmark.name,
            "value": None if o.measured is None else o.measured.value,
            "unit": o.benchmark.unit,
            "target": o.benchmark.target,
            "digest": None if o.measured is None else o.measured.digest,
            "note": o.note,
            "detail": {} if o.measured is None else o.measured.detail,
        }
        for o in outcomes
    ]
    path = RESULTS / f"{stamp}.json"
    path.write_text(json.dumps({"time": stamp, "where": surroundings(), "benchmarks": rows}, indent=2) + "\n")
    return path


def surroundings() -> dict[str, Any]:
    """Describe what a time depends on: processor, numba, load."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "commit": commit(),
        **{name: version(name) for name in ("numpy", "numba", "polars")},
    }


def processor() -> str:
    """Model of the processor, as Linux knows it."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def commit() -> str:
    """The commit measured, ``+`` behind it where files differ from it; empty outside of a clone."""
    asked = ["git", "-C", str(HERE), "describe", "--always", "--dirty=+", "--abbrev=12"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip()
