"""Starts by controls keep what the pass promises (rule 8 of docs/semantics.md).

A control may start an entry (``StartJob``), and does so before the pass of its instant. On a row whose pass reserves,
it may not put the job in front of others by that: the pass is tried on a copy of the present first, and the control's
start has to be one of its starts, or to fit beside its starts and reservations.
"""

from __future__ import annotations

import operator
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from wattqueue.kernels import calls as act
from wattqueue.kernels import codes
from wattqueue.kernels.calls import schedule_once
from wattqueue.policy.build import PassSettings
from wattqueue.policy.capabilities import Capabilities

if TYPE_CHECKING:
    from wattqueue.parts.actions import StartJob
    from wattqueue.policy.view import View

OVERTAKES = "would delay a start that the policy's pass promises"
"""Why a start by a control is refused."""
RESERVING = frozenset({codes.EASY, codes.LAST_END, codes.SHORTEST, codes.CONSERVATIVE})
"""Passes with reservations. Those of conservative backfilling are a plan, into which nothing is put beside the pass."""


def overtakes(view: View, needs: Capabilities, action: StartJob) -> bool:
    """Return whether a start by a control would delay what the row's compiled pass starts or reserves now.

    False also where the entry could not start on an empty queue: the driver says what is wrong with it.
    """
    settings = needs.pass_settings(view.machine.cap_scope)
    if needs.custom_pass is not None or needs.rerank is not None or settings.code not in RESERVING:
        return False
    with suppress(TypeError, ValueError, OverflowError):
        return _overtakes(view, settings, view.job_row(action.job), operator.index(action.partition), action.option)
    return False


def _overtakes(view: View, settings: PassSettings, row: int, partition: int, option: int) -> bool:
    from wattqueue.policy.decide import snapshot_of, view_of

    snapshot, rows = snapshot_of(view, settings)
    job = int(np.searchsorted(rows, row))
    if job == len(rows) or rows[job] != row or not 0 <= partition < len(view.machine.partitions):
        return False
    alone = view_of(snapshot)
    entry = int(alone.entries.of_job[job, partition])
    if entry < 0 or act.start_checked(alone, entry, operator.index(option)):
        return False
    kernel = view_of(snapshot)
    schedule_once(kernel)
    if kernel.held.option[job] >= 0:
        return int(kernel.held.option[job]) != option
    return settings.code == codes.CONSERVATIVE or act.start_beside(kernel, entry, option) != 0
