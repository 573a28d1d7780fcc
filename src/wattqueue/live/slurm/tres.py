"""Read counts of trackable resources as Slurm prints them: ``cpu=16,mem=62.50G,node=2,license/watts=400``."""

from __future__ import annotations

import re

_PIECE = re.compile(r"([A-Za-z0-9_/:.\-]+)=([0-9]+(?:\.[0-9]+)?)([KMGTP]?)")
_SCALE = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_THOUSANDS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


def parse_tres(text: str) -> dict[str, float]:
    """Counts by name; memory in MB. Pieces without a count (``N`` for no limit, ``(null)``) are left out."""
    found = {}
    for piece in text.split(","):
        match = _PIECE.match(piece)
        if match is not None:
            scale = _SCALE if match[1] == "mem" else _THOUSANDS
            found[match[1]] = float(match[2]) * scale[match[3]]
    return found
