"""What a site does with a grid operator: OpenADR, settlement of demand response, incentives for users.

- ``openadr``: a VEN beside the controller, which makes load targets of events.
- ``settlement``: baselines, delivered power, payment and penalty, the statement of an event.
- ``incentives``: what users get for consent: rewards, their ledger, their design, offers to the grid.
- ``meter``, ``money``: interval data of a meter, and amounts in whole micro-units.
- ``cli``: the verbs ``openadr``, ``settle`` and ``incentives``; ``settle`` is the function for Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wattqueue.lazy import lazy_names

if TYPE_CHECKING:
    from wattqueue_grid.api import SettlementResult, settle

__all__ = ["SettlementResult", "settle"]

__getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "wattqueue_grid.api"))
