"""Secrets: files that only their owner can read, and hosts to which they may be sent without encryption (this one)."""

from __future__ import annotations

import os
import stat
from ipaddress import ip_address
from pathlib import Path

from wattqueue.errors import InputError

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
