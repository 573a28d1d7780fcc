"""Read the files that a controller starts from, or that WattQueue wrote itself.

Where state and run folder are when the configuration does not say so (``home_of``). Two situations, two answers. A
configuration under /etc belongs to a service: its unit may write nothing but its state directory, so state and run
folder go there. Any other configuration is someone's trial, and everything stays in its folder. The rule looks at the
path alone and not at the process (``STATE_DIRECTORY`` of systemd, rights of the account), because ``live install`` runs
as root in a shell and must arrive at the same heartbeat path as the unit.

Secrets are files that only their owner can read; ``is_loopback`` names the hosts to which they may be sent without
encryption (this one).

Files that WattQueue writes and reads again may have been changed by another version, a hand or a full disk
(``as_written``).
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path

from wattqueue.errors import InputError


@contextmanager
def as_written(path: Path, what: str, hint: str | None = None) -> Iterator[None]:
    """Raise InputError, "is no ...", for values in the block that are missing or of another kind than were written."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, struct.error) as error:
        raise InputError(f"is no {what}", where=path, hint=hint) from error


ETC = Path("/etc")
SERVICE_HOME = Path("/var/lib/wattqueue")
"""The ``StateDirectory`` of wattqueue-live.service."""


def home_of(config_folder: Path) -> Path:
    """Return the folder of the state and the run folder for a configuration file in ``config_folder``."""
    return SERVICE_HOME if config_folder.is_relative_to(ETC) else config_folder


HINT = "only this host may be reached without encryption: others could read what is sent, and answer in its place"


def is_loopback(host: str) -> bool:
    """Whether a host is this one, which no other host can reach or listen to: ``localhost``, 127.0.0.0/8 or ::1."""
    name = host.strip().strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def read_secret(path: Path) -> str:
    """Read a secret from a file that its owner alone (this account, or root) can read.

    Raises: InputError for a file that others can read, that belongs to somebody else, or that is empty. No message
    contains any of its content.
    """
    try:
        status = path.stat()
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            mode = oct(stat.S_IMODE(status.st_mode))
            raise InputError(f"the secret is readable by others (mode {mode})", where=path, hint=f"chmod 600 {path}")
        if status.st_uid not in (os.geteuid(), 0):
            hint = "it must belong to this account or to root"
            raise InputError(f"the secret belongs to uid {status.st_uid}", where=path, hint=hint)
        secret = path.read_text().strip()
    except OSError as error:
        raise InputError(f"the secret cannot be read: {error.strerror}", where=path) from error
    except UnicodeDecodeError as error:
        raise InputError("the secret is not text", where=path) from error
    if not secret:
        raise InputError("the secret is empty", where=path)
    return secret
