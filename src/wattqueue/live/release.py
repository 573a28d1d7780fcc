"""Release held jobs to Slurm's own scheduler while the controller is away (``wattqueue live release``).

This is the fall-back that a timer starts every half minute. It must work in exactly those cases that end a controller,
so it depends on the cluster alone:

- Full state disk or damaged database: no state is read. The audit log is written if it can be, and given up at the
  first failure.
- Typing error in live.toml: the file is read line by line. A line that is no TOML, and a value of the wrong type, is
  left out and reported; the rest applies, and defaults for what is missing.
- Controller hung or stopped: its flock is ignored once its lease is stale. Taking the lease over makes a controller
  that resumes stop before its next write (``live.files.lease``).
- Slow squeue: each command may take ``timeout_s``, much longer than the controller allows.
- A job that Slurm refuses: the others are released all the same; the exit status is then not 0.

Released jobs carry their watts, and Slurm admits them under the licence pool (docs/cap-held.md: where it does not).
What Slurm fails to count is withheld from that pool first (``live.watts.missed``); where that fails, nothing is
released.

Order of the steps: read the configuration; find out who is at work (the youngest of lease and heartbeat); take the
lease over; read Slurm (twice where it counts less than jobs hold); set the pool; release job by job in order of
submission, reading the lease before each. Nothing is planned: the pool stays as the controller left it, but for what
Slurm fails to count. The timer runs this again in half a minute, so whatever failed is tried again without any state of
its own.

Taking the lease over also answers the question of what a controller does that was only slow: it ends at its next
write, systemd starts it again, and it adopts what has not started yet. No job is lost or started twice on the way,
since a job has one hold and Slurm alone starts it.

Not released are jobs that their users hold, jobs of several components, and jobs that fit the budget at a lower
frequency only (``needs-controller``: their licence is the whole pool, not what they would draw). Under power domains
only jobs are released that are safe on any nodes (``files.supply_limits``); hotter ones wait for the controller. Where
Slurm counts the domains, too (``RESOURCE``), each carries its watts of a node, which 26.05 does not test.
"""

from __future__ import annotations

import re
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wattqueue.errors import InputError, OutputError
from wattqueue.live.cluster import (
    NEEDS_CONTROLLER,
    ChangeJob,
    ContinueJob,
    Details,
    Job,
    JobFields,
    JobKey,
    PowerNode,
    ReleaseJob,
    SetDrain,
    SetPool,
    Snapshot,
    Write,
    apply_each,
    user_holds,
)
from wattqueue.live.driver import Cluster
from wattqueue.live.files.lease import Lease, LeaseLostError, is_young, read_lease
from wattqueue.live.files.reading import home_of
from wattqueue.live.files.status import read_beat
from wattqueue.live.files.supply_limits import GATE, RESOURCE, of_each_node, read_supply
from wattqueue.live.watts.missed import compared

if TYPE_CHECKING:  # it imports more of the package than a release may depend on
    from wattqueue.live.restore import Restorer

AT_WORK = 3
"""Exit status where a controller is at work (or another release): nothing was done, and nothing is wrong."""
FAILED = 1
"""Exit status where some jobs could not be released."""
TIMEOUT_S = 120.0
"""Longest wait for one command: lists of a busy slurmctld may take a minute, and nobody waits for this program."""
_LINE = re.compile(r"at line ([0-9]+)")
Say = Callable[[str], None]


class ReleaseSettings(NamedTuple):
    """What a release needs to know, each with a default that fits a plain installation."""

    run_dir: Path
    """Folder with the controller's lease and heartbeat."""
    away_s: float = 120.0
    conf: str = ""
    """slurm.conf of a Slurm beside the system's own; empty for the system's."""
    bin_dir: str = ""
    state: str = ""
    """Database of the audit log; empty for none."""
    ignored: tuple[str, ...] = ()
    """What in the file could not be used, in words."""
    domains: tuple[str, ...] = ()
    """Licences of power domains that it names."""


class Released(NamedTuple):
    """Result of a release."""

    released: int = 0
    failed: tuple[str, ...] = ()
    """What could not be released or taken back, each with the reason."""
    restored: int = 0
    """Parked jobs that go on, and drained nodes that take jobs again."""
    at_work: str = ""
    """Who is at work, so that nothing was done; empty where the release went ahead."""

    @property
    def exit_status(self) -> int:
        """0 only if every release succeeded."""
        return AT_WORK if self.at_work else FAILED if self.failed else 0


