"""Read jobs, nodes and the pool through squeue, sinfo and scontrol into one frozen snapshot (``lists`` parses them).

Three commands make a snapshot, in this order and for these reasons:

1. ``sinfo``: states and resources of nodes, all partitions;
2. ``squeue``: one line per job and per array task (``-r``), jobs of hidden partitions too (``-a``);
3. ``scontrol show licenses``: the pool. It is read *after* the jobs. Read before, it would still count the watts of
   a job that ended in between and is in no list any more, and the difference would look like an unseen job.
   Where it then counts less than the jobs hold, jobs and pool are read again: most often a job ended in between.

A fourth, ``squeue --json``, runs only where a job has no details yet: it prints 3 kB per job (58 ms for 500 jobs on
Slurm 22.05), the plain list 44 bytes.

Times are read as seconds since the epoch (``SLURM_TIME_FORMAT=%s``, set by ``Commands``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from wattqueue.formats.json_text import read_json
from wattqueue.formats.slurm.hostlist import expand
from wattqueue.live.cluster import NO_CONSTRAINTS, Details, Job, JobKey, Node, Pool, Power, Snapshot
from wattqueue.live.slurm.commands import Slurm, SlurmError, read
from wattqueue.live.slurm.dependencies import Dependencies
from wattqueue.live.slurm.domain_lists import parse_pools, with_domains
from wattqueue.live.slurm.lists import (
    COLUMNS,
    DETAILS,
    JOBS,
    NONE,
    POOL,
    complete_lines,
    counted_pool,
    parse_jobs,
    parse_pool,
    parse_stated,
)
from wattqueue.live.slurm.site import SiteReader
from wattqueue.live.slurm.site_sources import SiteSources
from wattqueue.live.slurm.sizing import Needs, Shape, needs_of, parse_gres, with_size
from wattqueue.model.plain_numbers import is_whole

NODE_FIELDS = "%N|%T|%R|%c|%m|%X|%Y|%G"
NODES = ("sinfo", "-h", "-a", "-e", "-o", NODE_FIELDS)
"""``-e`` groups nodes only where all printed figures are equal; without it sinfo prints the least one and a plus."""
POWER: dict[str, Power] = {"~": "off", "#": "booting", "%": "stopping", "!": "stopping"}
POWER_WORDS: dict[str, Power] = {"powered_down": "off", "powering_down": "stopping", "powering_up": "booting"}
FLAGS = "*~#!%$@^-+"
"""Marks after a node's state: * no answer, ~ off, # booting, % and ! stopping, $ maintenance, @ ^ reboot, - planned."""
FREE = frozenset({"idle", "planned"})
BUSY = frozenset({"allocated", "mixed", "completing"})


