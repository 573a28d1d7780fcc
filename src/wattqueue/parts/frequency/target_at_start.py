"""Slow consenting jobs that start during a load target (paper 5, section 3.2 and Figure 2)."""

from __future__ import annotations

from wattqueue.parts.frequency.consent import Consent_


class TargetAtStart(Consent_):
    """Decide when nodes are allocated: arrows 5 to 7 of Figure 2. ``consent`` with ``start = "lowest"``.

    The allocator compares with the power limitation (5), looks at the flag of the job (6), and has the processing
    performance of its nodes changed (7): an allowed job that starts while a load target is in force runs at the lower
    frequency to its end. All other jobs run at the highest frequency.

    Args:
        frequency_hz: As in ``Slowing``; how far DVFS goes is not in the text.

    Reference: paper 5, section 3.2.
    """

    def __init__(self, *, frequency_hz: float | None = None) -> None:
        super().__init__(frequency_hz=frequency_hz, start="lowest")
