"""Licences of power domains in what Slurm's commands print: of jobs, and what there is of each."""

from __future__ import annotations

from collections.abc import Container

from wattqueue.live.cluster import Job, Pool
from wattqueue.live.slurm.commands import SlurmError


def with_domains(row: Job, names: Container[str]) -> Job:
    """Return a job with what it carries of the licences of some domains, which are none of the site's then."""
    native = row.native if isinstance(row.native, tuple) else ()
    counts, others = dict[str, int](), list[str]()
    for piece in native:
        name, _, count = piece.partition(":")
        if name in names:
            counts[name] = counts.get(name, 0) + int(count or 1)
        else:
            others.append(piece)
    return row._replace(native=tuple(others), domains=tuple(counts.items())) if counts else row


def parse_pools(text: str, names: Container[str]) -> dict[str, Pool]:
    """Return some licences of ``scontrol -o show licenses``, by their names.

    Raises: SlurmError for a line of one that cannot be read.
    """
    found = dict[str, Pool]()
    for line in text.splitlines():
        fields = dict(piece.split("=", 1) for piece in line.split() if "=" in piece)
        name = fields.get("LicenseName", "")
        if name and name in names and "Mode" not in fields:  # a layer of a hierarchical resource is no pool
            try:
                found[name] = Pool(int(fields["Total"]), int(fields["Used"]), int(fields.get("Reserved", 0)))
            except (KeyError, ValueError) as error:
                raise SlurmError(f"scontrol printed {line[:80]!r} for the licence {name}") from error
    return found
