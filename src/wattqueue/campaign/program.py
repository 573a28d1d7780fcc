"""What decides a run's figures beside its inputs: this program, and the packages that compute for it."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import wattqueue

SHOWS = {"checks", "cli", "live", "report", "store"}
"""Packages of ours that no run's figures depend on: they show, watch and check."""
OTHERS = ("numpy", "numba", "scikit-learn")


@cache
def program() -> str:
    """Version of this program, a hash of its sources, and the versions of the packages that compute for it."""
    found = [f"wattqueue {wattqueue.__version__} (sources {_source_hash()})"]
    for name in OTHERS:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} missing")
    return ", ".join(found)


def _source_hash() -> str:
    root = Path(wattqueue.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if path.suffix in {".py", ".toml", ".csv"} and name.parts[0] not in SHOWS:
            digest.update(str(name).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
