"""The one place where kernels are compiled.

``kernel`` marks an inner kernel (called by kernels only), ``inlined`` one that its callers take in,
``entry`` one that Python calls, ``direct`` one that it calls often, always with the same types. An entry
hands its named tuples on as ``lent``, behind one pointer each. Kernels do not allocate: they get every array
from outside, so reference counting is switched off (docs/adr/0001: nested named tuples of arrays otherwise
cost 13-18 times the run time). Entries alone become machine code and are cached; the cache folder carries a
hash of all kernel sources, because numba's own cache goes stale when a *called* kernel changes. With
``NUMBA_DISABLE_JIT=1`` all marks leave plain Python behind.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba import njit
from numba.core.caching import FunctionCache

from wattqueue.kernels._inner import InnerCompiler
from wattqueue.kernels._lent import lent
from wattqueue.kernels._words import at_least, at_most, least_of, trailing_zeros

__all__ = [
    "CACHE_DIR",
    "at_least",
    "at_most",
    "compiled_before",
    "direct",
    "entry",
    "inlined",
    "kernel",
    "least_of",
    "lent",
    "trailing_zeros",
    "wide",
]

_config: Any = numba.config  # its settings are made at run time, unseen by type checkers
F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}
_INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": InnerCompiler}
_ENTRY: dict[str, Any] = {"no_cfunc_wrapper": True, "nogil": True}
_STALE_S = 30 * 86400.0


def _source_hash() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _cache_root() -> Path:
    named = os.environ.get("WATTQUEUE_CACHE_DIR")
    if named:
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME") or (Path.home() / ".cache")
    return Path(home) / "wattqueue"


def _cache_dir() -> Path:
    """The folder for compiled kernels of exactly these sources; a temporary one where home is read-only."""
    folder = _cache_root() / f"kernels-{_source_hash()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _drop_stale(folder)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="wattqueue-kernels-"))
    return folder


def _drop_stale(current: Path) -> None:
    """Remove caches of other versions that nobody has used for a month."""
    os.utime(current)
    for other in current.parent.glob("kernels-*"):
        if other != current and time.time() - other.stat().st_mtime > _STALE_S:
            shutil.rmtree(other, ignore_errors=True)


CACHE_DIR = _cache_dir()


class _Cache(FunctionCache):  # type: ignore[misc]
    """numba's cache of machine code, without loading all that numba knows to compile, before a look into it:
    that takes a third of a second, of which a run with warm caches has no use."""

    def load_overload(self, signature: Any, target: Any) -> Any:
        with self._guard_against_spurious_io_errors():
            return self._load_overload(signature, target)


def _compile(function: Callable[..., Any], **more: Any) -> Any:
    return njit(**_OPTIONS, **more)(function)


def kernel(function: F) -> F:
    """An inner kernel."""
    return cast("F", _compile(function, **_INNER))


def inlined(function: F) -> F:
    """An inner kernel that becomes part of its callers: one on the way of every job (docs/adr/0002)."""
    return cast("F", _compile(function, **_INNER, forceinline=True))


def entry(function: F) -> F:
    """A kernel that Python calls. It lets go of the interpreter, so that simulations run in threads."""
    compiled = _compile(function, **_ENTRY)
    if not _config.DISABLE_JIT:
        before = _config.CACHE_DIR
        _config.CACHE_DIR = str(CACHE_DIR)  # read here, once; other users of numba keep theirs
        try:
            compiled._cache = _Cache(function)  # noqa: SLF001  what njit(cache=True) does
        finally:
            _config.CACHE_DIR = before
    return cast("F", compiled)


def direct(function: F) -> F:
    """An entry whose types never change from call to call, called past numba's dispatcher.

    The dispatcher looks at the type of every array in every nested tuple before each call: some 8 µs
    for a View, of which the call itself takes half a microsecond. The first call goes through it, and
    compiles; the next ones go straight to what it found. So the arrays of a call must be of the types
    and the layout of the first, as those of policy/build.py and sim/truth.py are, and numbers of its kind.
    """
    compiled: Any = entry(function)
    if _config.DISABLE_JIT:
        return cast("F", compiled)
    point: Any = None

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        nonlocal point
        if point is not None:
            return point(*arguments)
        result = compiled(*arguments)
        point = next(iter(compiled.overloads.values())).entry_point
        return result

    call.dispatcher = compiled  # type: ignore[attr-defined]
    return cast("F", call)


@inlined
def wide(number: int) -> int:
    """``number`` as int64. Ids stand in arrays as int16 or int32; passed on as they are, they would make
    numba compile every kernel below once for each width."""
    return number + 0


def compiled_before() -> bool:
    """Whether the cache already holds compiled kernels, so that a first run can say what it waits for."""
    return any(CACHE_DIR.rglob("*.nbi")) or bool(_config.DISABLE_JIT)
