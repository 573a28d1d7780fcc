"""The guard's own configuration: a TOML file that the planner's account cannot write.

An example::

    socket = "/run/wattqueue-guard/socket"
    planner = "wattqueue"              # the account that may connect
    run_dir = "/var/lib/wattqueue-guard"
    cap = "/etc/wattqueue/cap.csv"     # or "400kW"
    without_jobs_w = 95000             # what counts of the cap without any job: idle nodes, shared nodes
    overshoot = "0W"                   # what the site accepts above the cap: watts, or a share of the cap ("2%")
    accepted = []                      # what else than the maximum of its nodes may count for a job (``ACCEPTED``)
    last_resort = []                   # "stop", "requeue", "frequency": done without consent of the job's user

    limits_socket = "/run/wattqueue-limits/socket"    # optional: what says which limits of nodes are in force

    [node_w]                           # most net watts of a node, by partition of the cluster
    batch = 300

    [slurm]                            # as in live.toml
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from wattqueue.errors import InputError
from wattqueue.live.consent_tags import SiteDefaults
from wattqueue.live.guard.own_cap import UNITS_W, quantity_of
from wattqueue.live.guard.table_reader import TableReader, uid_of
from wattqueue.live.watts.bound import NO_OVERSHOOT, AcceptedOvershoot

ACCEPTED = frozenset({"estimates", "frequencies", "limits"})
"""What a site may have the guard accept: that jobs start with what the planner predicts, that they start on less at a
lower frequency, that licences of running jobs follow limits of their nodes, or what is measured. None by default."""
LAST_RESORT = frozenset({"stop", "requeue", "frequency"})


@dataclass(frozen=True)
class GuardSettings:
    """What the file of a guard states. Watts are whole watts in the cap's scope."""

    socket: Path
    run_dir: Path
    cap: str
    node_w: Mapping[str, int]
    """Most net watts of a node by partition; one that is not named counts as the dearest."""
    without_jobs_w: float
    planner: str = ""
    """Account that may connect; empty: the account of the guard itself alone."""
    free: frozenset[str] = frozenset()
    """Partitions whose jobs carry no watts."""
    overshoot: AcceptedOvershoot = NO_OVERSHOOT
    """What the site accepts that jobs draw above the cap in force."""
    accepted: frozenset[str] = frozenset()
    last_resort: frozenset[str] = frozenset()
    consent: SiteDefaults = field(default_factory=SiteDefaults)
    """What holds for jobs whose comment states no consent."""
    away_s: float = 120.0
    slurm: Mapping[str, Any] = field(default_factory=dict)
    limits_socket: Path | None = None
    """Where what publishes limits of nodes says which are in force; None: the planner's word counts."""

    def most_w(self, partitions: str, nodes: int) -> int:
        """Return the most that a job of so many nodes can draw in one of these partitions (``p1,p2``)."""
        if partitions in self.node_w and partitions not in self.free:  # as of each running job
            return nodes * self.node_w[partitions]
        dearest = max(self.node_w.values(), default=0)
        names = [name for name in partitions.split(",") if name not in self.free]
        return nodes * max((self.node_w.get(name, dearest) for name in names), default=0)

    def told(self) -> dict[str, Any]:
        """Return what writes are checked against, as JSON holds it: for the planner at its start, and ``doctor``."""
        return {
            "node_w": dict(self.node_w),
            "without_jobs_w": self.without_jobs_w,
            "free": sorted(self.free),
            "overshoot": [*self.overshoot],
            "accepted": sorted(self.accepted),
            "last_resort": sorted(self.last_resort),
            "consent": asdict(self.consent),
            "limits_socket": str(self.limits_socket or ""),
            "frequency_dir": str(self.slurm.get("frequency_dir", "")),
        }

    def planner_uid(self) -> int | None:
        """Return the user id that may connect; None for the guard's own. Raises: InputError for an unknown account."""
        return uid_of(self.planner, "planner") if self.planner else None


def overshoot_of(text: str, name: str) -> AcceptedOvershoot:
    """Return watts, or a share, of a text like ``400kW`` or ``2%``. Raises: InputError."""
    number, unit = quantity_of(text, name)
    return AcceptedOvershoot(share=number / 100.0) if unit == "%" else AcceptedOvershoot(number * UNITS_W[unit])


def read_settings(path: Path) -> GuardSettings:
    """Read the file; relative paths start at its folder. Raises: InputError naming the key."""
    try:
        return parse_settings(path.read_bytes(), path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from error


def parse_settings(text: bytes, path: Path) -> GuardSettings:
    """Return what a text says as the file at ``path`` would. Raises: InputError naming the key."""
    return _Reader.of(text, path).settings()


class _Reader(TableReader):
    """Takes the settings of a guard."""

    def settings(self) -> GuardSettings:
        overshoot = overshoot_of(self.take("overshoot", str, "0W"), "overshoot")
        found = GuardSettings(
            self.file("socket"), self.file("run_dir"), self.cap(), self._watts(),
            self.number("without_jobs_w"), self.take("planner", str, ""), frozenset(self.take("free", list, [])),
            overshoot, self._words("accepted", ACCEPTED), self._words("last_resort", LAST_RESORT),
            self._defaults(), self.number("away_s", 120.0), self.take("slurm", dict, {}),
            self.file("limits_socket") if "limits_socket" in self.data else None,
        )  # fmt: skip
        self.end()
        found.planner_uid()
        return found

    def _watts(self) -> Mapping[str, int]:
        found = self.take("node_w", dict)
        for name, watts in found.items():
            if isinstance(watts, bool) or not isinstance(watts, int) or not 0 <= watts <= 10**6:
                raise InputError(f"node_w.{name} must be a whole number of watts", where=self.path)
        return dict(found)

    def _defaults(self) -> SiteDefaults:
        given = self.take("consent", dict, {})
        users, accounts = given.pop("users", {}), given.pop("accounts", {})
        others = given.pop("others", False)
        tables = [table for table in (users, accounts) if isinstance(table, dict)]
        flags = [others, *(flag for table in tables for flag in table.values())]
        if given or len(tables) < 2 or not all(isinstance(flag, bool) for flag in flags):
            raise InputError("consent: others, users.NAME and accounts.NAME are true or false", where=self.path)
        return SiteDefaults(users, accounts, others)

    def _words(self, name: str, known: Any) -> frozenset[str]:
        words = self.take(name, list, [])
        for word in words:
            if word not in known:
                raise InputError(f"{name}: {word!r} is none of {', '.join(sorted(known))}", where=self.path)
        return frozenset(words)
