"""What limits were before the agent changed them: on disk before the first change, so that any process can restore it.

The file also holds the lease: which message's limits are in force, and until when. It survives an agent that was
killed. The next one goes on with it, since the limits that it finds are those of its predecessor, and holds them until
the lease runs out. After a reboot the hardware starts with its own limits, and a file of an earlier boot is ignored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from wattqueue.formats.atomic_write import atomic_text
from wattqueue_agent.hardware import find_limits
from wattqueue_agent.limits import Limit, LimitError

FILE = "originals.json"
BOOT = Path("/proc/sys/kernel/random/boot_id")


class HeldLimits(NamedTuple):
    """What the controller asked for, and how long that holds."""

    number: int = 0
    """Of the message."""
    expires_s: float = 0.0
    """Time since the epoch from which on the limits that were found are restored."""
    limits: Mapping[str, float] = {}
    """Limits as they were set, by name."""


NOTHING = HeldLimits()
"""No lease: it ended long ago."""


@dataclass
class Originals:
    """Values of limits by name, and where the limits are.

    Attributes:
        folder: State folder of the agent.
        powercap: Root of the powercap tree.
        cpufreq: Root of the cpufreq policies.
        gpus: Whether GPUs are limited, too.
        owner: Name of the run of the agent that changes limits now.
        values: Value of each limit before it was changed.
        lease: What is in force.
    """

    folder: Path
    powercap: Path
    cpufreq: Path
    gpus: bool
    owner: str = ""
    values: dict[str, float] = field(default_factory=dict)
    lease: HeldLimits = field(default_factory=lambda: NOTHING)

    def __post_init__(self) -> None:
        found = _read(self.folder)
        self.values.update(found.get("values", {}))
        self.lease = _lease_of(found)

    def keep(self, name: str, value: float) -> None:
        """Note the value of a limit that is about to be changed; the first one counts. Raises: OutputError."""
        if name not in self.values:
            self.values[name] = value
            self.save()

    def save(self) -> None:
        """Write the file once more; another process may have removed it. Raises: OutputError."""
        facts = {"boot": _boot(), "powercap": str(self.powercap), "cpufreq": str(self.cpufreq), "gpus": self.gpus}
        held = {"owner": self.owner, "values": self.values, "lease": self.lease._asdict()}
        # Without fsync: a node that loses power begins with its own limits, and the file is of an earlier boot.
        atomic_text(self.folder / FILE, json.dumps({**facts, **held}), mode=0o600, sync=False)

    def restore(self, limits: Mapping[str, Limit]) -> list[str]:
        """Set what was found again; returns one line for each limit that could not be set."""
        problems = []
        for name, value in list(self.values.items()):
            try:
                if name not in limits:
                    raise LimitError("is not on this node any more", where=name)
                limits[name].write(value)
                del self.values[name]
            except LimitError as error:
                problems.append(str(error))
        if not self.values:
            (self.folder / FILE).unlink(missing_ok=True)
        return problems


def read_lease(folder: Path) -> tuple[str, HeldLimits] | None:
    """Return who changes the limits of this node, and what is in force; None where nothing is to be restored."""
    found = _read(folder)
    return (str(found.get("owner", "")), _lease_of(found)) if found.get("values") else None


def restore_from(folder: Path) -> list[str]:
    """Restore what the file of a state folder says, without an agent; returns a line for each failure."""
    found = _read(folder)
    if not found.get("values"):
        lost = _whole(folder) is None
        return [f"{folder / FILE}: cannot be read; set the limits of this node by hand, or reboot it"] if lost else []
    originals = Originals(folder, Path(found["powercap"]), Path(found["cpufreq"]), bool(found["gpus"]))
    return originals.restore(find_limits(originals.powercap, originals.cpufreq, gpus=originals.gpus))


def _lease_of(found: Mapping[str, Any]) -> HeldLimits:
    """Return the lease in a file; one that ended long ago where there is none."""
    return HeldLimits(**found["lease"]) if "lease" in found else NOTHING


def _is_whole(found: Any) -> bool:
    """Whether a file holds what ``save`` writes; a lease may be missing."""
    lease = found.get("lease", NOTHING._asdict()) if isinstance(found, dict) else None
    return (
        isinstance(lease, dict)
        and lease.keys() == NOTHING._asdict().keys()
        and all(_is_number(lease[key]) for key in ("number", "expires_s"))
        and all(isinstance(found.get(key, ""), str) for key in ("boot", "powercap", "cpufreq", "owner"))
        and all(_are_numbers(one) for one in (found.get("values", {}), lease["limits"]))
        and ("values" not in found or {"powercap", "cpufreq", "gpus"} <= found.keys())
    )


def _are_numbers(found: Any) -> bool:
    return isinstance(found, dict) and all(map(_is_number, found.values()))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < math.inf


def _boot() -> str:
    return BOOT.read_text().strip()


def _read(folder: Path) -> dict[str, Any]:
    """Return the file of this boot; empty where there is none, or none that can be read."""
    found = _whole(folder)
    return found if found is not None and found.get("boot") == _boot() else {}


def _whole(folder: Path) -> dict[str, Any] | None:
    """Return the file of any boot, empty where there is none; None for one that is not what ``save`` writes."""
    try:
        found: dict[str, Any] = json.loads((folder / FILE).read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        return None
    return found if _is_whole(found) else None
