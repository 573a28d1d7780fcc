"""The library of compiled kernels that a wheel carries: where it is, and whether this process may use it.

``_compiled`` holds one library for each level of x86-64 and ``manifest.json`` (``tools/kernels`` makes them). A
library is used only where it was made from exactly these sources, is undamaged, and this processor has its level;
otherwise :data:`PROBLEM` says why, and numba compiles the kernels as without one. A clone has no library.

This module imports neither numba nor numpy: it runs before each of the other modules of kernels.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "_compiled"
MANIFEST = "manifest.json"
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
"""Levels of processors for which wheels have a library, each one with all that the one before has."""
_FLAGS = {
    "x86-64-v2": "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3",
    "x86-64-v3": "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave",
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
}
"""What a level adds to the one before, as Linux names it in ``/proc/cpuinfo`` (x86-64 psABI, section 3.1.1)."""


@dataclass(frozen=True)
class KernelLibrary:
    """A library that this process may use.

    Attributes:
        file: The shared object.
        level: Level of x86-64 that it was made for.
        entries: What ``manifest.json`` says of each entry: ``name``, ``symbol``, ``kinds``, ``words``, ``result``.
    """

    file: Path
    level: str
    entries: tuple[dict[str, Any], ...]


@cache
def sources_digest(kernels: Path = FOLDER.parent) -> str:
    """Return a hash of the names and bytes of every kernel source in a folder, 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for path in sorted(kernels.rglob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def find_library(folder: Path = FOLDER) -> tuple[KernelLibrary | None, str]:
    """Return the library of the highest level that this processor has, or None and why there is none to use.

    The reason is empty where there is no library at all, as in a clone.
    """
    try:
        text = (folder / MANIFEST).read_text()
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, f"{folder / MANIFEST} cannot be read: {error.strerror}"
    try:
        manifest = json.loads(text)
        sources, levels, entries = manifest["sources"], manifest["levels"], tuple(manifest["entries"])
    except (ValueError, KeyError, TypeError):
        return None, f"{folder / MANIFEST} is damaged"
    if sources != sources_digest():
        return None, f"{folder} was made from other sources"
    usable = [level for level in levels_of_this_processor() if level in levels]
    if not usable:
        return None, f"{folder} is for {', '.join(levels)}, which this processor lacks"
    row = levels[usable[-1]]
    file = folder / row["file"]
    problem = _problem_of(file, row["sha256"])
    return (None, f"{file} {problem}") if problem else (KernelLibrary(file, usable[-1], entries), "")


def _problem_of(file: Path, sha256: str) -> str:
    """Return why a library is not used; empty where it is."""
    try:
        if hashlib.sha256(file.read_bytes()).hexdigest() != sha256:
            return "is damaged"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if os.statvfs(file).f_flag & os.ST_NOEXEC:
        return "is on a file system from which nothing may be executed (noexec)"
    return ""


def levels_of_this_processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> list[str]:
    """Return the levels of x86-64 that this machine has, lowest first; none on other processors and systems."""
    if platform.machine() not in {"x86_64", "AMD64"}:
        return []
    try:
        line = next(line for line in cpuinfo.read_text().splitlines() if line.startswith("flags"))
    except (OSError, StopIteration):
        return []
    flags, found = set(line.split(":", 1)[1].split()), []
    for level in LEVELS:
        if not set(_FLAGS[level].split()) <= flags:
            break
        found.append(level)
    return found
