"""What decides a run's figures beside its inputs: this program, and the packages that compute for it."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import wattqueue

COMPUTES = (
    "model", "formats", "workload", "kernels", "parts", "policy", "sim", "campaign", "study",
)  # fmt: skip
"""Packages of ours that a run's figures can depend on; what only shows or watches is left out."""
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
    for area in COMPUTES:
        for path in sorted((root / area).rglob("*")):
            if path.suffix in {".py", ".toml", ".csv"}:
                digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
