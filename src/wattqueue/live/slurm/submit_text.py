"""Read and write the data file of job_submit.lua as a whole: a first line with length and checksum, and its lines.

What the lines say, and how they are derived, stands in ``submit_data``. This module stands by itself, since the process
with the rights to write to Slurm replaces the file and derives nothing (``live.guard``).

A file that is cut, damaged, or of another version counts as missing: the script then takes the dearest node for every
partition, and the greatest number of nodes that a job could get.
"""

from __future__ import annotations

import contextlib
import pwd
import re
import zlib
from pathlib import Path
from typing import NamedTuple

from wattqueue.errors import OutputError
from wattqueue.formats.atomic_write import atomic_text
from wattqueue.live.slurm.commands import Slurm, SlurmError

SUBMIT_DATA = "submit.data"
FORMAT = "wattqueue-submit"
VERSION = 1
_HEADER = re.compile(rf"{FORMAT} ([0-9]+) ([0-9]{{1,12}}) ([0-9]+) ([0-9a-f]+)")
MOST_BYTES = 4 * 2**20
"""The script reads no more."""


def text_of(body: str, now_s: float) -> str:
    """Return the whole file, written at ``now_s`` (seconds since the epoch). Raises: OutputError for one too large."""
    content = body.encode()
    if len(content) > MOST_BYTES:
        raise OutputError(f"{len(content)} bytes for job_submit.lua", hint=f"it reads {MOST_BYTES} at most")
    return f"{FORMAT} {VERSION} {int(now_s):012d} {len(content):08d} {zlib.adler32(content):08x}\n{body}"


def write_lines(path: Path, body: str, now_s: float) -> None:
    """Replace the file atomically, readable for slurmctld's account. Raises: OutputError."""
    atomic_text(path, text_of(body, now_s), mode=0o644)


def keep_lines(path: Path, body: str, now_s: float) -> bool:
    """Replace the file where it does not say this; return whether it was replaced. Raises: OutputError."""
    there = read_data(path)
    if not isinstance(there, str) and there.body == body:
        return False
    write_lines(path, body, now_s)
    return True


class Written(NamedTuple):
    """A data file as it was read."""

    at_s: float
    """When it was written, in seconds since the epoch."""
    body: str


def read_data(path: Path) -> Written | str:
    """Return the file, or why the script does not use it: missing, of another version, or damaged."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 100).decode(errors="replace")
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    first, _, body = text.partition("\n")
    header = _HEADER.fullmatch(first)
    if header is None or int(header[1]) != VERSION:
        version = f"version {header[1]}" if header else "another format"
        return f"is of {version}, job_submit.lua reads version {VERSION}"
    content = body.encode()
    if (len(content), zlib.adler32(content)) != (int(header[3]), int(header[4], 16)):
        return "is damaged"
    return Written(float(header[2]), body)


def staff_in(path: Path) -> tuple[int, ...]:
    """Return the staff that the file names; none where it is missing or damaged."""
    found = read_data(path)
    return () if isinstance(found, str) else tuple(map(int, re.findall(r"^staff ([0-9]+)$", found.body, re.MULTILINE)))


def staff_of(slurm: Slurm) -> tuple[int, ...] | None:
    """Return the accounts on this host with Slurm's operator or administrator level; None where sacctmgr fails.

    It fails without accounting, too.
    """
    try:
        answer = slurm.run(("sacctmgr", "-n", "-P", "show", "user", "format=User,AdminLevel"))
    except SlurmError:
        return None
    if answer.code != 0:
        return None
    found = set()
    for line in answer.out.splitlines():
        name, _, level = line.partition("|")
        if level.strip().startswith(("Operator", "Administrator")):
            with contextlib.suppress(KeyError):
                found.add(pwd.getpwnam(name).pw_uid)
    return tuple(sorted(found))