def read_settings(path: Path) -> ReleaseSettings:
    """Read what a release needs from a controller's configuration, however much of the rest is wrong.

    Raises: InputError where the file cannot be read at all: its name may be mistyped.
    """
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from error
    data, ignored = parse_leniently(text)
    folder = path.resolve().parent
    slurm = data.get("slurm")
    slurm = slurm if isinstance(slurm, dict) else {}

    def value(table: dict[str, Any], key: str, kind: type, default: Any) -> Any:
        """Return a value of the right type, else the default; a boolean is no number here."""
        found = table.get(key, default)
        if isinstance(found, bool) or not isinstance(found, kind if kind is not float else (int, float)):
            ignored.append(f"{key} = {found!r}")
            return default
        return found

    home, guard = home_of(folder), data.get("guard")
    where = value(guard, "run_dir", str, "") if isinstance(guard, dict) else ""
    state = value(data, "state", str, str(home / "wattqueue-live.db"))
    conf, bin_dir = value(slurm, "conf", str, ""), value(slurm, "bin_dir", str, "")
    away_s = float(value(data, "away_s", float, 120.0))
    return ReleaseSettings(
        folder / (where or value(data, "run_dir", str, str(home / "run"))),
        away_s if away_s > 0 else 120.0,
        str(folder / conf) if conf else "",
        str(folder / bin_dir) if bin_dir else "",
        state if "://" in state else str(folder / state),
        tuple(ignored),
        tuple(map(str, value(slurm, "domains", dict, {}).values())),
    )


