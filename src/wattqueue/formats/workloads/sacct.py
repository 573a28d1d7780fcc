"""Slurm's accounting as ``sacct --parsable2`` writes it (``formats.slurm``)."""

from __future__ import annotations

from wattqueue.formats.workload import Workload
from wattqueue.formats.workload_format import LIKELY, NOT, POSSIBLE, ReadOptions, WorkloadFile, WorkloadFormat


def recognise(file: WorkloadFile) -> int:
    """Return LIKELY for a text with a header of sacct, POSSIBLE for what its reader can explain.

    These are UTF-16, which Windows tools write; aligned columns; and rows without a header, of which a separator of
    sacct or the word JobID near the beginning is the best sign that is left.
    """
    from wattqueue.formats.slurm.fields import parse_header

    if file.head[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return POSSIBLE
    if file.is_json:
        return NOT
    if any(parse_header(line.encode()) for line in file.lines if "jobid" in line.lower()):
        return LIKELY
    body = next((line for line in file.lines if not line.lstrip().startswith(";")), "")
    return POSSIBLE if "|" in body or any("jobid" in line.lower() for line in file.lines[:1000]) else NOT


def read(file: WorkloadFile, options: ReadOptions) -> Workload:
    """Return the jobs of a dump. Raises: InputError."""
    from wattqueue.formats.slurm.sacct import read_sacct

    return read_sacct(file.path, options)


FORMAT = WorkloadFormat("sacct", "sacct --parsable2 with a header", recognise, read)
