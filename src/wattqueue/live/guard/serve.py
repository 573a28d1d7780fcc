"""The guard's process: runs commands that read for the planner, and writes that pass its checks.

It carries out the writes of one planner at a time (``place``), over a local socket that one account may open. A request
is answered before the next one is read. It never plans, and without a planner it renews no heartbeat, so that the
release fall-back takes over (``live.release``). One thing it does by itself: where the cap that it reads falls below
the open pool, it lowers the pool.

Requests:

``{"do": "read", "argv": [...]}``
    Run a command that cannot change anything (``reads``); the answer is what it printed. The guard keeps the lists of
    jobs and of the pool, and checks writes against them.
``{"do": "write", "writes": [...]}``
    Carry writes out in their order; the answer has an error for each, empty where it was done.
``{"do": "submit-data"}`` and the lines of the data file of job_submit.lua as the text
    Replace the file where it says something else than these lines, as far as they are safe (``data_file``); the answer
    tells what was changed in them.
``{"do": "alive"}``
    A round has ended: the guard renews lease and heartbeat. It does not while there is none for ``away_s``.
``{"do": "away"}``
    The planner ends: the heartbeat is removed.
``{"do": "status"}``
    The answer is what the guard checks against, what it accepts, and since when it has not heard of a planner; root may
    ask, too.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wattqueue.errors import OutputError
from wattqueue.live.apply import LEFT_OUT, Applier, WriteResult
from wattqueue.live.cluster import POOL as POOL_NAME
from wattqueue.live.cluster import ClusterError, Details, Job, JobKey, ReleaseJob, SetPool, Snapshot, Write
from wattqueue.live.files.lease import BEAT, Lease, write_beat
from wattqueue.live.files.withheld import store, stored_figure, suspended_w
from wattqueue.live.guard.audit import AuditFile
from wattqueue.live.guard.checks import GuardBound, Seen
from wattqueue.live.guard.data_file import safe_lines
from wattqueue.live.guard.limits import LeastLimits
from wattqueue.live.guard.limits_told import LimitsReader
from wattqueue.live.guard.messages import from_json
from wattqueue.live.guard.own_cap import OwnCap
from wattqueue.live.guard.place import PlannerPlace
from wattqueue.live.guard.settings import GuardSettings
from wattqueue.live.guard.wire import Packet
from wattqueue.live.slurm.commands import Slurm, read
from wattqueue.live.slurm.lists import DETAILS, JOBS, POOL, counted_pool, parse_jobs, parse_pool, parse_stated
from wattqueue.live.slurm.submit_text import SUBMIT_DATA, keep_lines, staff_in, staff_of
from wattqueue.live.slurm.writer import SnapshotWriter

OLD_S = 20.0
"""Age from which the guard reads jobs and pool itself before a write."""
COMMENTS_S = 5.0
"""Age from which it reads comments again before a job is stopped, requeued or slowed."""
CAP_S = 5.0
"""Time between two looks at the cap."""
SOON_S = 0.01
"""Silence after which the planner is taken to decide, and the guard prepares its checks."""
SILENT_S = 15.0
"""Silence of a planner after which another one may take its place, at most: as long as a standby waits by default."""
READERS = frozenset({"squeue", "sinfo", "sacct", "sshare", "sprio"})
"""Commands that only read, whatever their arguments. sdiag is none: it can set counters back."""
SHOWS = frozenset({"scontrol", "sacctmgr"})
FLAGS = frozenset({"-o", "-a", "-d", "-n", "-P", "-s", "--json", "--oneliner", "--all", "--details"})
"""Options that may stand before ``show``."""


def reads(argv: Sequence[str]) -> bool:
    """Whether a command can only read, and only what Slurm says: sacct reads a file that is named."""
    if any("/" in word for word in argv):
        return False
    name, *rest = argv or ("",)
    words = [word for word in rest if word not in FLAGS]
    return name in READERS or (name in SHOWS and words[:1] == ["show"])


@dataclass
class WriteGuard:
    """What has the rights. ``clock`` gives seconds since the epoch."""

    settings: GuardSettings
    slurm: Slurm
    writer: SnapshotWriter
    journal: AuditFile
    clock: Callable[[], float] = time.time
    boundary: Callable[[str], None] = lambda _: None
    """Called before and after each batch of writes: where tests kill the process."""
    _texts: dict[tuple[str, ...], tuple[float, str]] = field(default_factory=dict)
    """What commands printed, and when it was read."""
    _rows: dict[str, Job] = field(default_factory=dict)
    """Jobs by the lines that were parsed."""
    _details: tuple[float, dict[JobKey, Details]] = field(default_factory=lambda: (-math.inf, {}))
    """What jobs stated, and when it was read."""
    _bound: tuple[tuple[float, ...], GuardBound] | None = None
    """The bound, and the times of the lists that it was made from."""

    def __post_init__(self) -> None:
        """Make what holds the right to write."""
        self.cap = OwnCap(self.settings.cap)
        self.lease, self.limits = Lease(self.settings.run_dir, "guard"), LeastLimits()
        self.limits_reader = None if self.settings.limits_socket is None else LimitsReader(self.settings.limits_socket)
        self.applier = Applier(self.writer, self.journal, self.boundary)
        self.allowed: Collection[int | None] = {0, os.getuid(), self.settings.planner_uid()}  # root asks how it is
        self.place = PlannerPlace(min(SILENT_S, self.settings.away_s / 4.0))
        self._beat_s = self._kept_s = self._written_s = -1e18
        self._taken = False

    def answer(self, request: Packet) -> Packet:
        """Return the answer to a request; a refusal is an answer."""
        try:
            match request.header.get("do"):
                case "read":
                    return self._read(request.header.get("argv"))
                case "write":
                    return Packet({"errors": self._write(request.header.get("writes"))})
                case "submit-data":
                    return Packet({"told": self._keep_data(request.text)})
                case "alive":
                    return Packet(self._alive())
                case "away":
                    return Packet(self._away())
                case "status":
                    return Packet(self._status())
                case _:
                    return Packet({"error": "unknown request"})
        except (ClusterError, OutputError) as error:
            return Packet({"error": str(error)})

    def _read(self, argv: object) -> Packet:
        """Run a command that only reads."""
        if not isinstance(argv, list) or not all(isinstance(word, str) for word in argv) or not reads(argv):
            return Packet({"error": "only commands that read are run"})
        answer = self.slurm.run(argv)
        if answer.code == 0 and tuple(argv) in (JOBS, POOL, DETAILS):  # what writes are checked against
            self._texts[tuple(argv)] = (self.clock(), answer.out)
        return Packet({"code": answer.code, "err": answer.err[:2_000], "took_s": answer.took_s}, answer.out)

    def _write(self, found: object) -> list[str]:
        """Carry writes out in their order; return the error of each."""
        if not isinstance(found, list):
            return []
        errors, writes = [""] * len(found), list[tuple[int, Write]]()
        for k, one in enumerate(found):
            try:
                writes.append((k, from_json(one)))
            except ValueError as error:
                errors[k] = f"{LEFT_OUT}: no write: {error}"
        self._take()
        bound = self.bound(comments=any(write.kind in ("stop", "requeue", "frequency") for _, write in writes))
        if any(isinstance(write, ReleaseJob) and bound.lacks_mark(write) for _, write in writes):
            bound = self.bound(comments=True)
        self._lower_pool(bound)  # a cap may have fallen since it was looked at
        marked = [replace(bound.within(write), reduces_power=bound.only_lowers(write)) for _, write in writes]
        done = {id(one.write): one.error for one in self._apply(marked, bound)}
        for (k, asked), write in zip(writes, marked, strict=True):
            errors[k] = done.get(id(write), f"{LEFT_OUT}: an earlier write took too long")
            if isinstance(write, SetPool) and isinstance(asked, SetPool) and write.open_w < asked.open_w:
                errors[k] = errors[k] or f"{LEFT_OUT}: the cap that the guard reads leaves {write.open_w} W"
        return errors

    def _keep_data(self, sent: str) -> list[str]:
        """Keep the data file of job_submit.lua as the planner derives it; return what is not safe in its lines.

        Raises: OutputError where it, or its record, cannot be written.
        """
        self._take()
        self._permit()
        path, staff = self.settings.run_dir / SUBMIT_DATA, staff_of(self.slurm)
        body, told = safe_lines(sent, self.settings, staff_in(path) if staff is None else staff)
        if keep_lines(path, body, self.clock()):
            self.journal.note("submit-data", "; ".join(told) or "as the planner derived it")
        return told

    def keep_cap(self) -> None:
        """Lower the pool where the cap that is in force leaves less; nobody has to ask for it.

        Raises: LeaseLostError where another process has taken the right to write over, as a release does.
        """
        if not self._taken or 0.0 <= self.clock() - self._kept_s < CAP_S:
            return
        self._kept_s = self.clock()
        self._permit()
        with contextlib.suppress(ClusterError, OutputError):  # tried again after as long
            self._lower_pool(self.bound())

    def _lower_pool(self, bound: GuardBound) -> None:
        """Lower the pool to what the cap leaves, where more is open."""
        if bound.seen.pool is not None and bound.open_w > bound.most_open_w:
            left_w, why = math.floor(bound.most_open_w), "the cap that the guard reads"
            lower = SetPool(POOL_NAME, str(bound.open_w), str(left_w), left_w, why=why, reduces_power=True)
            self._apply([lower], bound)

    def _apply(self, writes: Sequence[Write], bound: GuardBound) -> list[WriteResult]:
        """Carry out what passes the bound; store what the cap alone keeps back from the pool, for ``live release``."""
        done = self.applier.apply(writes, bound, self._permit)
        self._written_s = self.clock()
        pool = bound.seen.pool
        if pool is not None and any(isinstance(write, SetPool) and not error for write, error in done):
            figure = stored_figure(bound.open_w, pool.total, suspended_w(bound.seen.active))
            with contextlib.suppress(OutputError):  # a full disk keeps the last figure
                store(self.settings.run_dir, figure, self.clock())
        return done

    def _take(self) -> None:
        """Take the right to write, once. Raises: OutputError."""
        if not self._taken:
            self.lease.take(self.clock())
            self._taken = True

    def _permit(self) -> str:
        """Raise LeaseLostError where another process writes now."""
        if not self.lease.held():
            raise self.lease.lost()
        return ""

    def bound(self, *, comments: bool = False) -> GuardBound:
        """Return what writes are checked against; lists that are too old are read again. Raises: SlurmError.

        A bound follows what is written after its lists were read (``WattBound.note``), so another one needs lists that
        are younger than the last write.
        """
        cap_w = self.cap.in_force_w(self.clock())
        if self._bound is not None and self._bound[0] != (*self._times(), cap_w):
            for argv in (JOBS, POOL):
                if argv in self._texts and self._texts[argv][0] <= self._written_s:
                    del self._texts[argv]
        for argv, most_s in ((JOBS, OLD_S), (POOL, OLD_S), *([(DETAILS, COMMENTS_S)] if comments else ())):
            if not 0.0 <= self.clock() - self._texts.get(argv, (-math.inf, ""))[0] <= most_s:
                self._texts[argv] = (self.clock(), read(self.slurm, argv))
        if self._bound is None or self._bound[0] != (*self._times(), cap_w):
            seen = self._seen()
            self.writer.observed(Snapshot(seen.taken_s, seen.jobs, (), seen.pool))
            self._bound = (*self._times(), cap_w), GuardBound(self.settings, cap_w, seen, self.limits)
        return self._bound[1]

    @property
    def outdated(self) -> bool:
        """Whether lists were read since the bound was made: the planner decides on them now."""
        there = JOBS in self._texts and POOL in self._texts
        return there and (self._bound is None or self._bound[0][:-1] != self._times())

    def prepare(self) -> None:
        """Make the bound of lists that were read, so that the first write does not wait for it."""
        with contextlib.suppress(ClusterError):  # said where a write is checked
            _ = self.bound().held  # computed at its first use
            return
        self._texts.pop(JOBS, None)  # lists that are none are read again

    def _times(self) -> tuple[float, ...]:
        """Return when jobs and pool were read."""
        return tuple(self._texts[argv][0] for argv in (JOBS, POOL) if argv in self._texts)

    def _seen(self) -> Seen:
        """Return what the lists say. Raises: SlurmError for one that is no list."""
        taken_s, text = self._texts[JOBS]
        self._rows, _ = parse_jobs(text, self._rows)
        jobs = tuple(self._rows.values())
        pool = counted_pool(parse_pool(self._texts[POOL][1]), jobs)
        return Seen(taken_s, jobs, pool, self._stated, None if self.limits_reader is None else self.limits_reader.ask())

    def _stated(self) -> dict[JobKey, Details]:
        """Return what jobs stated; a list that was parsed is kept, since it has 3 kB a job."""
        read_s, text = self._texts.get(DETAILS, (-math.inf, ""))
        if read_s != self._details[0]:
            found: dict[JobKey, Details] = {}
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                found = dict(map(parse_stated, json.loads(text)["jobs"]))
            self._details = read_s, found
        return self._details[1]

    def _alive(self) -> dict[str, Any]:
        """Renew lease and heartbeat, at most every quarter of ``away_s``."""
        now_s = self.clock()
        self._take()
        if not 0.0 <= now_s - self._beat_s < self.settings.away_s / 4.0:
            self.lease.renew(now_s)
            write_beat(self.settings.run_dir, "control", now_s)
            self._beat_s = now_s
        return {"problem": self.cap.problem}

    def _away(self) -> dict[str, Any]:
        """Remove the heartbeat: job_submit.lua stops holding jobs at once."""
        if self.lease.held():
            (self.settings.run_dir / BEAT).unlink(missing_ok=True)
        self._beat_s = -1e18
        return {}

    def _status(self) -> dict[str, Any]:
        """Return what is checked against."""
        cap_w = self.cap.in_force_w(self.clock())
        shown_w = cap_w if math.isfinite(cap_w) else None
        return {"cap_w": shown_w, "problem": self.cap.problem, **self.settings.told()}

    def answer_to(self, asker: socket.socket, request: Packet) -> Packet:
        """Return the answer to a request of a connection; one of them has the place of the planner."""
        what = request.header.get("do")
        refused = self.place.refusal(asker, what)
        answer = Packet({"error": refused}) if refused else self.answer(request)
        if what == "status":
            answer.header["silent_s"] = None if self.place.holder is None else self.place.silent_s
        return answer

    def due(self, *, quiet: bool) -> float:
        """Look after the cap, use a pause, and say how long to wait for a request. Raises: LeaseLostError."""
        self.keep_cap()
        if quiet and self.outdated:
            self.prepare()
        return SOON_S if self.outdated else 0.5

    def end(self) -> None:
        """Give the right to write up."""
        self._away()
        self.lease.drop()
