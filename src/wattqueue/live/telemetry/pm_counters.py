"""Read Cray's pm_counters: one file per node with ``POWER W STAMP us``. A stamp that does not move is stale.

The files lie in /sys of each node; the controller reads them through folders that the site exports (one root per
node). An exported file can stay readable with old content after its node has died, so the age of a sample cannot be
taken from the read.

Reference: HPE Cray EX, pm_counters (/sys/cray/pm_counters).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wattqueue.live.telemetry.base import PowerSample, Reading

# Where a node itself has them.
SYSTEM = Path("/sys/cray/pm_counters")
LINE = re.compile(r"([0-9]+)\s+W(?:\s+([0-9]+)\s+us)?\s*")


@dataclass
class PmCounters:
    """Node power from ``ROOT/power``, one root per node.

    The stamp is of the node's own clock, which may differ from ours by any amount. So only its *change* is used: a
    sample is as old as the last read at which the stamp had changed. A file without a stamp counts as fresh at each
    read.
    """

    roots: Mapping[str, Path]
    name: str = "pm_counters"
    resolution_w: float = 1.0
    _moved: dict[str, tuple[str, float]] = field(default_factory=dict)

    def read(self, now_s: float) -> Reading:
        """Read every node's file once."""
        samples: dict[str, PowerSample] = {}
        problems: list[str] = []
        for node, root in self.roots.items():
            try:
                text = (root / "power").read_text()
            except (OSError, UnicodeDecodeError) as error:
                problems.append(f"{node}: {root / 'power'}: {getattr(error, 'strerror', error)}")
                continue
            found = LINE.fullmatch(text)
            if found is None:
                problems.append(f"{node}: {text[:40]!r} is not a power reading")
                continue
            stamp = found.group(2) or ""
            if not stamp or self._moved.get(node, ("", 0.0))[0] != stamp:
                self._moved[node] = (stamp, now_s)
            samples[node] = PowerSample(float(found.group(1)), self._moved[node][1], self.name)
        return Reading(samples, tuple(problems))
