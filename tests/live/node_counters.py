"""What the nodes of a real Slurm would draw, by a model of each job's phases: written where a controller reads it."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.live import typical
from tests.live.power_model import Phases
from tests.live.site import NET_W, Site
from wattqueue.formats.slurm.hostlist import expand

NODES = tuple(f"n{k}" for k in range(1, 9))
IDLE_W = 100.0
"""Of an idle node."""
EVERY_S = 0.5
ADAPTIVE = """
["row"]
source = "a test"
estimator = "{home}/typical.py:Typical"
order = "fcfs"
frequency = "highest"
placement = "lowest"
backfill = "easy"
ledger = {{ part = "adaptive", epsilon = {asked}, window_days = {days}, meter_s = 2.0, late = 0, forget_s = 10.0 }}
controls = []
"""


def write_adaptive_row(home: Path, asked: float, seconds: float) -> str:
    """Write a row whose ledger keeps a share of ``seconds``, with its estimator; returns the policy's name."""
    (home / "row.toml").write_text(ADAPTIVE.format(home=home, asked=asked, days=seconds / 86_400.0))
    shutil.copy(typical.__file__, home / "typical.py")
    return f"{home}/row.toml:row"


@dataclass
class NodeCounters:
    """Writes a reading of each node twice a second, as Cray's counters, and compares the true power with the cap."""

    site: Site
    cap_w: float
    phases: Callable[[str], Phases]
    """Of a job, by its id: the share of ``NET_W`` that each of its nodes draws, by the seconds since its start."""
    shown_w: float | None = None
    """What the meter shows of every node, whatever it draws; None for the truth, to a percent."""
    draw: random.Random = field(default_factory=lambda: random.Random(11))
    watched_s: float = 0.0
    above_s: float = 0.0
    most_w: float = 0.0
    end: threading.Event = field(default_factory=threading.Event)
    _begun: dict[tuple[str, str], tuple[float, Phases]] = field(default_factory=dict)
    """Job and time of its start as Slurm shows it: when it was first seen so, and its phases."""

    @property
    def folder(self) -> Path:
        """Where the counters are."""
        return self.site.root / "counters"

    @property
    def sources(self) -> str:
        """The lines of a configuration that name them."""
        return "\n".join(["[telemetry.pm_counters]", *(f'{name} = "{self.folder / name}"' for name in NODES)])

    def node_w(self) -> dict[str, float]:
        """Watts of each node now."""
        watts, now_s = dict.fromkeys(NODES, IDLE_W), time.monotonic()
        for line in self.site.lab.run(["squeue", "-h", "-t", "R", "-o", "%i %S %N"]).out.splitlines():
            job, start, nodes = line.split(" ", 2)
            since_s, phases = self._begun.setdefault((job, start), (now_s, self.phases(job)))
            watts |= dict.fromkeys(expand(nodes), IDLE_W + NET_W * phases(now_s - since_s))
        return watts

    def write(self) -> float:
        """Write one reading of each node; return the true watts of all."""
        watts = self.node_w()
        for name, drawn_w in watts.items():
            place = self.folder / name
            place.mkdir(parents=True, exist_ok=True)
            shown_w = drawn_w * (1.0 + self.draw.gauss(0.0, 0.01)) if self.shown_w is None else self.shown_w
            written = place / "power.new"
            written.write_text(f"{round(shown_w)} W {int(time.time() * 1e6)} us\n")
            written.replace(place / "power")
        return sum(watts.values())

    def run(self) -> None:
        """Write until the end."""
        last_s, drawn_w = time.monotonic(), self.write()
        while not self.end.wait(EVERY_S):
            now_s = time.monotonic()
            self.watched_s += now_s - last_s
            self.above_s += now_s - last_s if drawn_w > self.cap_w + 1e-6 else 0.0
            last_s, drawn_w = now_s, self.write()
            self.most_w = max(self.most_w, drawn_w)

    def __enter__(self) -> Self:
        self.write()
        self._writer = threading.Thread(target=self.run, daemon=True)
        self._writer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end.set()
        self._writer.join(30.0)
