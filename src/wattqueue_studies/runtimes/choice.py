"""Choose a setting of ``recent-quantile`` on the first half of a trace; the second half judges it.

The rule is stated before the simulations: of the settings whose p99 of the wait on the first half is no higher than
EASY's, the one with the least mean there. Where none is, there is no choice. Settings that did other work than EASY
are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from wattqueue.report.document import Table
from wattqueue_studies.frame.samples import Samples, change_percent

EASY, VARIED = "easy", "easy-sjbf+rt-quantile"
QUANTILES, RINGS = (0.5, 0.75, 0.9), (5, 10)
"""Quantiles, and run times that are remembered."""
ALIKE: Mapping[str, tuple[str, ...]] = {
    "user": ("user",),
    "user, walltime": ("user walltime", "user"),
    "user, nodes": ("user nodes", "user"),
}
"""Which jobs are alike."""


def settings() -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Return the eighteen settings: the row that they vary, and its run-time part."""
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for at, ring, (group, alike) in product(QUANTILES, RINGS, ALIKE.items()):
        part = {"part": "recent-quantile", "at": at, "jobs": ring, "alike": list(alike), "correction": "start"}
        found[f"p{100 * at:.0f} of {ring}, {group}"] = (VARIED, {"runtime": part})
    return found


@dataclass(frozen=True, slots=True)
class Choice:
    """The settings on both halves of one trace.

    Attributes:
        trace: Name of the trace.
        samples: Metrics of EASY and of all settings; settings of the samples are the halves.
        first: Name of the first half.
        second: Name of the second half.
    """

    trace: str
    samples: Samples
    first: str
    second: str

    @property
    def chosen(self) -> str:
        """Return the setting by the rule of this module, empty where none is allowed."""
        least = self._of(self.first, EASY)[1]
        same = [name for name in settings() if self.samples.gate(self.first, name, EASY).open]
        allowed = [name for name in same if self._of(self.first, name)[1] <= least]
        return min(allowed, key=lambda name: self._of(self.first, name)[0], default="")

    def _of(self, half: str, policy: str) -> tuple[float, float]:
        """Return mean and p99 of the wait."""
        mean, p99 = (float(self.samples.of(half, policy, f"wait_s_{name}")[0]) for name in ("mean", "p99"))
        return mean, p99

    def table(self) -> Table:
        """Return all settings on both halves, the chosen one marked."""
        rows = [
            [name + (" (chosen)" if name == self.chosen else ""), *(f"{v:,.0f}" for v in self._both(name))]
            for name in (EASY, *settings())
        ]
        title = f"{self.trace}: setting of the quantile, chosen on the first half"
        heads = (
            "setting",
            "first half:\nmean wait",
            "first half:\np99",
            "second half:\nmean wait",
            "second half:\np99",
        )
        return Table(heads, rows, title, self._verdict())

    def _both(self, name: str) -> tuple[float, ...]:
        """Return mean and p99 on the first half, then on the second."""
        return (*self._of(self.first, name), *self._of(self.second, name))

    def _verdict(self) -> str:
        """Return the sentence below the table."""
        if not self.chosen:
            return "No setting keeps EASY's p99 on the first half: none is chosen."
        rule = "Rule: the least mean among those whose p99 is no higher than EASY's, on the first half."
        through = self.samples.gate(self.second, self.chosen, EASY)
        if not through.open:
            return f"{rule} On the second half: {through.why}; not comparable."
        pairs = (self.samples.pair(self.second, self.chosen, EASY, f"wait_s_{name}") for name in ("mean", "p99"))
        mean, p99 = (change_percent(float(own[0]), float(base[0])) for own, base in pairs)
        found = f"changes EASY's mean by {mean:+.1f} % and its p99 by {p99:+.1f} %"
        return f"{rule} On the second half the chosen one {found}."

    def document(self) -> dict[str, Any]:
        """Return the choice and all figures for JSON."""
        return {"trace": self.trace, "chosen": self.chosen or None, "samples": self.samples.rows()}
