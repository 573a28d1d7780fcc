"""Where the controller keeps its files when the configuration does not say so.

Two situations, two answers. A configuration under /etc belongs to a service: its unit may write nothing but its
state directory, so state and run folder go there. Any other configuration is someone's trial, and everything stays
in its folder. The rule looks at the path alone and not at the process (``STATE_DIRECTORY`` of systemd, rights of the
account), because ``live install`` runs as root in a shell and must arrive at the same heartbeat path as the unit.
"""

from __future__ import annotations

from pathlib import Path

ETC = Path("/etc")
SERVICE_HOME = Path("/var/lib/wattqueue")
"""The ``StateDirectory`` of wattqueue-live.service."""


def home_of(config_folder: Path) -> Path:
    """Return the folder of the state and the run folder for a configuration file in ``config_folder``."""
    return SERVICE_HOME if config_folder.is_relative_to(ETC) else config_folder
