"""Read jobs, nodes and the pool through squeue, sinfo and scontrol into one frozen snapshot.

A user's own text (job names, comments, paths) may hold blanks, separators, even line ends, and so
imitate Slurm's fields. The lists read here carry none of it; names come from JSON, once a job.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from wattqueue.formats.hostlist import expand
from wattqueue.live.slurm.commands import Slurm, SlurmError, read
from wattqueue.live.slurm.snapshot import LICENCE, Details, JobKey, JobRow, NodeRow, PoolRow, Snapshot

JOB_FIELDS = "%i|%A|%V|%T|%r|%P|%D|%C|%l|%W|%Q|%U|%S|%N|%n|%E"
NODE_FIELDS = "%N|%T|%R|%c"
JOBS = ("squeue", "-h", "-r", "-a", "-o", JOB_FIELDS)
NODES = ("sinfo", "-h", "-a", "-o", NODE_FIELDS)
POOL = ("scontrol", "-o", "show", "licenses")
DETAILS = ("squeue", "-a", "--json")
NONE = frozenset({"", "(null)", "N/A", "NONE", "None", "Unknown"})
NO_LIMIT = frozenset({"UNLIMITED", "INVALID", "NOT_SET", "Partition_Limit"})
POWER = {"~": "off", "#": "booting", "%": "stopping", "!": "stopping"}
FLAGS = "*~#!%$@^-+"
FREE = frozenset({"idle", "planned"})
BUSY = frozenset({"allocated", "mixed", "completing"})


@dataclass
class Observer:
    """Reads snapshots; lines seen before are not parsed again, details are asked for new jobs alone.

    ``clock`` gives seconds since the epoch.
    """

    slurm: Slurm
    clock: Callable[[], float]
    with_details: bool = True
    wait: Callable[[float], None] = time.sleep
    _jobs: dict[str, JobRow] = field(default_factory=dict)
    _nodes: dict[str, tuple[NodeRow, ...]] = field(default_factory=dict)
    _details: dict[JobKey, Details] = field(default_factory=dict)

    def snapshot(self) -> Snapshot:
        """The Slurm now. Raises SlurmError where a list cannot be had, or is cut short.

        Jobs end and start while the lists are read. The pool comes after the jobs: read before, it
        would count the watts of a job that has ended since and is in no list any more.
        """
        nodes = self._read_nodes(self._read(NODES))
        now_s = self.clock()
        jobs, unreadable = self._read_jobs(self._read(JOBS), now_s)
        pool = parse_pool(self._read(POOL))
        if self.with_details:
            self._ask_details(jobs)
        return Snapshot(now_s, jobs, nodes, pool, self._details, unreadable)

    def close(self) -> None:
        """Let go of a connection, where there is one."""
        close = getattr(self.slurm, "close", None)
        if close is not None:
            close()

    def _read(self, argv: tuple[str, ...]) -> str:
        return read(self.slurm, argv, wait=self.wait)

    def _read_jobs(self, text: str, now_s: float) -> tuple[tuple[JobRow, ...], tuple[str, ...]]:
        known, seen, bad = self._jobs, {}, []
        for line in complete_lines(text, "squeue"):
            row = known.get(line)
            if row is None:
                try:
                    row = parse_job(line)
                except (ValueError, IndexError):
                    bad.append(line)
                    continue
            seen[line] = row
        self._jobs = seen
        if bad and not seen:
            raise SlurmError(f"squeue printed {len(bad)} lines that are no jobs, the first {bad[0][:80]!r}")
        rows = tuple(row._replace(eligible=False) if _later(row, now_s) else row for row in seen.values())
        return rows, tuple(bad)

    def _read_nodes(self, text: str) -> tuple[NodeRow, ...]:
        lines = complete_lines(text, "sinfo")
        self._nodes = {line: self._nodes.get(line) or parse_nodes(line) for line in lines}
        merged: dict[str, NodeRow] = {}
        for rows in self._nodes.values():
            for row in rows:
                old = merged.get(row.name)
                merged[row.name] = row if old is None else old._replace(partitions=old.partitions + row.partitions)
        if not merged:
            raise SlurmError("sinfo shows no node")
        return tuple(merged.values())

    def _ask_details(self, jobs: Iterable[JobRow]) -> None:
        keys = {job.key for job in jobs}
        if keys <= self._details.keys():
            if len(self._details) > 2 * len(keys) + 1000:
                self._details = {key: self._details[key] for key in keys}
            return
        found = parse_details(self._read(DETAILS))
        fresh = {key: self._details.get(key) or _details_of(key, found) for key in keys}
        self._details = {key: value for key, value in fresh.items() if value is not None}


def _later(row: JobRow, now_s: float) -> bool:
    """A held job with a start in the future was told to begin then (--begin)."""
    return row.held and row.pending and row.start_s > now_s


def _details_of(key: JobKey, found: dict[JobKey, Details]) -> Details | None:
    array = JobKey(key.name.partition("_")[0], key.submit_s)
    return found.get(key) or found.get(array)


def complete_lines(text: str, command: str) -> list[str]:
    """Lines of an output that ends as it should. Raises SlurmError for one cut short."""
    if text and not text.endswith("\n"):
        raise SlurmError(f"{command}: its output is cut short")
    return [line for line in text.split("\n") if line]


def parse_job(line: str) -> JobRow:
    """One line of squeue with JOB_FIELDS. Raises ValueError or IndexError for any other line."""
    parts = line.split("|")
    if len(parts) != 16:
        raise ValueError(line)
    name, number, submit, state, reason, partition, nodes, cpus, limit, text, priority, uid = parts[:12]
    start, node_list, requested, dependency = parts[12:]
    watts, others = split_licences(text)
    if not state.isupper():
        raise ValueError(line)
    return JobRow(
        JobKey(name, float(submit)),
        int(number),
        state,
        reason,
        partition,
        int(nodes.partition("-")[0]),
        int(cpus.partition("-")[0]),
        parse_limit(limit),
        watts,
        others,
        int(priority),
        int(uid),
        math.nan if start in NONE else float(start),
        "" if node_list in NONE else node_list,
        "" if requested in NONE else requested,
        dependency in NONE,
        priority == "0" and state == "PENDING",
    )


def parse_limit(text: str) -> float:
    """Seconds of ``D-HH:MM:SS``, ``HH:MM:SS`` or ``MM:SS``; inf for no limit."""
    if text in NO_LIMIT:
        return math.inf
    days, _, clock = text.rpartition("-")
    seconds = 0.0
    for piece in clock.split(":"):
        seconds = seconds * 60 + int(piece)
    return seconds + 86400.0 * int(days or 0)


def split_licences(text: str) -> tuple[int, tuple[str, ...]]:
    """Count of our licence (-1 for none) and the others as they stand: ``watts:300,matlab:1``."""
    if text in NONE:
        return -1, ()
    watts, others = -1, []
    for piece in text.split(","):
        name, _, count = piece.partition(":")
        if name == LICENCE:
            watts = int(count or 1)
        else:
            others.append(piece)
    return watts, tuple(others)


def parse_nodes(line: str) -> tuple[NodeRow, ...]:
    """Nodes of one line of sinfo with NODE_FIELDS. Raises SlurmError for any other line."""
    parts = line.split("|")
    if len(parts) != 4 or not parts[3].rstrip("+").isdigit():
        raise SlurmError(f"sinfo printed {line[:80]!r}, which is no line of nodes")
    names, state, partition, cpus = parts
    plain = state.rstrip(FLAGS).lower()
    marks = state[len(plain) :]
    power = next((POWER[m] for m in marks if m in POWER), "on")
    power = {"powered_down": "off", "powering_down": "stopping", "powering_up": "booting"}.get(plain, power)
    usable = plain in FREE | BUSY and not set(marks) & set("*$@^#%!~")
    row = (plain, power, usable, plain in BUSY, (partition,), int(cpus.rstrip("+")))
    return tuple(NodeRow(name, *row) for name in expand(names))


def parse_pool(text: str) -> PoolRow | None:
    """Our licence of ``scontrol -o show licenses``; None where there is none.

    Raises: SlurmError for text that is no list of licences.
    """
    for line in complete_lines(text, "scontrol show licenses"):
        fields = dict(piece.split("=", 1) for piece in line.split() if "=" in piece)
        if fields.get("LicenseName") == LICENCE:
            try:
                return PoolRow(int(fields["Total"]), int(fields["Used"]), int(fields.get("Reserved", 0)))
            except (KeyError, ValueError) as error:
                raise SlurmError(f"scontrol printed {line[:80]!r} for the licence {LICENCE}") from error
        if "LicenseName" not in fields and not line.startswith("No licenses"):
            raise SlurmError(f"scontrol printed {line[:80]!r}, which is no licence")
    return None


def parse_details(text: str) -> dict[JobKey, Details]:
    """Details of every job of ``squeue --json`` by key; tasks of a pending array share one record.

    Raises: SlurmError for text that is no such JSON.
    """
    try:
        jobs = json.loads(text)["jobs"]
        return {key: details for job in jobs for key, details in [_read_details(job)]}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SlurmError(f"squeue --json cannot be read: {error!r}"[:200]) from error


def _number(value: Any) -> int:
    """A count of Slurm's JSON: plain in older releases, ``{"set": .., "number": ..}`` in newer ones."""
    if isinstance(value, dict):
        value = value.get("number", 0) if value.get("set", True) else 0
    return int(value or 0)


def _read_details(job: dict[str, Any]) -> tuple[JobKey, Details]:
    task = job.get("array_task_id")
    if isinstance(task, dict):
        task = task["number"] if task.get("set") else None
    array = _number(job.get("array_job_id"))
    name = f"{array}_{task}" if array and task is not None else str(job["job_id"])
    details = Details(
        app=str(job.get("name") or ""),
        user=str(job.get("user_name") or ""),
        account=str(job.get("account") or ""),
        comment=str(job.get("comment") or ""),
        mark=str(job.get("admin_comment") or ""),
        restarts=_number(job.get("restart_cnt")),
        parts=2 if _number(job.get("het_job_id")) else 1,
        throttle=_number(job.get("array_max_tasks")),
    )
    return JobKey(name, float(_number(job["submit_time"]))), details
