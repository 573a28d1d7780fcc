"""The configuration of the process that publishes limits: a TOML file that the planner's account cannot write.

An example::

    socket = "/run/wattqueue-limits/socket"
    planner = "wattqueue"              # the account whose requests are carried out
    guard = "wattqueue-guard"          # the account that may ask which limits are in force
    cap = "/etc/wattqueue/cap.csv"     # or "400kW"
    keeps_cap = true                   # whether limits of all nodes together stay within the cap
    without_nodes_w = 0                # what counts of the cap beside these nodes; negative: idle watts outside of it
    other_w = 60                       # watts of each node that have no limit
    hold_s = 30                        # a limit expires after so long unless it is renewed
    silence_s = 5                      # a node whose agent was not heard of for so long counts at its maximum
    away_s = 120                       # without a planner for so long each node gets the same share of the cap

    [node_w]                           # the most that a node draws, whatever its limit
    "n[1-64]" = 360

    [least_w]                          # optional: no limit is set below it
    "n[1-64]" = 180

    [broker]                           # as in live.toml
    host = "broker"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from wattqueue.errors import InputError
from wattqueue.formats.slurm.hostlist import expand
from wattqueue.live.files.reading import HINT, is_loopback
from wattqueue.live.guard.table_reader import TableReader, uid_of
from wattqueue.live.watts.node_records import LimitRules

USER = "limits"
"""Name at the broker, unless the configuration states another."""


class LimitsBroker(NamedTuple):
    """Where the broker is (``messages.BrokerAddress``)."""

    host: str
    port: int
    cluster: str
    user: str
    password_file: Path | None
    ca_file: Path | None


@dataclass(frozen=True)
class LimitsSettings:
    """What the file states. Watts are those of whole nodes, idle watts among them."""

    socket: Path
    cap: str
    node_w: Mapping[str, float]
    """The most that each node draws, by its name."""
    least_w: Mapping[str, float]
    """The lowest limit of nodes; what their agents allow where none is stated."""
    broker: LimitsBroker
    rules: LimitRules
    planner: str = ""
    """Account whose requests are carried out; empty: the account of the process itself alone."""
    guard: str = ""
    """Another account that may ask."""
    keeps_cap: bool = True
    without_nodes_w: float = 0.0
    away_s: float = 120.0

    @property
    def planner_uid(self) -> int | None:
        """Return the user id of the planner; None for that of the process itself. Raises: InputError."""
        return uid_of(self.planner, "planner") if self.planner else None

    @property
    def guard_uid(self) -> int | None:
        """Return the user id of the guard; None where none is named. Raises: InputError."""
        return uid_of(self.guard, "guard") if self.guard else None

    def told(self) -> dict[str, Any]:
        """Return what requests are checked against, as JSON holds it."""
        return {
            "node_w": dict(self.node_w),
            "least_w": dict(self.least_w),
            "keeps_cap": self.keeps_cap,
            "without_nodes_w": self.without_nodes_w,
            **self.rules._asdict(),
        }


def read_limits_settings(path: Path) -> LimitsSettings:
    """Read the file; relative paths start at its folder. Raises: InputError naming the key."""
    try:
        return parse_limits_settings(path.read_bytes(), path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from error


def parse_limits_settings(text: bytes, path: Path) -> LimitsSettings:
    """Return what a text says as the file at ``path`` would. Raises: InputError naming the key."""
    return _Reader.of(text, path).settings()


class _Reader(TableReader):
    """Takes the settings."""

    def settings(self) -> LimitsSettings:
        keeps = self.data.pop("keeps_cap", True)
        without_w = self.data.pop("without_nodes_w", 0.0)
        if not isinstance(keeps, bool) or isinstance(without_w, bool) or not isinstance(without_w, int | float):
            raise InputError("keeps_cap is true or false, without_nodes_w a number", where=self.path)
        rules = LimitRules(self.number("other_w", 0.0), self.number("hold_s", 30.0), self.number("silence_s", 5.0))
        if not 3.0 * rules.silence_s <= rules.hold_s <= 3_600.0 or rules.silence_s == 0.0:
            raise InputError("hold_s must be at least three times silence_s, and at most an hour", where=self.path)
        node_w = self._by_node("node_w")
        if not node_w:
            raise InputError("node_w names no node", where=self.path)
        found = LimitsSettings(
            self.file("socket"), self.cap(), node_w, self._by_node("least_w"), self._broker(),
            rules, self.take("planner", str, ""), self.take("guard", str, ""), keeps, float(without_w),
            self.number("away_s", 120.0),
        )  # fmt: skip
        self.end()
        _ = found.planner_uid, found.guard_uid  # raise for an account that does not exist
        return found

    def _by_node(self, name: str) -> dict[str, float]:
        """Take watts by list of nodes; return them by node."""
        found: dict[str, float] = {}
        for names, watts in self.take(name, dict, {}).items():
            if isinstance(watts, bool) or not isinstance(watts, int | float) or not 0 <= watts <= 10**6:
                raise InputError(f"{name}: {names} must be a number of watts", where=self.path)
            if set(names) & set("/+#"):
                raise InputError(f"{name}: {names} cannot stand in a topic", where=self.path)
            found |= dict.fromkeys(expand(names), float(watts))
        return found

    def _broker(self) -> LimitsBroker:
        table = type(self)(self.path, self.take("broker", dict))
        port = int(table.number("port", 8883.0))
        files = [table.file(name) if name in table.data else None for name in ("password_file", "ca_file")]
        found = LimitsBroker(
            table.take("host", str), port, table.take("cluster", str, "cluster"), table.take("user", str, USER), *files
        )
        table.end()
        if found.ca_file is None and not is_loopback(found.host):
            raise InputError(f"broker needs ca_file, the authority of its certificate: {HINT}", where=self.path)
        return found
