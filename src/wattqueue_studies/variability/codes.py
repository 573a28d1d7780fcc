"""Kernels and applications of paper 2: their activity over time, sample by sample (``codes.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats
from wattqueue.model.plain_numbers import is_whole
from wattqueue_studies.pmc.events import LEVELS

SAMPLE_S = 0.1
"""Period of power samples (section 4.1 of paper 2)."""
COUNTER_S = 1.0
"""Period of counters (section 4.1)."""
RUN_S = 60.0
"""Length of a generated run; a longer one repeats what follows its serial part."""
FAST = (1, 10)
"""Samples of a fast phase: 100 ms to 1 s."""
SLOW_S = 6.0
"""Mean length of a slow phase; its levels differ by ``SLOW_SWING`` times the code's swing."""
SLOW_SWING = 1.5
IMBALANCE = 0.03
"""Active cores that each further kind of process has fewer of, relative: zones of NAS-MZ differ in size."""
PATTERN_SEED = 20_190_626
"""Seed of the phases of all codes, which are the same in every draw of chips."""


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel or application (fields as in ``codes.toml``)."""

    name: str
    cores: float
    level: tuple[float, ...]
    toggle: float
    swing: float
    serial_s: float
    halt: float = 0.0
    kinds: int = 1

    @property
    def processes(self) -> int:
        """Return how many processes run, each on a socket: the number behind a name of NAS-MZ, else 1."""
        tail = self.name.rpartition(".")[2]
        return int(tail) if is_whole(tail) else 1

    def kind_of(self) -> NDArray[np.int64]:
        """Return the kind of each process: processes of a kind do the same. Shape (processes,)."""
        return np.arange(self.processes) % self.kinds


@dataclass(frozen=True, slots=True, eq=False)
class CodeActivity:
    """True activity of one kind of process over a run, in samples of ``SAMPLE_S``.

    Attributes:
        level: Active cores and ratios. Shape (samples, 9).
        halt: Share of the active time in which cores are halted. Shape (samples,).
    """

    level: Floats
    halt: Floats

    def seconds(self) -> Floats:
        """Return the activity as counters see it: means over ``COUNTER_S``. Shape (seconds, 9)."""
        per = round(COUNTER_S / SAMPLE_S)
        found: Floats = self.level.reshape(-1, per, len(LEVELS)).mean(axis=1)
        return found


@lru_cache
def kernels() -> Mapping[str, Code]:
    """Return the eleven training kernels of Table 2."""
    return _codes("kernels")


@lru_cache
def applications() -> Mapping[str, Code]:
    """Return the 16 applications of the workload: nine of PARSECSs, seven of NAS-MZ."""
    return _codes("applications")


def _codes(section: str) -> dict[str, Code]:
    """Read one section of ``codes.toml``."""
    text = files("wattqueue_studies.variability").joinpath("codes.toml").read_text(encoding="utf-8")
    return {
        name: Code(name=name, **{**entry, "level": tuple(entry["level"])})
        for name, entry in tomllib.loads(text)[section].items()
    }


@lru_cache(maxsize=256)
def activity(code: Code, kind: int = 0) -> CodeActivity:
    """Return the activity of one kind of process of a code: serial part, then slow phases with fast ones in them.

    The phases depend on the code's levels and kind only, never on chips or workloads.
    """
    named = int.from_bytes(code.name.partition(".")[0].encode(), "little") % 2**63
    rng = np.random.default_rng([PATTERN_SEED, named, kind])
    n, first = round(RUN_S / SAMPLE_S), round(code.serial_s / SAMPLE_S)
    slow = 1.0 + SLOW_SWING * code.swing * _phases(rng, n, (round(SLOW_S / SAMPLE_S / 2), round(SLOW_S / SAMPLE_S * 2)))
    fast = 1.0 + code.swing * _phases(rng, n, FAST)
    level = np.empty((n, len(LEVELS)))
    # Work that comes in bursts shows in the ratios; the cores themselves wait for each other a little.
    level[:, 1:] = np.maximum(np.array(code.level) * slow * fast, 0.0)
    waits = code.swing * np.abs(_phases(rng, n, FAST)[:, 0]) / 3.0
    level[:, 0] = np.maximum(code.cores * (1.0 - IMBALANCE * kind) * (1.0 - waits), min(code.cores, 1.0))
    level[:first, 0] = 1.0
    return CodeActivity(level, np.where(np.arange(n) < first, 0.0, code.halt))


def _phases(rng: np.random.Generator, n: int, length: tuple[int, int]) -> Floats:
    """Draw phases: one standard normal value per component, within 2.5, for lengths from a range. Shape (n, 8)."""
    ends = np.cumsum(rng.integers(length[0], length[1] + 1, n))
    phase = np.searchsorted(ends, np.arange(n), side="right")
    drawn = np.clip(rng.standard_normal((int(phase[-1]) + 1, len(LEVELS) - 1)), -2.5, 2.5)
    found: Floats = drawn[phase]
    return found
