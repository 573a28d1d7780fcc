"""Compile all entries for one level of x86-64, and link them: ``python -m tools.kernels build``.

numba writes and optimizes LLVM's code for the level (its documented settings ``NUMBA_CPU_NAME`` and
``NUMBA_CPU_FEATURES``, in a process for each level); LLVM makes position-independent objects of it, and a C compiler
adds the shims and links. No CPython symbol remains, so one library serves every version of Python.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tools.kernels.interface import entries, interface, layout_of, words_of
from tools.kernels.shim import MATHS, Entry, head, shim, slot_of
from wattqueue.kernels.library import FOLDER, LEVELS, MANIFEST, sources_digest

EXTERNAL = frozenset({"exp", "log", "pow", "memcpy", "memset", "memmove"})
"""Functions of the C library that kernels may call; the build fails on any other undefined symbol."""
LINK = ("-shared", "-O2", "-fPIC", "-Wl,-z,text", "-Wl,-z,noexecstack", "-Wl,--build-id=none", "-Wl,-s")
"""``-z text``: no text relocations, which hardened systems refuse."""


def build(folder: Path = FOLDER, levels: tuple[str, ...] = LEVELS, only: str = "") -> None:
    """Write a library for each level, and the manifest, into ``folder``; of entries whose name begins with ``only``.

    Levels are compiled side by side, a process a core: about a minute each. The folder is made beside its place and
    moved there whole, so that nobody meets half of it.

    Raises: SystemExit where a compiler is missing or an entry refers to a symbol that is not allowed.
    """
    if not (compiler := shutil.which("cc") or shutil.which("gcc")):
        raise SystemExit("no C compiler to link with: install gcc")
    work = folder.with_name(f".{folder.name}-{os.getpid()}")
    work.mkdir(parents=True)
    try:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            libraries = dict(
                zip(levels, pool.map(lambda level: _library(level, work, compiler, only), levels), strict=True)
            )
        _write_manifest(work, libraries)
        put_in_place(work, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def put_in_place(made: Path, folder: Path) -> None:
    """Move a folder to its place, and remove what was there, be it what another build has put there just now."""
    old = made.with_name(f"{made.name}-old")
    while made.exists():
        with suppress(FileNotFoundError):
            folder.rename(old)
        try:
            made.rename(folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        shutil.rmtree(old, ignore_errors=True)


def _library(level: str, work: Path, compiler: str, only: str) -> dict[str, Any]:
    """Compile and link one level; return its row of the manifest."""
    parts = work / level
    parts.mkdir()
    settings = {
        "NUMBA_CPU_NAME": level,
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_DISABLE_INTEL_SVML": "1",
        "WATTQUEUE_SHIPPED": "0",
    }
    command = [sys.executable, "-m", "tools.kernels", "objects", level, str(parts), only]
    modes = {"NUMBA_DISABLE_JIT", "WATTQUEUE_PLAIN_NUMBA", "WATTQUEUE_CHECKED_NUMBA"}
    environment = {name: value for name, value in os.environ.items() if name not in modes}
    subprocess.run(command, check=True, env=environment | settings)
    shims = [
        Entry(**(row | {"kinds": tuple(row["kinds"])})) for row in json.loads((parts / "entries.json").read_text())
    ]
    (parts / "shims.c").write_text(head() + "".join(map(shim, shims)))
    (parts / "exports").write_text("{ global: " + " ".join(f"{s.symbol};" for s in shims) + " local: *; };\n")
    file = work / f"kernels-{level}.so"
    objects = sorted(str(path) for path in parts.glob("*.o"))
    wrapped = [f"-Wl,--wrap={name}" for name in MATHS]
    link = [
        compiler,
        *LINK,
        *wrapped,
        f"-Wl,--version-script={parts / 'exports'}",
        "-o",
        str(file),
        str(parts / "shims.c"),
        str(parts / "slots.c"),
        *objects,
        "-lm",
    ]
    subprocess.run(link, check=True)
    _check_symbols(file)
    row = {
        "file": file.name,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "entries": [asdict(s) for s in shims],
    }
    shutil.rmtree(parts)
    return row


def _check_symbols(file: Path) -> None:
    """Refuse a library that needs more than the C library's functions in ``EXTERNAL``."""
    printed = subprocess.run(
        ["nm", "-D", "--undefined-only", str(file)], check=True, capture_output=True, text=True
    ).stdout
    found = {re.sub("@.*", "", line.split()[-1]) for line in printed.splitlines() if " U " in line}
    if beyond := sorted(found - EXTERNAL):
        raise SystemExit(f"{file.name} refers to {', '.join(beyond)}")


