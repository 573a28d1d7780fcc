"""Apply users' records of false claims to their next jobs (``app_check.Consequence``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from wattqueue.model.app_check import Consequence
from wattqueue.model.jobs import Jobs, Labels


def without_claims(jobs: Jobs, record: Mapping[str, Consequence]) -> Jobs:
    """Return the jobs with the claims of users at ``NO_CHOICE`` removed: they are predicted and run as first runs."""
    without = without_choice(record)
    barred = np.array([*(name in without for name in jobs.user.names), False])
    codes = np.where(barred[jobs.user.codes], -1, jobs.app.codes).astype(np.int32)
    return replace(jobs, app=Labels(codes, jobs.app.names))


def without_choice(record: Mapping[str, Consequence]) -> frozenset[str]:
    """Return the users whose claims are ignored."""
    return frozenset(user for user, what in record.items() if what >= Consequence.NO_CHOICE)


def behind(record: Mapping[str, Consequence]) -> frozenset[str]:
    """Return the users whose jobs rank behind all others (order part ``penalised``)."""
    return frozenset(user for user, what in record.items() if what >= Consequence.LOWER_PRIORITY)
