"""How kernels run: which of five modes, chosen once by environment variables.

==========  ==============================  ==========================================================================
mode        chosen by                       kernels are
==========  ==============================  ==========================================================================
``shipped`` (default, from a wheel)         the library of machine code that the wheel carries; numba is not imported
``fast``    (default, from a clone)         compiled, with the undocumented points of numba that docs/adr/0009 lists
``plain``   ``WATTQUEUE_PLAIN_NUMBA=1``     compiled with documented numba only: the same results, many times slower
``checked`` ``WATTQUEUE_CHECKED_NUMBA=1``   as ``fast``; an index outside its array raises IndexError
``python``  ``NUMBA_DISABLE_JIT=1``         plain Python functions, for breakpoints and quick tests
==========  ==============================  ==========================================================================

Plain mode is for a new version of numba in which one of those points has changed, and to find out whether one of them
is behind a wrong result. Checked mode finds a kernel that reads or writes outside an array; the other compiled modes
do not look. ``WATTQUEUE_SHIPPED=0`` leaves a wheel's library alone. Where the library cannot be used (``library.py``)
numba compiles; where numba is missing too, kernels run as plain Python, for few jobs. This module imports no numba.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Literal

from wattqueue.kernels.library import KernelLibrary, find_library

Mode = Literal["shipped", "fast", "plain", "checked", "python"]


def _is_set(name: str) -> bool:
    """Return whether an environment variable holds something other than 0."""
    return os.environ.get(name, "") not in ("", "0")


def _chosen() -> tuple[Mode, KernelLibrary | None, str]:
    """Return the mode of this process, its library if it uses one, and why a library that is there is not used."""
    if _is_set("NUMBA_DISABLE_JIT"):
        return "python", None, ""
    if _is_set("WATTQUEUE_CHECKED_NUMBA"):
        return "checked", None, ""
    if _is_set("WATTQUEUE_PLAIN_NUMBA"):
        return "plain", None, ""
    found, problem = (None, "") if os.environ.get("WATTQUEUE_SHIPPED") == "0" else find_library()
    if found:
        return "shipped", found, ""
    if importlib.util.find_spec("numba") is None:
        return "python", None, f"{problem or 'no library of compiled kernels'}, and numba is not installed"
    return "fast", None, problem


MODE: Mode
"""How the kernels of this process run."""
LIBRARY: KernelLibrary | None
"""The library that shipped mode calls."""
LIBRARY_PROBLEM: str
"""Why a library that is there is not used; empty where it is, or none is there."""
MODE, LIBRARY, LIBRARY_PROBLEM = _chosen()
COMPILES = MODE in {"fast", "plain", "checked"}
"""Whether numba compiles the kernels of this process."""
WITHOUT_COMPILER = MODE == "python" and LIBRARY_PROBLEM != ""
"""Whether kernels run as plain Python because there is neither a library nor numba: for few jobs only."""
UNDOCUMENTED = MODE in {"fast", "checked"}
"""Whether they use undocumented points of numba."""
