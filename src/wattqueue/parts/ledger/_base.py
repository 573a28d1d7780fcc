"""What ledgers share: a margin that no pass asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wattqueue.policy.view import View


class NoMargin:
    """Base of ledgers that keep nothing free, or whose margin the compiled pass adds itself, start by start."""

    def margin_w(self, view: View) -> float:
        """Return 0."""
        return 0.0
