"""How kernels run: which of four modes, chosen once by environment variables.

==========  ==============================  ==========================================================================
mode        chosen by                       kernels are
==========  ==============================  ==========================================================================
``fast``    (default)                       compiled, with the undocumented points of numba that docs/adr/0009 lists
``plain``   ``WATTQUEUE_PLAIN_NUMBA=1``     compiled with documented numba only: the same results, many times slower
``checked`` ``WATTQUEUE_CHECKED_NUMBA=1``   as ``fast``; an index outside its array raises IndexError
``python``  ``NUMBA_DISABLE_JIT=1``         plain Python functions, for breakpoints and quick tests
==========  ==============================  ==========================================================================

Plain mode is for a new version of numba in which one of those points has changed, and to find out whether one of them
is behind a wrong result. Checked mode finds a kernel that reads or writes outside an array; the other compiled modes
do not look. This module does not import numba.
"""

from __future__ import annotations

import os
from typing import Literal

Mode = Literal["fast", "plain", "checked", "python"]


def _is_set(name: str) -> bool:
    """Return whether an environment variable holds something other than 0."""
    return os.environ.get(name, "") not in ("", "0")


def _chosen() -> Mode:
    """Return the mode of this process. Without the compiler there is nothing to choose."""
    if _is_set("NUMBA_DISABLE_JIT"):
        return "python"
    if _is_set("WATTQUEUE_CHECKED_NUMBA"):
        return "checked"
    return "plain" if _is_set("WATTQUEUE_PLAIN_NUMBA") else "fast"


MODE: Mode = _chosen()
"""How the kernels of this process run."""
UNDOCUMENTED = MODE in {"fast", "checked"}
"""Whether they use undocumented points of numba."""