@dataclass
class Observer:
    """Reads snapshots. Lines seen in the round before are not parsed again; details are read for new jobs alone.

    ``clock`` returns seconds since the epoch. Not safe for use from several threads: it keeps caches of the last
    round, one object per line.
    """

    slurm: Slurm
    clock: Callable[[], float]
    with_details: bool = True
    wait: Callable[[float], None] = time.sleep
    comments_every_s: float = math.inf
    """How often details that are known are read again at most, for comments that were changed; inf: never."""
    domains: frozenset[str] = frozenset()
    """Licences that count watts in power domains."""
    _read_s: float = -math.inf
    """When all details were read."""
    _jobs: dict[str, Job] = field(default_factory=dict)
    _sized: dict[int, tuple[Job, Job]] = field(default_factory=dict)
    """By the identity of a parsed row: that row, and the row with the number of nodes that Slurm needs."""
    _nodes: dict[str, tuple[tuple[Node, Shape], ...]] = field(default_factory=dict)
    _merged: tuple[Node, ...] = ()
    """Nodes of the last snapshot, one row per node."""
    _equipment: dict[str, int] = field(default_factory=dict)
    """By line of sinfo: a sum over its nodes with partition and resources, whatever their state."""
    _shapes: dict[str, list[tuple[Shape, int]]] = field(default_factory=dict)
    _details: dict[JobKey, Details] = field(default_factory=dict)
    _needs: dict[JobKey, Needs] = field(default_factory=dict)
    """What the same jobs require of their nodes."""
    _absent: dict[JobKey, tuple[int, float]] = field(default_factory=dict)
    """Jobs without details: how often they were looked for, and when to look again."""
    _waits_for: dict[JobKey, str] = field(default_factory=dict)
    """Dependencies of the jobs of the last snapshot, as Slurm shows them."""
    _met: dict[int, tuple[Job, Job]] = field(default_factory=dict)
    """By the identity of a row whose dependency is met: that row, and the row that may start."""
    priorities: bool = False
    """Whether the site's priorities are wanted (``SiteConstraints``)."""
    _licences: str = ""
    """Licences as printed last."""
    _shape_of: dict[str, Shape] = field(default_factory=dict)
    """Resources of each node."""
    _uncounted: int = 0
    """Watts that jobs held and Slurm did not count, in the last snapshot."""

    def __post_init__(self) -> None:
        self._dependencies = Dependencies(self.slurm)
        self._site = SiteReader(SiteSources(self.slurm, self.wait, self.priorities))

    def snapshot(self) -> Snapshot:
        """The Slurm now. Raises SlurmError where a list cannot be read, or is cut short.

        Nothing is returned from half of the lists: a decision on them could start a job twice.
        """
        nodes = self._read_nodes(self._read(NODES))
        now_s = self.clock()
        jobs, unreadable, pool = self._read_jobs_and_pool()
        if self.with_details:
            self._read_details(jobs)
        listed_s = self.clock()
        jobs = tuple(row._replace(eligible=False) if _later(row, listed_s) else row for row in self._with_sizes(jobs))
        if self._waits_for:
            jobs = self._with_dependencies(jobs)
        site = NO_CONSTRAINTS
        if self.with_details:
            site = self._site.site(jobs, nodes, self._shape_of, self._needs, self._licences, now_s)
        domains = parse_pools(self._licences, self.domains) if self.domains else {}
        return Snapshot(
            now_s, jobs, nodes, pool, self._details, unreadable, problems=site.problems, site=site, domains=domains
        )

    @property
    def equipment(self) -> int:
        """A number that is another where a node was added, moved or resized, and the same where its state changed."""
        return sum(self._equipment.values())

    def node_rows(self) -> list[tuple[Node, Shape]]:
        """Return one row per node and partition of the last snapshot."""
        return [row for rows in self._nodes.values() for row in rows]

    def _read(self, argv: tuple[str, ...]) -> str:
        return read(self.slurm, argv, wait=self.wait)

    def _read_jobs_and_pool(self) -> tuple[tuple[Job, ...], tuple[str, ...], Pool | None]:
        """Jobs, unreadable lines and the pool, with what Slurm fails to count.

        Slurm returns the licences of a job when it has completed. A restart or ``reconfigure`` counts running jobs
        alone, so the watts of a job that is completing then are returned without having been counted, and Slurm
        counts less than jobs hold until the next restart or until none holds any.
        """
        for last in (False, False, True):
            jobs, unreadable = self._read_jobs(self._read(JOBS))
            self._licences = self._read(POOL)
            pool = counted_pool(parse_pool(self._licences), jobs)
            uncounted = pool.uncounted if pool is not None else 0
            if last or uncounted in (0, self._uncounted):
                break
        self._uncounted = uncounted
        return jobs, unreadable, pool

    def _read_jobs(self, text: str) -> tuple[tuple[Job, ...], tuple[str, ...]]:
        """Rows and unreadable lines."""
        before = self._jobs
        self._jobs, bad = parse_jobs(text, before)
        if self.domains:
            self._jobs |= {k: with_domains(row, self.domains) for k, row in self._jobs.items() if k not in before}
        place = COLUMNS.index("Dependency")
        waits = ((row.key, line.split("|")[place]) for line, row in self._jobs.items() if not row.eligible)
        self._waits_for = {key: text for key, text in waits if text not in NONE}
        return tuple(self._jobs.values()), tuple(bad)

    def _read_nodes(self, text: str) -> tuple[Node, ...]:
        """Nodes, each with all of its partitions: sinfo prints one line per partition."""
        lines = complete_lines(text, "sinfo")
        if self._merged and lines == list(self._nodes):
            return self._merged
        self._merged = ()
        self._nodes = {line: self._nodes.get(line) or parse_nodes(line) for line in lines}
        before = self._equipment
        self._equipment = {line: before.get(line) or _equipment(rows) for line, rows in self._nodes.items()}
        merged: dict[str, Node] = {}
        shapes: dict[str, dict[Shape, int]] = {}
        self._shape_of = {}
        for rows in self._nodes.values():
            for row, shape in rows:
                # the same node in another partition: one row with both
                old = merged.get(row.name)
                merged[row.name] = row if old is None else old._replace(partitions=old.partitions + row.partitions)
                self._shape_of[row.name] = shape
                counts = shapes.setdefault(row.partitions[0], {})
                counts[shape] = counts.get(shape, 0) + 1
        if not merged:
            raise SlurmError("sinfo shows no node")
        found = {name: sorted(counts.items()) for name, counts in shapes.items()}
        if found != self._shapes:  # a node was added or resized: every waiting job may need another number
            self._shapes, self._sized = found, {}
        self._merged = tuple(merged.values())
        return self._merged

    def _read_details(self, jobs: Iterable[Job]) -> None:
        """Read details if a job has none. Jobs that are gone are dropped when they outnumber the live ones."""
        keys, now_s = {job.key for job in jobs}, self.clock()
        again = bool(keys) and now_s - self._read_s >= self.comments_every_s
        if not again and all(now_s < self._absent.get(key, (0, -math.inf))[1] for key in keys - self._details.keys()):
            if len(self._details) > 2 * len(keys) + 1000:
                self._keep_details({key: self._details[key] for key in keys & self._details.keys()})
            return
        begin_s = time.monotonic()
        found = parse_details(self._read(DETAILS))
        # a long list is read at most a twentieth of the time
        self._read_s = now_s + max(0.0, 20.0 * (time.monotonic() - begin_s) - self.comments_every_s)
        # details already known are kept: they are what the job stated at submission, and a new object per round would
        # end every cache that works by identity; but for comments, which their users change
        if math.isfinite(self.comments_every_s):
            self._take_comments(keys, found)
        records = {key: _record_of(key, found) for key in keys - self._details.keys()}
        self._needs |= {key: record[1] for key, record in records.items() if record is not None}
        fresh = {key: self._details.get(key) or (record[0] if (record := records[key]) else None) for key in keys}
        self._keep_details({key: value for key, value in fresh.items() if value is not None})
        # a job that ended between the two lists, or one whose name is spelled differently in them: not every round
        tries = {key: self._absent.get(key, (0, 0.0))[0] + 1 for key, value in fresh.items() if value is None}
        self._absent = {key: (n, now_s + (60.0 if n > 2 else 0.0)) for key, n in tries.items()}

    def _take_comments(self, keys: set[JobKey], found: dict[JobKey, Record]) -> None:
        """Take over the comments of known jobs that were changed."""
        changed = {}
        for key in keys & self._details.keys():
            old, record = self._details[key], _record_of(key, found)
            if record is not None and record[0].comment != old.comment:
                changed[key] = old._replace(comment=record[0].comment)
        if changed:
            self._details = {**self._details, **changed}

    def _with_dependencies(self, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
        """Held jobs that may start since what they wait for has ended, though Slurm has not looked yet.

        A job that changes in this way is the same object in every snapshot.
        """
        held = {row.key: self._waits_for[row.key] for row in jobs if row.held and row.key in self._waits_for}
        met = self._dependencies.met(held.values(), {row.number for row in jobs} | _arrays(jobs)) if held else set()
        old, self._met = self._met, {}
        rows = []
        for row in jobs:
            if met and held.get(row.key) in met and not row.start_s > self.clock():
                known = old.get(id(row))
                self._met[id(row)] = known if known and known[0] is row else (row, row._replace(eligible=True))
                row = self._met[id(row)][1]
            rows.append(row)
        return tuple(rows)

    def _keep_details(self, details: dict[JobKey, Details]) -> None:
        """Keep the details of these jobs alone."""
        self._details = details
        self._needs = {key: self._needs[key] for key in details}

    def _with_sizes(self, jobs: Iterable[Job]) -> list[Job]:
        """Waiting jobs with the number of nodes that Slurm needs for them.

        The result is cached by the identity of the parsed row, so that an unchanged row stays the same object.
        """
        old, self._sized = self._sized, {}
        rows = []
        for row in jobs:
            known = old.get(id(row))
            if known is None or known[0] is not row:
                needs = self._needs.get(row.key)
                known = (row, row if needs is None else with_size(row, needs, self._shapes))
                if needs is None and row.pending:  # not cached: it is sized once its details are there
                    rows.append(row)
                    continue
            self._sized[id(row)] = known
            rows.append(known[1])
        return rows


def _arrays(jobs: Iterable[Job]) -> set[int]:
    """Ids of the arrays and of the jobs of several components among these jobs."""
    return {int(name) for row in jobs for name in (row.array, row.whole) if is_whole(name)}


def _later(row: Job, listed_s: float) -> bool:
    """Whether a held job has a start in the future, which its user set with ``--begin``.

    ``listed_s`` is a time after the list was read: of a job that Slurm held itself it shows the present second.
    """
    return row.held_by != "" and row.start_s > listed_s


def _record_of(key: JobKey, found: dict[JobKey, Record]) -> Record | None:
    """Details and needs of a job; tasks of a waiting array share one record, under the array's id."""
    array = JobKey(key.name.partition("_")[0], key.submit_s)
    return found.get(key) or found.get(array)


def _equipment(rows: Sequence[tuple[Node, Shape]]) -> int:
    """Sum over the nodes of a line, all of one partition and shape; the same however sinfo groups nodes by states."""
    if not rows:
        return 0
    row, shape = rows[0]
    return hash((row.partitions, shape)) * sum(hash(row.name) for row, _ in rows)


def parse_nodes(line: str) -> tuple[tuple[Node, Shape], ...]:
    """Nodes of one line of sinfo with NODE_FIELDS. Raises SlurmError for any other line."""
    parts = line.split("|")
    figures = [piece.rstrip("+") for piece in parts[3:7]]
    if len(parts) != 8 or not all(is_whole(piece) for piece in figures):
        raise SlurmError(f"sinfo printed {line[:80]!r}, which is no line of nodes")
    names, state, partition = parts[:3]
    cpus, memory, sockets, cores = map(int, figures)
    plain = state.rstrip(FLAGS).lower()
    marks = state[len(plain) :]
    power: Power = next((POWER[m] for m in marks if m in POWER), "on")
    power = POWER_WORDS.get(plain, power)
    # A busy node is usable: a job may start on it when the present one ends. One that does not answer, boots, stops,
    # is in maintenance or about to reboot takes no job.
    usable = plain in FREE | BUSY and not set(marks) & set("*$@^#%!~")
    shape = Shape(cpus, sockets, sockets * cores, memory, parse_gres(parts[7]))
    return tuple((Node(name, plain, power, usable, plain in BUSY, (partition,)), shape) for name in expand(names))


Record = tuple[Details, Needs]
"""What ``squeue --json`` states about one job."""


def parse_details(text: str) -> dict[JobKey, Record]:
    """Details and needs of every job of ``squeue --json`` by key; tasks of a pending array share one record.

    Raises: SlurmError for text that is no such JSON.
    """
    try:
        jobs = read_json(text)["jobs"]
        return {key: (details, needs_of(job)) for job in jobs for key, details in [parse_stated(job)]}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SlurmError(f"squeue --json cannot be read: {error!r}"[:200]) from error
