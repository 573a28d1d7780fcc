"""A Slurm that answers with what a real one printed (``recorded/``, made by ``record.py``), and keeps its writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.live.record import FILES, RECORDED
from wattqueue.live.slurm.associations import ASSOCIATIONS, SHARES
from wattqueue.live.slurm.budget_checks import PARTITIONS
from wattqueue.live.slurm.commands import CommandResult, SlurmError
from wattqueue.live.slurm.job_facts import EXCLUDED, FACTS
from wattqueue.live.slurm.lists import SUBMITTED
from wattqueue.live.slurm.suitable import FEATURES, RESERVATIONS

SITE = frozenset({FACTS, EXCLUDED, FEATURES, RESERVATIONS, PARTITIONS, ASSOCIATIONS, SHARES})
"""What the site has settled: nothing."""
JOB_HEADER = (RECORDED / "jobs.txt").read_text().partition("\n")[0] + "\n"
"""What squeue prints of an empty queue."""


def recorded(name: str) -> str:
    """One of the recorded outputs: nodes, jobs, pool, details or config."""
    return (RECORDED / f"{name}.txt").read_text()


@dataclass
class Recorded:
    """InstantResult the reading commands from ``texts``, which tests may change; every other command succeeds.

    ``fault`` is asked before each command and may have it hang, fail, print garbage or be cut short.
    """

    texts: dict[str, str] = field(default_factory=lambda: {name: recorded(name) for name in FILES})
    fault: Callable[[tuple[str, ...]], str | None] = lambda _: None
    calls: list[tuple[str, ...]] = field(default_factory=list)
    writes: list[tuple[str, ...]] = field(default_factory=list)

    def run(self, argv: Sequence[str]) -> CommandResult:
        """Return what the command printed when it was recorded."""
        argv = tuple(argv)
        self.calls.append(argv)
        fault = self.fault(argv)
        if fault == "hang":
            raise SlurmError(f"{argv[0]}: no answer in 10 s")
        if fault == "fail":
            return CommandResult(1, "", f"{argv[0]}: error: Unable to contact slurm controller", 0.0)
        if fault == "garbage":
            return CommandResult(0, "\x00\x7f|||not what you\nexpected=|", "", 0.0)
        name = next((name for name, command in FILES.items() if command == argv), None)
        if argv == SUBMITTED:
            rows = [line.split("|") for line in self.texts["jobs"].splitlines()[1:]]
            return CommandResult(0, "".join(f"{row[0]}|{row[2]}\n" for row in rows), "", 0.0)
        if argv in SITE:
            return CommandResult(0, "", "", 0.0)
        if name is None and "show" in argv:
            return CommandResult(1, "", f"{argv[-1]} not found", 0.0)
        if name is None:
            self.writes.append(argv)
            return CommandResult(0, "", "", 0.0)
        text = self.texts[name]
        return CommandResult(0, text[: len(text) // 2].rstrip("\n") if fault == "cut" else text, "", 0.0)
