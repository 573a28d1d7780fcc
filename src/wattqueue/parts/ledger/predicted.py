"""What counts as drawn is what was predicted: the sum over running jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from wattqueue.kernels import codes

if TYPE_CHECKING:
    from wattqueue.policy.view import View


class Predicted:
    """The sum of predictions over running jobs; nothing is kept free."""

    code: ClassVar[int] = codes.PREDICTED

    def margin_w(self, view: View) -> float:
        """Watts that must stay free: none."""
        return 0.0
