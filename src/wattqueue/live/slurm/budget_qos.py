"""Keep a limit of Slurm at what is left of a budget, so that it holds while no controller is at work.

A QOS whose jobs are those of the budget has ``GrpTRESMins=license/watts=N``. With ``AccountingStorageEnforce=safe``
Slurm starts a job of it only if what is used, and the licences of running jobs until their time limits, stay within N
(watt-minutes); it ends no running job for it. Slurm's figures cannot be corrected, only set to zero, and are too high:
the whole time limit counts while a job runs, a lowered licence counts as before, and a job draws less than its
licence. So N is raised by that: it is what Slurm counts, and the room that the controller has written last
(``live.features.budget_room``). At the begin of a period the figures are set to zero, and N is the budget again.

Each change is noted in a journal before it is made. Whoever makes it needs Slurm's Administrator level, which a
controller has not: ``wattqueue budget keep`` is a process of its own. Without a controller it changes nothing.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from wattqueue.errors import InputError, OutputError
from wattqueue.live.doctor import NO, PART, YES, Check
from wattqueue.live.files.reading import as_written
from wattqueue.live.slurm.commands import LICENCE, Slurm, must, read
from wattqueue.live.slurm.site_sources import CONFIG, parse_config

TRES = f"license/{LICENCE}"
AREA = "Budgets"
FRESH_S = 30.0
"""So long a round of the controller is awaited before it counts as not at work."""
SLACK = 3
"""Watt-minutes by which N is rounded up: Slurm prints whole ones. Jobs set more aside than that (``LATE_S``)."""
STEP = 0.01
"""Share of the budget from which N is raised, where no job waits for it."""
QOS_FIELDS = "Name,Flags,GrpTRESMins"
_USE = re.compile(rf"{TRES}=(N|[0-9]+)\(([0-9]+)\)")


class QosUse(NamedTuple):
    """What slurmctld counts of a QOS, in watt-minutes."""

    limit: int | None
    """None for no limit."""
    used: int
    running: int
    """Of running jobs, until their time limits."""

    @property
    def occupied(self) -> int:
        """All that counts against the limit."""
        return self.used + self.running


def read_use(slurm: Slurm, qos: str) -> QosUse | None:
    """Return what slurmctld counts; None where it has no such QOS. Raises: SlurmError."""
    text = read(slurm, ("scontrol", "-o", "show", "assoc_mgr", "flags=qos", f"qos={qos}"))
    line = next((line for line in text.splitlines() if re.match(rf"QOS={re.escape(qos)}\(", line)), None)
    if line is None:
        return None
    words = dict(piece.split("=", 1) for piece in line.split(" Account Limits=")[0].split() if "=" in piece)
    limit, running = (_USE.search(words.get(name, "")) for name in ("GrpTRESMins", "GrpTRESRunMins"))
    if limit is None or running is None:
        return QosUse(None, 0, 0)
    return QosUse(None if limit[1] == "N" else int(limit[1]), int(limit[2]), int(running[2]))


def examine_qos(slurm: Slurm, budgets: Mapping[str, str]) -> Iterator[Check]:
    """Check whether Slurm can keep budgets by their QOS; ``budgets`` are their names by QOS. Raises: SlurmError.

    What is answered ``no`` makes a limit worthless or ends running jobs: nothing is kept then.
    """
    if not budgets:
        return
    values = parse_config(read(slurm, CONFIG))
    listed = {word.strip() for word in values.get("AccountingStorageTRES", "").split(",")}
    if TRES not in listed:
        cost = f"slurm.conf: AccountingStorageTRES={TRES}, then restart slurmctld"
        yield Check(AREA, "tracked", NO, f"Slurm does not track {TRES}", cost)
    enforced = {word.strip() for word in values.get("AccountingStorageEnforce", "").split(",")}
    if not {"limits", "safe"} <= enforced:
        lost = "Slurm ends running jobs at the limit" if "limits" in enforced else "no limit is enforced"
        yield Check(AREA, "enforced", NO, lost, "slurm.conf: AccountingStorageEnforce=limits,safe (beside what it has)")
    if not values.get("PriorityType", "").endswith("multifactor"):
        cost = "slurm.conf: PriorityType=priority/multifactor; its weights may be 0"
        yield Check(AREA, "counted", NO, "Slurm counts no use without priority/multifactor", cost)
    text = read(slurm, ("sacctmgr", "-n", "-P", "show", "qos", f"format={QOS_FIELDS}"))
    flags = {parts[0]: parts[1].split(",") for line in text.splitlines() if len(parts := line.split("|")) == 3}
    for qos, budget in budgets.items():
        if qos not in flags:
            cost = f"sacctmgr add qos {qos} flags=NoDecay, and make it the only one of the budget's jobs"
            yield Check(AREA, budget, NO, f"there is no QOS {qos}", cost)
            continue
        yield _decay(budget, qos, flags[qos], values)
        if "DenyOnLimit" in flags[qos]:
            yield Check(
                AREA, budget, PART, f"QOS {qos} has DenyOnLimit", "jobs over the budget are refused, and do not wait"
            )
        use = read_use(slurm, qos)
        if use is not None:
            limit = "no limit" if use.limit is None else f"limit {use.limit:,}"
            yield Check(AREA, budget, YES, f"QOS {qos}: {limit}, {use.occupied:,} watt-minutes count")
    yield from _others(slurm, budgets)


def _decay(budget: str, qos: str, flags: list[str], values: Mapping[str, str]) -> Check:
    """Check that the use of a QOS does not fade.

    That of a whole site does not with a half-life of 0, which Slurm takes only with a period after which it sets all
    use to zero: at its own times, and it changes the fair share of everybody. So this is no remedy.
    """
    if "NoDecay" in flags:
        return Check(AREA, budget, YES, f"the use of QOS {qos} does not decay")
    half_life, reset = values.get("PriorityDecayHalfLife", ""), values.get("PriorityUsageResetPeriod", "NONE")
    lost = f"the use of QOS {qos} decays (PriorityDecayHalfLife {half_life}): what is used would be given out again"
    if re.fullmatch(r"(0-)?[0:]*", half_life):
        lost = f"Slurm itself sets the use of QOS {qos} to zero ({reset}), also while no controller lowers its limit"
    cost = (
        f"sacctmgr modify qos {qos} set flags+=NoDecay; PriorityDecayHalfLife stays: it decides the site's fair share"
    )
    return Check(AREA, budget, NO, lost, cost)


def _others(slurm: Slurm, budgets: Mapping[str, str]) -> Iterator[Check]:
    """Check that users of a budget's QOS have no other by which their jobs get around it."""
    text = read(slurm, ("sacctmgr", "-n", "-P", "show", "assoc", "format=Account,User,QOS"))
    found: dict[str, set[str]] = {qos: set() for qos in budgets}
    for line in text.splitlines():
        account, _, rest = line.partition("|")
        user, _, names = rest.partition("|")
        mine = set(filter(None, names.split(",")))
        for qos in mine & found.keys() if user and len(mine) > 1 else ():
            found[qos].add(f"{user} in {account}")
    for qos, users in found.items():
        if users:
            what = f"{len(users)} users of QOS {qos} may choose another: {', '.join(sorted(users)[:3])}"
            yield Check(
                AREA, budgets[qos], PART, what, "jobs of another QOS are not kept while no controller is at work"
            )


