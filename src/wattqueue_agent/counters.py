"""Counts of a whole node by ``perf stat``: cycles, instructions, and memory transactions since the agent started.

One process of perf counts on all processors and writes a line an event in each interval; a thread adds them up. A node
on which perf cannot run, or does not count an event (a virtual machine, no right to), has no counts, and says why.
"""

from __future__ import annotations

import math
import os
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

from wattqueue.errors import InputError
from wattqueue.formats.perf_stat import count_of_line
from wattqueue_agent.config import CountersSection

CYCLES, INSTRUCTIONS, TRANSACTIONS = "cycles", "instructions", "transactions"
"""Names of the counts in an agent's state."""
NOT_YET = "no counts yet"


@dataclass
class PerfCounters:
    """A running ``perf stat``.

    Attributes:
        section: The program and the events.
        period_s: Length of an interval.
        problem: Why there are no counts; empty where there are.
    """

    section: CountersSection
    period_s: float
    problem: str = NOT_YET
    _totals: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start to count; a program that cannot be started is a problem, and no error."""
        events = [option for event in (CYCLES, INSTRUCTIONS, *self.section.memory) for option in ("-e", event)]
        interval = str(max(100, round(self.period_s * 1e3)))
        argv = [self.section.perf, "stat", "-a", "-x", ";", "-I", interval, *events]
        try:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                env={**os.environ, "LC_ALL": "C"},
            )  # fmt: skip
        except OSError as error:
            self.problem = f"{self.section.perf} cannot be run: {error.strerror}"
            return
        threading.Thread(target=self._follow, args=(self._process,), daemon=True).start()

    def read(self) -> dict[str, float]:
        """Return the counts since the start; empty where ``problem`` says why."""
        with self._lock:
            return {} if self.problem else dict(self._totals)

    def close(self) -> None:
        """End perf."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stderr is not None:
                self._process.stderr.close()

    def _follow(self, process: subprocess.Popen[str]) -> None:
        last = ""
        try:
            for line in process.stderr or ():
                last = line.strip() or last
                self.add(line)
        except ValueError:  # closed
            return
        with self._lock:
            if self.problem in ("", NOT_YET):
                self.problem = f"{self.section.perf} ended: {last[:200]}"

    def add(self, line: str) -> None:
        """Add the count of one line of perf; other lines are left out."""
        try:
            count = count_of_line(line.strip(), Path(self.section.perf), 0)
        except InputError:
            return
        with self._lock:
            if math.isnan(count.value):
                self.problem = f"{self.section.perf} does not count {count.event} on this node"
                return
            name = count.event.partition(":")[0]
            name = name if name in (CYCLES, INSTRUCTIONS) else TRANSACTIONS
            self._totals[name] = self._totals.get(name, 0.0) + count.value
            if len(self._totals) == 3:  # each of them was counted at least once
                self.problem = ""
