"""All that WattQueue takes from numba: the marks of kernels, and instructions on words. The only code that imports it.

Four decorators mark what a function is for:

============  =======================================================================================
``kernel``    an inner kernel, called by kernels only; a function of its own in the machine code
``inlined``   an inner kernel that becomes part of each caller, as those on the path of every job (docs/adr/0002)
``separate``  an inner kernel that most runs do without: compiled by itself when called (docs/adr/0030)
``entry``     a kernel that Python calls, and kernels too
============  =======================================================================================

An entry gets its large named tuples (those marked ``referenced``) by reference. Kernels do not allocate: they get every
array from outside. ``bind`` prepares an entry for many calls with the same tuples.

What stands behind these names depends on the mode (``kernels/mode.py``): ``fast.py`` for speed, with every
undocumented point of numba that WattQueue uses (docs/adr/0009 lists them), with or without a check of each index;
``shipped.py`` for the machine code that a wheel carries, without numba; ``plain.py`` with documented numba only; or
plain Python functions. The test suite runs in all these ways. Only entries
and separate kernels become cached machine code (``kernels/cache.py``).
"""

from __future__ import annotations

from wattqueue.kernels._numba.addresses import referenced
from wattqueue.kernels._numba.scalars import Scalars
from wattqueue.kernels._numba.words import AT_LEAST_LANES, AT_MOST_LANES
from wattqueue.kernels.mode import MODE, UNDOCUMENTED

if UNDOCUMENTED:
    from wattqueue.kernels._numba.fast import (
        at_least,
        at_most,
        bind,
        entry,
        inlined,
        kernel,
        least_of,
        separate,
        trailing_zeros,
    )
elif MODE == "shipped":
    from wattqueue.kernels._numba.shipped import (
        at_least,
        at_most,
        bind,
        entry,
        inlined,
        kernel,
        least_of,
        separate,
        trailing_zeros,
    )
elif MODE == "plain":
    from wattqueue.kernels._numba.plain import (
        at_least,
        at_most,
        bind,
        entry,
        inlined,
        kernel,
        least_of,
        separate,
        trailing_zeros,
    )
else:
    from wattqueue.kernels._numba.python import (
        at_least,
        at_most,
        bind,
        entry,
        inlined,
        kernel,
        least_of,
        separate,
        trailing_zeros,
    )

__all__ = [
    "AT_LEAST_LANES",
    "AT_MOST_LANES",
    "Scalars",
    "as_int64",
    "at_least",
    "at_most",
    "bind",
    "entry",
    "inlined",
    "kernel",
    "least_of",
    "referenced",
    "separate",
    "trailing_zeros",
]


@inlined
def as_int64(number: int) -> int:
    """Return ``number`` as int64.

    Ids stand in arrays as int16 or int32. Passed on as they are, they would make numba compile every kernel below once
    for each width.
    """
    return number + 0
