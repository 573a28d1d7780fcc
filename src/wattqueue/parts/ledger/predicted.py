"""Count running jobs at their predicted watts.

Safe as far as predictions are: with an estimator that never predicts too little (``maximum``, ``oracle_max``) true
power stays within the cap. Idle nodes count as the cap scope demands (rule 14 of docs/semantics.md).
"""

from __future__ import annotations

from wattqueue.parts.run_contracts import NoMargin


class Predicted(NoMargin):
    """The sum of predictions over running jobs, in int64 microwatts; no margin."""
