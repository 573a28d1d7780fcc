"""Find the most nodes that pass, from below.

Numbers are tried in steps, the widest first, and each step goes on while they pass. So every multiple of a step that
was passed on the way has passed itself. That makes the result monotone without an assumption about which numbers pass:
where all that passes in one case passes in another, the other's result is no lower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def climb(passes: Callable[[int], bool], begin: int, steps: Sequence[int], most: int) -> int:
    """Return the most nodes reached from ``begin``, which passes, without trying more than ``most``.

    ``steps`` fall. Tried are multiples of a step, so that two cases with other begins try the same numbers.
    """
    at = begin
    for step in steps:
        ahead = (at // step + 1) * step
        while ahead <= most and passes(ahead):
            at, ahead = ahead, ahead + step
    return at
