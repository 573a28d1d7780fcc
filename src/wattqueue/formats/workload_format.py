"""What a format of workloads states about itself, and what of a file it is recognised by.

A format is one Python file with a constant ``FORMAT``::

    FORMAT = WorkloadFormat("mine", "My site's table", recognise, read)

``recognise`` looks at the beginning of a file (``WorkloadFile``) and says how certain it is that the file has this
format; ``read`` returns its ``Workload``. ``formats.read`` finds the file; no list is extended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from wattqueue.formats.source import opened
from wattqueue.formats.workload import Workload

HEAD_BYTES = 1 << 20
"""How much of a file decides its format.

Bytes. Dumps can begin with long banners, SWF traces with long comments.
"""
NOT, POSSIBLE, LIKELY, SURE = 0, 1, 2, 3
"""How certain a format is of a file.

``SURE``: names of columns or first bytes that no other format has. ``LIKELY``: a sign that may stand in other files
too. ``POSSIBLE``: nothing fits better, and the reader's own error says what is missing. The most certain format reads
the file.
"""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a file does not state itself; each reader uses what concerns it.

    Options that do not concern the format of a file are ignored, so that verbs can pass all of them on.
    """

    time_zone: str | None = None
    """Of times without a zone; None: UTC."""
    columns: str | None = None
    """Columns of an sacct dump without a header, as given to ``sacct --format``."""
    node_watts: tuple[float, float] | None = None
    """Idle and maximum watts of one node, which bound energy counters."""
    default_walltime_s: float | None = None
    """Seconds, of jobs without a limit; None: their run time."""
    procs_per_node: int = 1
    """SWF processors per unit."""
    queued: bool = False
    """Keep jobs that have not ended, with their limit as run time."""


DEFAULTS = ReadOptions()
"""Nothing stated."""


@dataclass(frozen=True)
class WorkloadFile:
    """A file, and what its formats recognise it by. Each property is read once, when it is first asked for.

    The properties raise InputError where the file cannot be read.
    """

    path: Path

    @cached_property
    def head(self) -> bytes:
        """Return the first ``HEAD_BYTES``, decompressed."""
        with opened(self.path) as source:
            return source.read(HEAD_BYTES)

    @cached_property
    def is_parquet(self) -> bool:
        """Return whether the file begins as Parquet does."""
        return self.head[:4] == b"PAR1"

    @cached_property
    def is_json(self) -> bool:
        """Return whether the file begins with a bracket of JSON."""
        return self.lines[:1] != [] and self.lines[0].lstrip()[:1] in {"{", "["}

    @cached_property
    def document(self) -> Any:
        """Return the whole JSON document. Raises: InputError for a file that is no JSON."""
        from wattqueue.formats.json_text import load_json

        return load_json(self.path)

    @cached_property
    def lines(self) -> list[str]:
        """Return the lines of a text that are not blank, the last one perhaps cut; none of a Parquet file.

        The head may end within a character, which is replaced; this is harmless, since only words are looked for.
        """
        text = "" if self.is_parquet else self.head.decode("utf-8-sig", "replace")
        return [*filter(str.strip, text.splitlines())]

    @cached_property
    def columns(self) -> frozenset[str]:
        """Return the names of the columns of a Parquet file, or those in the first line of a CSV that is no comment."""
        if self.is_parquet:
            from wattqueue.formats._parquet import scan

            return frozenset(scan(self.path)[1].names())
        header = next((line for line in self.lines if not line.startswith("#")), "")
        return frozenset(name.strip().strip('"') for name in header.split(","))


Recognise = Callable[[WorkloadFile], int]
Read = Callable[[WorkloadFile, ReadOptions], Workload]


@dataclass(frozen=True, slots=True)
class WorkloadFormat:
    """A format of workloads."""

    kind: str
    """Name, as ``--from`` takes it and ``Workload.format`` has it: small letters and hyphens."""
    summary: str
    """What such a file is, in a few words, for errors and for the list in the documentation."""
    recognise: Recognise
    """How certain it is that a file has this format: NOT, POSSIBLE, LIKELY or SURE."""
    read: Read
    """Return the workload of a file. Raises: InputError naming file and line."""


def parquet_with(*names: str) -> Recognise:
    """Return a recogniser of Parquet files that have all of these columns."""
    return lambda file: SURE if file.is_parquet and file.columns.issuperset(names) else NOT


def csv_with(*names: str) -> Recognise:
    """Return a recogniser of CSV files whose first line that is no comment has all of these names."""
    return lambda file: SURE if not file.is_parquet and file.columns.issuperset(names) else NOT
