"""Write the systemd units with this installation's paths.

The unit files of the package are templates for one layout. Two of their lines depend on the host and cannot be
guessed by a person who copies them: ``ExecStart`` needs the absolute path of *this* ``wattqueue`` (systemd has no
virtual environment and a PATH of its own), and ``User`` the account that job_submit.lua was installed for. Written by
the same command as the script, they cannot differ from it.
"""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from pathlib import Path

from wattqueue.errors import InputError, OutputError
from wattqueue.formats.atomic_write import atomic_text
from wattqueue.live.config import LiveConfig

UNITS = ("wattqueue-live.service", "wattqueue-live-release.service", "wattqueue-live-release.timer")
_PLAIN = re.compile(r"[\w./\-+]+")
"""Paths that need no quoting in a unit file."""
_PROTECTED = (Path("/home"), Path("/root"), Path("/run/user"))
"""Folders that ``ProtectHome=yes`` hides from the unit."""


def executable() -> Path:
    """Return the absolute path of the ``wattqueue`` that belongs to the running interpreter.

    The folder of the interpreter is not resolved: in a virtual environment ``bin/python`` is a link to the system's.
    Raises: InputError where there is none, as in a source tree that was not installed, or where the unit could not
    see it.
    """
    path = Path(sys.executable).parent / "wattqueue"
    if not path.is_file():
        raise InputError(f"there is no {path}", hint="install the package (pip install 'wattqueue[live]') and use that")
    if any(path.is_relative_to(home) for home in _PROTECTED):
        hint = "install it elsewhere, for example into /opt/wattqueue"
        raise InputError("the unit cannot see this installation (ProtectHome=yes)", where=path, hint=hint)
    return path


def render(name: str, config: LiveConfig, file: Path, program: Path) -> str:
    """Return one unit with the program, the account and the configuration file of this installation.

    Raises: OutputError for a path with blanks or other characters that a unit file would take apart.
    """
    text = (files("wattqueue.live") / "share" / name).read_text()
    for path in (program, file):
        if not _PLAIN.fullmatch(str(path)):
            raise OutputError(f"{str(path)!r} cannot stand in a unit file", hint="letters, digits, _ . / - +")
    text = text.replace("/usr/bin/env wattqueue", str(program)).replace("/etc/wattqueue/live.toml", str(file))
    if config.user:
        text = re.sub(r"^(User|Group)=.*$", rf"\1={config.user}", text, flags=re.MULTILINE)
    return text


def write_units(folder: Path, config: LiveConfig, file: Path) -> list[str]:
    """Write the units into a folder; returns what was done. Raises OutputError where it cannot be written."""
    program, done = executable(), []
    for name in UNITS:
        atomic_text(folder / name, render(name, config, file.resolve(), program), mode=0o644)
        done.append(f"wrote {folder / name}")
    return done
