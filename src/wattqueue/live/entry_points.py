"""What packages beside the core add to the controller: entry points in the group ``wattqueue.live``.

The name of an entry point is that of the section of live.toml that asks for it:

- ``broker``: the class of connections to agents (``live.agents.AgentConnection``);
- ``openadr``: a source of load targets (``TargetExtension``);
- ``flux``: the fields of its section; the controller is a broker module of a Flux instance (``wattqueue_flux``).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from wattqueue.errors import InputError
from wattqueue.formats.checked_toml import Section
from wattqueue.installed import entry_points_of

if TYPE_CHECKING:  # agents import this module, on nodes without the controller's libraries
    from wattqueue.live.features.load_targets import TargetSource
    from wattqueue.model.machine import Machine

GROUP = "wattqueue.live"


class TargetExtension(Protocol):
    """A source of load targets that another package adds, with its section of live.toml."""

    section: type[Section]
    """Its fields; those that are paths start at the file's folder."""

    def source(self, section: Section, machine: Machine, run_dir: Path, *, controls: bool) -> TargetSource:
        """Return the source. ``controls``: whether the controller starts jobs, and does not only look.

        Raises: InputError where a file of the section cannot be used.
        """
        ...


def live_extension(name: str) -> Any:
    """Return what the section ``name`` of a configuration asks for. Raises: InputError where no package has it."""
    for point in entry_points_of(GROUP):
        if point.name == name:
            return point.load()
    raise InputError(
        f"no installed package serves the section {name}",
        where="live.toml",
        hint="this installation has the core alone: pip install wattqueue",
    )