def _write_manifest(work: Path, libraries: dict[str, dict[str, Any]]) -> None:
    """Write what the loader needs: the sources' hash, the entries, and each level's file with its hash."""
    lists = [row.pop("entries") for row in libraries.values()]
    if any(found != lists[0] for found in lists):
        raise SystemExit("levels differ in their entries")
    shown: dict[str, Any] = {
        "sources": sources_digest(), "made_with": {name: version(name) for name in ("numba", "llvmlite")},
        "levels": libraries, "entries": lists[0],
    }  # fmt: skip
    (work / MANIFEST).write_text(json.dumps(shown, indent=1) + "\n")


def objects(level: str, folder: Path, only: str) -> None:
    """Write the object files of all entries for a level, and of the separate kernels that they call.

    Besides ``entries.json``, and ``slots.c``, by which entries find separate kernels. In a process with its settings.
    """
    from llvmlite import binding
    from numba import types

    from wattqueue.kernels._numba.fast import compile_slot

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    machine = target.create_target_machine(cpu=level, features="", opt=3, reloc="pic", codemodel="default", jit=False)
    known = entries()
    found: list[Entry] = []
    slots: dict[str, Any] = {}
    layouts = {name: layout_of(text) for name, text in interface()["layouts"].items()}
    for name, lists in interface()["entries"].items():
        if not name.startswith(only):
            continue
        for k, kinds in enumerate(lists):
            symbol = f"wq_{name.replace('.', '_')}_{k}"
            made = _compiled(known[name], kinds, layouts)
            (folder / f"{symbol}.o").write_bytes(_machine_code(made, f"{symbol}_body", machine))
            slots |= {slot.symbol: slot for slot in made.reload_init}
            result = str(types.unliteral(made.signature.return_type))
            words = {kind: words_of(layouts[kind]) for kind in kinds if kind in layouts}
            found.append(Entry(name, symbol, tuple(kinds), words, result))
    done: set[str] = set()
    while left := sorted(set(slots) - done):
        for symbol in left:
            made = compile_slot(slots[symbol])
            (folder / f"{symbol}.o").write_bytes(_machine_code(made, f"{symbol}_body", machine))
            slots |= {slot.symbol: slot for slot in made.reload_init}
        done |= set(left)
    (folder / "slots.c").write_text("".join(map(slot_of, sorted(slots))))
    (folder / "entries.json").write_text(json.dumps([asdict(entry) for entry in found]))


def _compiled(entry: Any, kinds: list[str], layouts: dict[str, Any]) -> Any:
    """Return what numba makes of an entry for one list of argument types."""
    import inspect

    from wattqueue.kernels._numba.addresses import LAYOUTS
    from wattqueue.kernels._numba.fast import compile_for_library

    LAYOUTS.update(layouts)
    return compile_for_library(inspect.unwrap(entry), entry.inner, [numba_type(kind, layouts) for kind in kinds])


def _machine_code(compiled: Any, symbol: str, machine: Any) -> bytes:
    """Return the object file of what numba has made; ``symbol`` names its function."""
    from llvmlite import binding

    module = binding.parse_assembly(compiled.library.get_llvm_str())
    name = compiled.fndesc.llvm_func_name
    for function in module.functions:
        if function.name == name:
            function.name = symbol
            function.linkage, function.visibility = "external", "hidden"
        elif not function.is_declaration:
            function.linkage = "internal"
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"
    code: bytes = machine.emit_object(module)
    return code


def numba_type(kind: str, layouts: dict[str, Any]) -> Any:
    """Return numba's type of an argument by its text in ``interface.json``."""
    import numpy as np
    from numba import from_dtype, types

    if kind in layouts:
        return types.Array(from_dtype(np.dtype([(kind, np.int64, (words_of(layouts[kind]),))])), 1, "C")
    if kind in ("int", "float", "bool"):
        return {"int": types.int64, "float": types.float64, "bool": types.boolean}[kind]
    dtype, dimensions = kind.split(":")
    return types.Array(from_dtype(np.dtype(dtype)), int(dimensions), "C")
