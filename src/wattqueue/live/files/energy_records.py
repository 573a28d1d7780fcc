"""Records of the energy of jobs, in files that their owners alone can read.

``energy/users/UID/jobs/2026-11.jsonl`` holds a line for each job of a user that ended in that month (UTC), and
``energy/accounts/NAME/jobs/...`` the same lines for the managers of an account. The last line of a run counts: a figure
of the accounting that arrives later is another line. ``running`` beside them has a line for each job that runs.

Who may read. The folder of a user belongs to the controller's account and carries an access list (POSIX) with the
user's id, so that no right but that of a file's owner is needed; that of an account lists its managers. The folders
above can be entered and not listed (0711). What changes lies one folder deeper, so that nobody else sees when a job of
somebody ended. The controller's account and root read everything.

Another account cannot tell how much a user used, whatever Slurm's ``PrivateData`` says.
"""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from wattqueue.errors import InputError
from wattqueue.live.files.status import put
from wattqueue.model.plain_numbers import is_whole

ENERGY, USERS, ACCOUNTS, JOBS, RUNNING, SEEN = "energy", "users", "accounts", "jobs", "running", "seen"
BUDGETS, ROOM = "budgets.json", "budget-room.json"
Label = Literal["measured", "attributed", "modelled"]
"""``measured``: by meters of whole nodes that the job had alone; ``attributed``: its share of meters of shared nodes;
``modelled``: from the prediction, or from idle and maximum watts of the machine file."""
ACL = "system.posix_acl_access"
ACL_VERSION, NO_ID = 2, 0xFFFFFFFF
OWNER, NAMED, GROUP, MASK, OTHERS = 1, 2, 4, 16, 32
"""Kinds of entries of an access list (linux/posix_acl_xattr.h)."""
READ_ENTER = 5
DAY_S = 86_400.0


@dataclass(frozen=True, kw_only=True)
class EnergyRecord:
    """One run of one job. Times are seconds since the epoch, energies joules of all its nodes."""

    job: str
    """Name as Slurm's commands accept it: ``12``, ``12_3`` for a task of an array, ``12+1`` for a component."""
    submit_s: float
    """Submission of this run: a requeue begins another."""
    first_s: float
    """First submission."""
    start_s: float
    end_s: float
    uid: int
    account: str
    partition: str
    nodes: int
    energy_j: float
    low_j: float
    """The interval: what was not measured lies between idle and maximum watts."""
    high_j: float
    label: Label
    source: str
    """What measured it, or ``machine`` or ``prediction``."""
    share: float = 1.0
    """What it had of its nodes, by CPUs among the jobs there."""
    restarts: int = 0
    watts_wait_s: float | None = None
    """How long watts alone kept it waiting, to the minute; None where nobody saw it wait."""
    lower: tuple[float, float, float] | None = None
    """A lower clock in hertz, the share of energy that it saves, the share of run time that it adds; by the model."""
    cost: float | None = None
    """At the site's price of each hour; None without a price for all of the run."""
    cost_unit: str = ""
    carbon: float | None = None
    carbon_unit: str = ""
    project: str = ""
    """The wckey in Slurm; empty for none, and for a run that the accounting alone knows."""

    @property
    def key(self) -> tuple[str, float]:
        """Identity of the run."""
        return self.job, self.submit_s

    def line(self) -> str:
        """Return the record as a line of its file."""
        return json.dumps(asdict(self), separators=(",", ":")) + "\n"

    @classmethod
    def of_line(cls, line: str) -> EnergyRecord | None:
        """Return the record of a line; None for one that was cut off, or written by another version."""
        try:
            values: dict[str, Any] = json.loads(line)
            lower = values.get("lower")
            found = cls(**values | {"lower": None if lower is None else tuple(lower)})
            return found if found.low_j <= found.energy_j <= found.high_j and found.start_s <= found.end_s else None
        except (ValueError, TypeError, AttributeError):
            return None


