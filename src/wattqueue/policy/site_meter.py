"""Prepare the site meter of an adaptive ledger, for the compiled loop or a controller (``kernels/site_meter.py``)."""

from __future__ import annotations

import numpy as np

from wattqueue.kernels import site_meter as at
from wattqueue.kernels.site_meter import SiteMeter, new_meter, no_meter
from wattqueue.parts.run_contracts import MeteredLedger

DAY_S = 86_400.0
PARTS_A_DAY = 24
"""Parts of the window: what is older leaves it hour by hour."""
LEAST_SHARE = 0.1
"""Least watts drawn for a watt predicted that the ledger believes: a machine whose jobs do nothing at first, or a meter
that fails, must not admit ten times the cap."""
LICENSED_SHARE = 1.0
"""The same where licences keep the cap (live): they count whole predictions, however little jobs draw."""


def site_meter_of(ledger: MeteredLedger | None, least_share: float = LEAST_SHARE) -> SiteMeter:
    """Return the meter of a ledger, which has read nothing; one that never reads for a ledger without one."""
    if ledger is None:
        return no_meter()
    figures = np.zeros(at.FIGURES)
    figures[[at.PERIOD_S, at.LATE, at.NOISE, at.EPSILON]] = ledger.meter_s, ledger.late, ledger.noise, ledger.epsilon
    figures[[at.OWN, at.COMMON, at.FORGET_S]] = ledger.own, ledger.common, ledger.forget_s
    figures[[at.GAIN, at.AIM, at.CAUTION]] = ledger.gain, ledger.aim, ledger.caution
    figures[[at.MOST, at.BEGIN]] = ledger.most, ledger.begin
    figures[at.LEAST_SHARE] = least_share
    parts = max(1, round(ledger.window_days * PARTS_A_DAY))
    # A constant seed: noise is a property of the site's meter, and the same run must give the same result.
    return new_meter(figures, ledger.window_days * DAY_S, parts, np.random.default_rng(2))
