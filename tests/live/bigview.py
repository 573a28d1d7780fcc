"""A large cluster as squeue and sinfo would print it: generated, for speed and size."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.live.recordings import JOB_HEADER
from wattqueue.formats.slurm.hostlist import compress
from wattqueue.live.slurm.commands import CommandResult

NOW_S = 1_800_000_000.0


class BigSlurm:
    """InstantResult the four reading commands with prepared text; counts what is asked, takes no write."""

    def __init__(
        self, queued: int, nodes: int, running: int, seed: int = 1, *, running_w: int = 20, comment: str = ""
    ) -> None:
        """Generate jobs and nodes; ``running_w`` is the licence of a running job for each of its nodes."""
        self.running_w, self.comment = running_w, comment
        random_ = random.Random(seed)
        half = nodes // 2
        self.names = {"p1": [f"n{i}" for i in range(1, half + 1)], "p2": [f"m{i}" for i in range(1, half + 1)]}
        self.lines: list[str] = []
        self.details: list[str] = []
        self.next_id, self.used_w = 1, 0
        busy: dict[str, int] = {"p1": 0, "p2": 0}
        for _ in range(running):
            partition = random_.choice(["p1", "p2"])
            size = random_.choice([1, 2, 4])
            first = busy[partition]
            if first + size <= half:
                busy[partition] += size
                self._add("RUNNING", partition, size, random_, self.names[partition][first : first + size])
        for _ in range(queued):
            self._add("PENDING", random_.choice(["p1", "p2", "p1,p2"]), random_.choice([1, 2, 4, 8]), random_, [])
        self.node_text = "".join(
            f"{compress(names[low:high])}|{state}|{part}|16|64000|2|8|(null)\n"
            for part, names in self.names.items()
            for state, low, high in (("allocated", 0, busy[part]), ("idle", busy[part], half))
            if high > low
        )
        self.total_w = 40 * nodes
        self.calls = 0
        self.json = '{"jobs": [' + ",".join(self.details) + "]}"
        self.text = JOB_HEADER + "".join(self.lines)

    def _add(self, state: str, partition: str, size: int, random_: random.Random, nodes: Sequence[str]) -> None:
        number, self.next_id = self.next_id, self.next_id + 1
        submit = int(NOW_S) - 20_000 + number
        limit, uid = random_.randrange(10, 600), 1000 + random_.randrange(100)
        watts = 200 * size if state == "PENDING" else self.running_w * size
        self.used_w += watts if state == "RUNNING" else 0
        start = str(int(NOW_S) - random_.randrange(60 * limit)) if state == "RUNNING" else "N/A"
        fields = [number, number, submit, state, "JobHeldUser" if state == "PENDING" else "None", partition, size]
        fields += [
            16 * size,
            f"{limit // 60}:{limit % 60:02d}:00",
            f"watts:{watts}",
            0 if state == "PENDING" else 9,
            uid,
        ]
        fields += [start, compress(nodes), "", "(null)", size]
        self.lines.append("|".join(str(f) for f in fields) + "\n")
        app = f"app{random_.randrange(50)}"
        self.details.append(
            f'{{"job_id": {number}, "submit_time": {submit}, "name": "{app}", '
            f'"comment": "{self.comment}", "admin_comment": "wattqueue:held"}}'
        )

    def without_line(self, number: int) -> None:
        """A job is gone from squeue's list."""
        lines = self.text.splitlines(keepends=True)
        self.text = "".join(lines[: number + 1] + lines[number + 2 :])  # the header comes first

    def run(self, argv: Sequence[str]) -> CommandResult:
        self.calls += 1
        if argv[0] == "sinfo":
            text = self.node_text
        elif argv[0] == "scontrol":
            text = f"LicenseName=watts Total={self.total_w} Used={self.used_w} Free=0 Reserved=0 Remote=no\n"
        else:
            text = self.json if "--json" in argv else self.text
        return CommandResult(0, text, "", 0.0)
