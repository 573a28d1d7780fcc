"""Keep the data file of job_submit.lua as the cluster is, in a thread beside the controller's rounds.

A round only compares one number (``Observer.equipment``), which is another where a node was added, moved or resized.
Then, and once a minute for staff and slurm.conf, the thread derives what the file should say, and replaces the file
where it says something else: also one that somebody removed or damaged. sacctmgr may hang as long as slurmdbd does,
and a disk may be slow; the rounds go on meanwhile.

Only a controller that holds the lease writes. One that has a guard (``live.guard``) sends the lines to it, and has no
right to write the file; the guard checks what they say, and tells what it changed. Where something cannot be read or
written, the last file stays and the status says so; a failing sacctmgr leaves the staff as it is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wattqueue.errors import WattQueueError
from wattqueue.live.cluster import Node
from wattqueue.live.config import LiveConfig
from wattqueue.live.driver import Cluster
from wattqueue.live.extension import Extension
from wattqueue.live.guard.client import connection_to, send_lines
from wattqueue.live.planner import RoundState
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.guard import READ_OF_CONF, data_of, slurm_config
from wattqueue.live.slurm.sizing import Shape
from wattqueue.live.slurm.submit_data import SubmitData, body_of
from wattqueue.live.slurm.submit_text import SUBMIT_DATA, keep_lines, staff_in, staff_of
from wattqueue.live.watts.fed import Limits, limits_from
from wattqueue.live.world import Layout

EVERY_S = 60.0
"""How often staff, slurm.conf and the file itself are looked at."""
WAIT_S = 1.0
"""How long the end of a controller waits for the thread: what it writes is complete or not there."""


@dataclass
class SubmitFile:
    """The data file at ``path``."""

    path: Path
    cluster: SlurmCluster
    layout_of: Callable[[Sequence[Node]], Layout]
    """Matches nodes with the units of the machine."""
    keep: Callable[[Path, str], str]
    """Replaces the file where it says something else than these lines; returns what is wrong with them."""
    may_write: Callable[[], bool] = lambda: True
    """Whether this process holds the lease."""
    problem: str = ""
    """Why the file may not be as the cluster is; empty where it is."""
    _rows: Sequence[tuple[Node, Shape]] = ()
    """Nodes by partition, as the round saw them when they changed last."""
    _equipment: int | None = None
    _staff: tuple[int, ...] | None = None
    """As last read; None before that."""
    clock: Callable[[], float] = time.time
    _layout: tuple[Sequence[tuple[Node, Shape]], Layout] | None = None
    """The last nodes, matched."""
    _made: tuple[Sequence[tuple[Node, Shape]], tuple[int, ...], Mapping[str, str], Limits, SubmitData] | None = None
    """What the last data were made of, and they."""
    _wake: threading.Event = field(default_factory=threading.Event, repr=False)
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)
    _thread: threading.Thread | None = None

    def look(self) -> None:
        """Wake the thread where nodes are others than at the last call. Part of a round."""
        observer = self.cluster.observer
        if observer.equipment != self._equipment:
            self._equipment, self._rows = observer.equipment, observer.node_rows()
            self._wake.set()

    def refresh(self) -> None:
        """Write the file where it does not say what it should."""
        if not self._rows or not self.may_write():
            return
        try:
            self.problem = self.keep(self.path, body_of(self._data(self._rows)))
        except WattQueueError as error:
            self.problem = f"job_submit.lua may count other nodes than there are: {error}"

    def _data(self, rows: Sequence[tuple[Node, Shape]]) -> SubmitData:
        """Return what the file should say; not made again of the same nodes, staff and lines of slurm.conf."""
        staff = staff_of(self.cluster.slurm)
        if staff is None:
            staff = staff_in(self.path) if self._staff is None else self._staff
        self._staff = staff
        config = slurm_config(self.cluster.slurm)
        values = {key: config.get(key, "") for key in READ_OF_CONF}
        if self._layout is None or self._layout[0] is not rows:
            self._layout = rows, self.layout_of([row for row, _ in rows])
        layout = self._layout[1]
        limits = limits_from(layout.machine, self.clock())
        if self._made is None or self._made[0] is not rows or self._made[1:4] != (staff, values, limits):
            self._made = rows, staff, values, limits, data_of(layout, rows, values, staff, limits)
        return self._made[4]

    def start(self, _say: Callable[[str], None] = lambda _: None) -> None:
        """Begin. The first file is written after the first round, which takes the lease."""
        self._thread = threading.Thread(target=self._run, name="submit-data", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(EVERY_S)
            self._wake.clear()
            if not self._stop.is_set():
                self.refresh()

    def close(self) -> None:
        """End. The file stays: it holds while no controller is at work."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(WAIT_S)


def submit_extension(file: SubmitFile) -> Extension:
    """Return the stage that looks for other nodes, and the thread that writes."""

    def look(_: RoundState) -> None:
        file.look()

    return Extension(
        {"written": look}, lambda: [file.problem] if file.problem else [], file.start, file.close, keeps=file
    )


def submit_file_of(
    config: LiveConfig,
    cluster: Cluster,
    layout_of: Callable[[Sequence[Node]], Layout],
    may_write: Callable[[], bool],
    clock: Callable[[], float],
) -> SubmitFile | None:
    """Return what keeps the data file; None outside of control mode, or with another driver."""
    if config.mode != "control" or not isinstance(cluster, SlurmCluster):
        return None
    path, section = config.beat_dir.resolve() / SUBMIT_DATA, config.guard

    def keep(path: Path, body: str) -> str:
        if section is not None:
            return send_lines(connection_to(section.socket), body)
        keep_lines(path, body, clock())
        return ""

    # a guard writes for whoever it serves
    return SubmitFile(path, cluster, layout_of, keep, may_write if section is None else lambda: True, clock=clock)