@dataclass
class BudgetJournal:
    """What was changed, as lines of JSON; one process at a time has it open."""

    path: Path
    last: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The last line of each QOS."""

    def __post_init__(self) -> None:
        """Open the file. Raises: InputError where another process has it open, or it cannot be written."""
        try:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self.path, flags, 0o600)
        except OSError as error:
            hint = "name a file in a folder of your own: --journal"
            raise InputError(f"cannot be written: {error.strerror}", where=self.path, hint=hint) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.close()
            raise InputError("another process keeps budgets", where=self.path, hint="stop it first") from error
        for line in self.path.read_text(errors="replace").splitlines():
            try:
                one = json.loads(line)
                self.last[one["qos"]] = one
            except (ValueError, LookupError, TypeError):
                continue  # a line that was cut off

    def note(self, **values: Any) -> None:
        """Append a line, on disk when this returns. Raises: OutputError."""
        try:
            os.write(self._file, f"{json.dumps(values)}\n".encode())
            os.fsync(self._file)
        except OSError as error:
            raise OutputError(f"the journal cannot be written: {error.strerror}", where=self.path) from error
        self.last[values["qos"]] = values

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._file)


@dataclass
class BudgetKeeper:
    """Sets the limits of budgets' QOS by what the controller writes."""

    slurm: Slurm
    room: Path
    """The controller's file."""
    journal: BudgetJournal
    clock: Callable[[], float] = time.time
    wait: Callable[[float], None] = time.sleep

    def step(self) -> list[str]:
        """Set the limits once, and return what was changed; nothing where no controller is at work.

        Raises: SlurmError, OutputError, and InputError for a file that is not the controller's.
        """
        before_s = self.clock()
        uses = {qos: use for qos in self._read()["rooms"] if (use := read_use(self.slurm, qos)) is not None}
        seen = self._newer(self.clock())
        if seen is None:
            return []
        lines: list[str] = []
        with as_written(self.room, "file of a controller's budgets"):
            for qos, use in uses.items():
                if qos in seen["rooms"]:
                    gone = sum(amount for at_s, amount in seen["gone"][qos] if at_s >= before_s)
                    lines += self._set(qos, use, seen["rooms"][qos], gone / 60.0)
        return lines

    def _read(self) -> Mapping[str, Any]:
        """Return the file; empty where there is none yet. Raises: InputError."""
        try:
            text = self.room.read_text()
        except FileNotFoundError:
            return {"time_s": -math.inf, "rooms": {}}
        except OSError as error:
            hint = "the controller's account and root can read it"
            raise InputError(f"cannot be read: {error.strerror}", where=self.room, hint=hint) from error
        with as_written(self.room, "file of a controller's budgets"):
            found: Mapping[str, Any] = json.loads(text)
            dict(found["rooms"])
            float(found["time_s"])
        return found

    def _newer(self, than_s: float) -> Mapping[str, Any] | None:
        """Return what a round of the controller wrote that looked after a time; None where there is none."""
        until_s = than_s + FRESH_S
        while (found := self._read())["time_s"] <= than_s:
            if not than_s <= self.clock() < until_s:
                return None
            self.wait(0.1)
        return found

    def _set(self, qos: str, use: QosUse, room: Mapping[str, Any], gone: float) -> Iterator[str]:
        """Set one limit; ``gone``: watt-minutes of jobs that may have ended since the use was read."""
        name, last = room["name"], self.journal.last.get(qos)
        if room["room"] is None:
            if use.limit is not None:
                yield self._write(qos, name, use, None, None)
            return
        begin_s = float(room["begin_s"])
        if last is not None and last["begin_s"] != begin_s:
            yield self._renew(qos, name, use, begin_s)
            return  # what Slurm counts now is read again
        limit = max(0, math.ceil(use.occupied - gone + room["room"] / 60.0) + SLACK)
        whole = room["whole"] / 60.0
        more = math.inf if use.limit is None else limit - use.limit
        awaited = room["under_way"] > 0.0 and more > SLACK
        if more < -2 * SLACK or more > max(STEP * whole, SLACK) or awaited or last is None:
            yield self._write(qos, name, use, limit, begin_s, whole)

    def _write(
        self, qos: str, name: str, use: QosUse, limit: int | None, begin_s: float | None, whole: float = 0.0
    ) -> str:
        raised = 0 if limit is None else max(0, limit - round(whole))
        self._change("set", qos, name, use, limit, begin_s, raised)
        what = "no limit" if limit is None else f"{limit:,} watt-minutes, {raised:,} of them beside the budget"
        return f"budget {name}: QOS {qos} has {what}"

    def _renew(self, qos: str, name: str, use: QosUse, begin_s: float) -> str:
        """Begin a period: nothing starts until what Slurm counts is zero, and read again."""
        self._change("renew", qos, name, use, 0, begin_s)
        must(self.slurm, ("sacctmgr", "-i", "modify", "qos", qos, "set", "RawUsage=0"))
        return f"budget {name}: a period begins, the use of QOS {qos} is 0"

    def _change(
        self, event: str, qos: str, name: str, use: QosUse, limit: int | None, begin_s: float | None, raised: int = 0
    ) -> None:
        """Note a change, and make it."""
        self.journal.note(
            time_s=self.clock(), qos=qos, budget=name, event=event, before=use.limit, limit=limit, raised=raised,
            counted=use.occupied, begin_s=begin_s,
        )  # fmt: skip
        if limit != use.limit:
            most = f"GrpTRESMins={TRES}={-1 if limit is None else limit}"
            must(self.slurm, ("sacctmgr", "-i", "modify", "qos", qos, "set", most))


def require_kept(slurm: Slurm, budgets: Mapping[str, str]) -> list[str]:
    """Return what a person should know. Raises: InputError where Slurm cannot keep budgets, SlurmError."""
    found = list(examine_qos(slurm, budgets))
    bad = next((one for one in found if one.state == NO), None)
    if bad is not None:
        raise InputError(f"budgets are not kept: {bad.found}", where=bad.name, hint=bad.cost)
    return [f"{one.name}: {one.found}: {one.cost}" for one in found if one.state == PART]
