"""Write the log of a controller: what is new in a round, and not the same line each second."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from wattqueue.live.reports.report import Report

AGAIN_S = 60.0
"""A problem whose figures change is logged again after so long."""
_FIGURE = re.compile(r"[0-9][0-9,.]*")


@dataclass
class ControllerLog:
    """Logs round after round through ``say``: writes with their outcome, problems when they come, change and go.

    In observe and advise mode it logs what would be written, when that changes.
    """

    say: Callable[[str], None]
    _problems: dict[str, tuple[float, set[str]]] = field(default_factory=dict)
    """Problems of the last round without their figures: when they were logged last, and the texts."""
    _would: str = ""

    def round(self, report: Report) -> None:
        """Log one round."""
        self._say_problems(report)
        for outcome in report.outcomes:
            write = outcome.write
            what = f"{write.kind} {write.target}: {write.before} -> {write.after} ({write.why})"
            self.say(f"{what}: {outcome.error}" if outcome.error else what)
        would = would_line(report)
        if would != self._would:
            self.say(would or "would write nothing")
            self._would = would

    def _say_problems(self, report: Report) -> None:
        now_s, found = report.snapshot.taken_s, dict[str, set[str]]()
        for text in report.problems:
            found.setdefault(_FIGURE.sub("#", text), set()).add(text)
        for kind in self._problems.keys() - found.keys():
            self.say(f"no more: {min(self._problems.pop(kind)[1])}")
        for kind, texts in found.items():
            since_s, known = self._problems.get(kind, (-AGAIN_S, set()))
            if texts - known and now_s - since_s >= AGAIN_S:
                for text in sorted(texts - known):
                    self.say(text)
                self._problems[kind] = (now_s, texts)


def would_line(report: Report) -> str:
    """Return what observe and advise mode leave out, in one line; empty where that is nothing."""
    if not report.would:
        return ""
    first = "; ".join(f"{w.kind} {w.target} {w.after}" for w in report.would[:5])
    return f"would write {len(report.would)}: {first}"
