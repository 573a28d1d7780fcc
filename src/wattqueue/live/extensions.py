"""What packages beside the core add to the controller: entry points in the group ``wattqueue.live``.

The name of an entry point is that of the section of live.toml that asks for it. ``broker`` is the class of connections
to agents (``live.agents.AgentConnection``).
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from wattqueue.errors import InputError

GROUP = "wattqueue.live"


def live_extension(name: str) -> Any:
    """Return what the section ``name`` of a configuration asks for. Raises: InputError where no package has it."""
    for point in entry_points(group=GROUP, name=name):
        return point.load()
    raise InputError(
        f"no installed package serves the section {name}",
        where="live.toml",
        hint="this installation has the core alone: pip install wattqueue",
    )
