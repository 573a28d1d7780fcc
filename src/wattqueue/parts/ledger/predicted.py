"""Count running jobs at their predicted watts.

Safe as far as predictions are: with an estimator that never predicts too little (``naive``, ``oracle_max``) true power
stays within the cap. Idle nodes count as the cap scope demands (rule 14 of docs/semantics.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from wattqueue.kernels import codes

if TYPE_CHECKING:
    from wattqueue.policy.view import View


class Predicted:
    """The sum of predictions over running jobs, in int64 microwatts; no margin."""

    code: ClassVar[int] = codes.PREDICTED

    def margin_w(self, view: View) -> float:
        """Return 0: nothing is kept free."""
        return 0.0