def parse_leniently(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse TOML, leaving out one line after the other that is none; return the data and the lines left out.

    tomllib names the line at which it gave up. Each try leaves out that line, or the last one that is left, so it
    ends after as many tries as there are lines.
    """
    lines = text.splitlines()
    ignored: list[str] = []
    while True:
        try:
            return tomllib.loads("\n".join(lines)), ignored
        except tomllib.TOMLDecodeError as error:
            found = _LINE.search(str(error))
            last = max((i for i, line in enumerate(lines) if line.strip()), default=-1)
            if last < 0:
                return {}, ignored
            number = min(int(found[1]) - 1, last) if found else last
            if not lines[number].strip():
                number = last
            ignored.append(f"line {number + 1}: {lines[number].strip()[:60]}")
            lines[number] = ""


def at_work(settings: ReleaseSettings, now_s: float) -> str:
    """Return who is at work in the run folder, by the youngest of lease and heartbeat; empty for nobody.

    Both are kept in control mode alone; either can be missing (a folder that was cleared, a controller of an older
    version, one that is in its first round).
    """
    lease, beat = read_lease(settings.run_dir), read_beat(settings.run_dir)
    ages = [(now_s - found[1], found[0]) for found in (lease, beat) if found is not None]
    # a time in the future (a clock that was wrong) is no sign of life: to wait for it could take days
    young = [(age_s, who) for age_s, who in ages if is_young(age_s, settings.away_s)]
    if not young:
        return ""
    age_s, who = min(young)
    return f"{who.partition('/')[0]}, seen {age_s:.0f} s ago"


def release_all(
    settings: ReleaseSettings,
    cluster: Cluster,
    *,
    force: bool = False,
    now_s: float | None = None,
    say: Say = lambda _: None,
    journal: BestEffortLog | None = None,
    restorer: Restorer | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> Released:
    """Release every job that is held for the controller, unless a controller is at work.

    ``force`` releases although the lease is young: the controller then stops. ``now_s`` stands in for the clock.
    ``restorer`` takes back what the controller did for a load target: what is due, all of it with ``force``. ``wait``
    is called between two readings.

    Raises: ClusterError where the cluster cannot be observed.
    """
    now_s = time.time() if now_s is None else now_s
    for text in settings.ignored:
        say(f"left out of the configuration: {text}")
    who = "" if force else at_work(settings, now_s)
    if who:
        return Released(at_work=who)
    lease = _take_over(settings, now_s, say)
    snapshot, writes = compared(cluster, settings.run_dir, now_s, wait)
    # one command per job, not a comma list: one job that Slurm refuses must not take the others with it
    rows = safe_anywhere(settings, snapshot, held_for_controller(snapshot), say)
    why = "the controller is away"
    counted = RESOURCE in licences_of(settings)  # Slurm counts domains, too
    for row in rows:
        carries = of_each_node(row.watts, row.nodes) if counted else ()
        if row.domains != carries:  # it was pinned, or carries what nobody can get
            before, after = (",".join(f"{name}:{watts}" for name, watts in one) for one in (row.domains, carries))
            writes.append(ChangeJob(row.key.name, before, after, JobFields(domains=carries), why=why, key=row.key))
        writes.append(ReleaseJob(row.target, "held", "released", why=why, key=row.key))
    if restorer is not None:
        writes += restorer.writes(snapshot, now_s, now=force)
    done: list[Write] = []
    failed: dict[JobKey | None, str] = {}
    problems = []
    lost = ""
    try:
        for write in writes:
            if write.key is not None and write.key in failed:
                continue  # a job whose watts could not be raised does not go on
            if lease is not None and not lease.held():
                raise lease.lost()
            error = _carry_out(cluster, write, journal)
            if error:
                failed[write.key] = error
                problems.append(f"{_kind(write)} {write.target}: {error}")
                if write.reduces_power and isinstance(write, SetPool):
                    break  # there may be no room for what is released
            else:
                done.append(write)
                if restorer is not None:
                    restorer.note(write)
    except LeaseLostError:
        lost = "a controller that was started meanwhile"
    finally:
        if lease is not None:
            lease.drop()
    released = sum(isinstance(write, ReleaseJob) for write in done)
    restored = sum(isinstance(write, ContinueJob | SetDrain) for write in done)
    return Released(released, tuple(problems), restored, lost)


def _kind(write: Write) -> str:
    """Return what a write changes, in a word."""
    return "node" if isinstance(write, SetDrain | PowerNode) else "licence" if isinstance(write, SetPool) else "job"


def held_for_controller(snapshot: Snapshot) -> list[Job]:
    """Return the jobs to release, in order of submission.

    None of several components, whatever its mark says: Slurm does not test whether their watts are free when it starts
    them (docs/cap-held.md), and what is submitted meanwhile may take these watts.
    """
    total_w = snapshot.pool.total if snapshot.pool is not None else 0
    found = []
    for row in sorted(snapshot.jobs, key=lambda row: (row.key.submit_s, row.number)):
        details = snapshot.details.get(row.key)
        if not (row.held and row.pending and row.watts >= 0) or row.whole or details is None:
            continue
        if row.held_by == "failed" or user_holds(row, details) or _needs_controller(row, details, total_w):
            continue
        found.append(row)
    return found


def licences_of(settings: ReleaseSettings) -> frozenset[str]:
    """Return the licences of power domains, as far as the configuration or the run folder names them."""
    try:
        found = read_supply(settings.run_dir)
    except InputError:
        found = None
    names = (*settings.domains, *(() if found is None else found.licences))
    return frozenset((*names, GATE)) if names else frozenset()


def safe_anywhere(settings: ReleaseSettings, snapshot: Snapshot, rows: list[Job], say: Say) -> list[Job]:
    """Return those of some held jobs that no power domain holds back, wherever they start; all without domains."""
    try:
        found = read_supply(settings.run_dir)
    except InputError as error:
        say(f"{error}: nothing is released, since a power domain could be above its limit")
        return []
    if found is None:
        if settings.domains:
            say("what power domains leave is not known (no controller has been at work): nothing is released")
        return [] if settings.domains else rows
    most_w = found.safe_w(snapshot.jobs)
    safe = [row for row in rows if row.watts <= most_w * max(row.nodes, 1)]
    if len(safe) < len(rows):
        say(f"{len(rows) - len(safe)} jobs draw more than {max(most_w, 0)} W a node and wait, for the power domains")
    return safe


def _needs_controller(row: Job, details: Details, total_w: int) -> bool:
    """Whether a job fits the budget at a lower frequency only.

    Where its mark was overwritten, a licence of the whole pool is what such a job has; one that really needs the
    whole pool then waits for the controller too, which is the safe side.
    """
    if "wattqueue:" in details.mark:
        return NEEDS_CONTROLLER in details.mark
    return 0 < total_w <= row.watts


def _take_over(settings: ReleaseSettings, now_s: float, say: Say) -> Lease | None:
    """Take the lease; where it cannot be written (full disk) remove it, which ends the old holder's right as well."""
    lease = Lease(settings.run_dir, "release")
    try:
        if not settings.run_dir.is_dir():
            return None  # no controller ever ran here, so there is none to keep away
        lease.take(now_s)
    except OutputError as error:
        say(f"the lease could not be written: {error}")
        try:
            (settings.run_dir / "lease").unlink(missing_ok=True)
        except OSError as gone:
            say(f"nor removed: {gone.strerror}")
        return None
    return lease


class BestEffortLog:
    """The audit log, for as long as it works.

    Given up at the first failure: a locked SQLite file costs ten seconds per row, and thousands of jobs may wait.
    ``make`` opens it; whatever that raises is part of the situation in which a release has to work.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        try:
            self.audit: Any = make()
        except Exception:  # noqa: BLE001 - a database can fail in any way, and the release goes on
            self.audit = None

    def intend(self, write: Write) -> int:
        """Record a write that is about to be done."""
        numbers = self._try("intend", [write])
        return int(numbers[0]) if numbers else 0

    def record_outcome(self, number: int, outcome: str) -> None:
        """Record its outcome."""
        self._try("record_outcomes", [(number, outcome)])

    def _try(self, name: str, *arguments: Any) -> Any:
        if self.audit is None:
            return None
        try:
            return getattr(self.audit, name)(*arguments)
        except Exception:  # noqa: BLE001 - see above
            self.audit = None
            return None


def _carry_out(cluster: Cluster, write: Write, journal: BestEffortLog | None) -> str:
    """Carry a write out; return the error, empty for none."""
    number = journal.intend(write) if journal is not None else 0
    (error,) = apply_each(cluster, [write])
    if journal is not None:
        journal.record_outcome(number, error or "done")
    return error