@dataclass
class EnergyFolder:
    """Writes records. Raises: OSError where the folder cannot be written, or carries no access lists."""

    folder: Path
    """``energy`` in the run folder."""
    keep_months: int = 25
    _readers: dict[Path, tuple[int, ...]] = field(default_factory=dict)
    """Who may read each folder."""

    def append(self, record: EnergyRecord, managers: Sequence[int] = ()) -> None:
        """Add a record to the files of its user and of its account."""
        places: list[tuple[Path, tuple[int, ...]]] = [(self._of_user(record.uid), (record.uid,))]
        if record.account:
            places.append((of_account(self.folder, record.account), tuple(managers)))
        for place, readers in places:
            self._open(place, readers)
            path = place / JOBS / f"{time.strftime('%Y-%m', time.gmtime(record.end_s))}.jsonl"
            if not path.exists():
                self._prune(place / JOBS, record.end_s)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644), "a") as file:
                file.write(record.line())

    def put_running(self, uid: int, records: Iterable[EnergyRecord]) -> None:
        """Write what the running jobs of a user used until now, as lines that a shell can read, too.

        A line: name, time, joules until then, watts, label, submission, start, nodes.
        """
        place = self._of_user(uid)
        self._open(place, (uid,))
        put(place / JOBS / RUNNING, "".join(map(_running_line, records)), 0o644)

    def put_budgets(self, uid: int | None, text: str) -> None:
        """Write the budgets of a user, or all of them for the controller's account."""
        if uid is None:
            self._make(self.folder)
            put(self.folder / BUDGETS, text, 0o600)
            return
        self._open(self._of_user(uid), (uid,))
        put(self._of_user(uid) / JOBS / BUDGETS, text, 0o644)

    def put_room(self, text: str) -> None:
        """Write what Slurm may start of budgets by itself, for root and the controller's account."""
        self._make(self.folder)
        put(self.folder / ROOM, text, 0o600)

    def see(self, now_s: float) -> None:
        """Write until when ends of jobs are recorded."""
        self._make(self.folder)
        put(self.folder / SEEN, f"{now_s:.0f}\n", 0o600)

    def seen_s(self, otherwise_s: float) -> float:
        """Return until when ends of jobs are recorded, or another time where that is not known."""
        try:
            return min(float((self.folder / SEEN).read_text()), otherwise_s)
        except (OSError, ValueError):
            return otherwise_s

    def _make(self, folder: Path) -> None:
        """Make a folder that everybody may enter and nobody list."""
        folder.mkdir(mode=0o711, exist_ok=True)
        folder.chmod(0o711)

    def _of_user(self, uid: int) -> Path:
        return self.folder / USERS / str(uid)

    def _open(self, place: Path, readers: tuple[int, ...]) -> None:
        """Make a folder, and let these accounts read it."""
        if self._readers.get(place) == readers:
            return
        self._make(self.folder)
        self._make(place.parent)
        place.mkdir(mode=0o700, exist_ok=True)
        os.setxattr(place, ACL, access_list(readers))
        (place / JOBS).mkdir(exist_ok=True)
        (place / JOBS).chmod(0o755)
        self._readers[place] = readers

    def _prune(self, folder: Path, now_s: float) -> None:
        """Remove months that are too old."""
        oldest = time.strftime("%Y-%m", time.gmtime(now_s - self.keep_months * 30.5 * DAY_S))
        for path in folder.glob("*.jsonl"):
            if path.stem < oldest:
                path.unlink(missing_ok=True)


def _running_line(record: EnergyRecord) -> str:
    """Return a running job as a line; without its prices, which are of jobs that ended."""
    watts = record.energy_j / max(record.end_s - record.start_s, 1.0)
    figures = f"{record.end_s:.0f} {record.energy_j:.0f} {watts:.0f} {record.label}"
    return f"{record.job} {figures} {record.submit_s:.0f} {record.start_s:.0f} {record.nodes}\n"


def run_name(job: str, submit_s: float) -> str:
    """Return the name of a run in the books."""
    return f"{job}@{submit_s:.0f}"


def of_account(folder: Path, account: str) -> Path:
    """Return the folder of an account; the mark keeps a name such as ``..`` from being another folder."""
    return folder / ACCOUNTS / f"={quote(account, safe='')}"


def access_list(readers: Collection[int]) -> bytes:
    """Return an access list as the kernel stores it: its owner may do everything, these accounts read."""
    entries = [(OWNER, 7, NO_ID), *((NAMED, READ_ENTER, uid) for uid in sorted(readers)), (GROUP, 0, NO_ID)]
    entries += [(MASK, READ_ENTER, NO_ID), (OTHERS, 0, NO_ID)]
    return struct.pack("<I", ACL_VERSION) + b"".join(struct.pack("<HHI", *one) for one in entries)


def folders_of(folder: Path, reader: int, user: int | None = None, account: str | None = None) -> list[Path]:
    """Return the folders with the records that are asked for: of a user, an account, or all that ``reader`` may read.

    Raises: InputError where the reader may not, or the controller has written nothing.
    """
    if account is not None:
        places = [of_account(folder, account)]
    elif user is not None:
        places = [folder / USERS / str(user)]
    else:
        try:
            places = sorted(one for one in (folder / USERS).iterdir() if is_whole(one.name))
        except PermissionError:
            places = [folder / USERS / str(reader)]
        except OSError as error:
            hint = "is the controller running, with this configuration and a section [energy]?"
            raise InputError("no energies of jobs", where=folder, hint=hint) from error
    for place in places:
        if place.is_dir() and not os.access(place, os.R_OK | os.X_OK):
            hint = "a user reads own jobs, a coordinator of Slurm those of the account (--account)"
            raise InputError(f"{place.name} is not yours to read", where=place.parent, hint=hint)
    return places


def read_records(places: Iterable[Path], begin_s: float = 0.0, end_s: float = 4e9) -> list[EnergyRecord]:
    """Return the runs that ended in a span, its end left out, in the order of their ends; of a run the last line."""
    first, last = (time.strftime("%Y-%m", time.gmtime(at)) for at in (begin_s, end_s))
    found: dict[tuple[str, float], EnergyRecord] = {}
    for place in places:
        for path in sorted((place / JOBS).glob("*.jsonl")):
            if first <= path.stem <= last:
                for line in path.read_text(errors="replace").splitlines():
                    if (record := EnergyRecord.of_line(line)) is not None:
                        found[record.key] = record
    return sorted((one for one in found.values() if begin_s <= one.end_s < end_s), key=lambda one: (one.end_s, one.key))


def read_running(places: Iterable[Path], ended: Iterable[EnergyRecord] = ()) -> list[tuple[str, float, float, str]]:
    """Return (job, time, joules until then, label) of the jobs that run, runs left out that have ended since."""
    rows, over = [], {(one.job, f"{one.start_s:.0f}") for one in ended}
    for place in places:
        path = place / JOBS / RUNNING
        for line in path.read_text(errors="replace").splitlines() if path.is_file() else ():
            words = line.split()
            try:
                if (words[0], words[6]) not in over:
                    rows.append((words[0], float(words[1]), float(words[2]), words[4]))
            except (ValueError, IndexError):
                continue
    return rows
