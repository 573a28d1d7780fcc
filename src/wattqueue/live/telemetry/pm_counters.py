"""Cray's pm_counters: ``POWER W STAMP us`` in a file a node. A stamp that stands still is stale.

Reference: HPE Cray EX, pm_counters (/sys/cray/pm_counters).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wattqueue.live.telemetry.base import Reading, Sample

SYSTEM = Path("/sys/cray/pm_counters")
LINE = re.compile(r"(\d+)\s+W(?:\s+(\d+)\s+us)?\s*")


@dataclass
class PmCounters:
    """Node power from ``ROOT/power``, a root a node.

    The stamp is of the node's own clock, so only its moving is believed: a sample is as old as the
    last read at which its stamp had moved.
    """

    roots: Mapping[str, Path]
    name: str = "pm_counters"
    _moved: dict[str, tuple[str, float]] = field(default_factory=dict)

    def read(self, now_s: float) -> Reading:
        samples: dict[str, Sample] = {}
        problems: list[str] = []
        for node, root in self.roots.items():
            try:
                text = (root / "power").read_text()
            except (OSError, UnicodeDecodeError) as error:
                problems.append(f"{node}: {root / 'power'}: {getattr(error, 'strerror', error)}")
                continue
            found = LINE.fullmatch(text)
            if found is None:
                problems.append(f"{node}: {text[:40]!r} is no power")
                continue
            stamp = found.group(2) or ""
            if not stamp or self._moved.get(node, ("", 0.0))[0] != stamp:
                self._moved[node] = (stamp, now_s)
            samples[node] = Sample(float(found.group(1)), self._moved[node][1], self.name)
        return Reading(samples, tuple(problems))
