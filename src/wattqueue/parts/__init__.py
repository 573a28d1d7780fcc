"""The stock parts of policies: one folder for each of the eight choices and for corrections, one file a part.

The file's name is the part's name in ``policies.toml`` (``parts/order/priority_inc.py`` is ``order = "priority_inc"``),
the one public class in it is the part, and its keyword arguments are its settings. The registry finds parts by listing
the folders, so a new part needs no entry anywhere; files that start with an underscore are helpers. ``contracts.py``
has the interfaces, ``actions.py`` what controls and passes return.

A part of your own needs the names below and those of ``wattqueue``, nothing else (docs/guide/parts.md): the view, the
values that parts return, the interfaces, and the checks. So does a format of workloads (docs/guide/import.md). Parts
on the floors below may not import the view or the checks, which stand above; here they are imported when they are
first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wattqueue.lazy import lazy_names

if TYPE_CHECKING:
    from wattqueue.checks.estimator import check_estimator
    from wattqueue.checks.suite import check_part
    from wattqueue.formats.unusable import Unusable
    from wattqueue.formats.workload import Workload
    from wattqueue.formats.workload_format import (
        LIKELY,
        NOT,
        POSSIBLE,
        SURE,
        ReadOptions,
        WorkloadFile,
        WorkloadFormat,
    )
    from wattqueue.model.known_jobs import KnownJobs, Observed
    from wattqueue.parts.actions import (
        Action,
        DelayStart,
        DrainNode,
        Refusal,
        Requeue,
        Resume,
        SetDeviceLimits,
        SetFrequency,
        StartJob,
        StopNode,
        Suspend,
        WakeNode,
    )
    from wattqueue.parts.contracts import (
        Asked,
        Backfill,
        Entries,
        Estimator,
        Finished,
        FinishedRuns,
        Floats,
        Frequency,
        Ints,
        OnlineEstimator,
        OnlineRunTime,
        Order,
        Placement,
        PowerCorrection,
        Prediction,
        Remembering,
        Runs,
        RunTime,
        Start,
    )
    from wattqueue.parts.run_contracts import Control, CustomBackfill, Ledger, RerankingOrder
    from wattqueue.policy.view import View

_CONTRACTS = (
    *("Asked", "Backfill", "Entries", "Estimator", "Finished", "FinishedRuns", "Floats"),
    "Frequency",
    *("Ints", "OnlineEstimator", "OnlineRunTime", "Order", "Placement", "PowerCorrection", "Prediction"),
    *("Remembering", "RunTime", "Runs", "Start"),
)
_RUN_CONTRACTS = ("Control", "CustomBackfill", "Ledger", "RerankingOrder")
_FORMATS = ("LIKELY", "NOT", "POSSIBLE", "SURE", "ReadOptions", "WorkloadFile", "WorkloadFormat")
__all__ = [  # noqa: RUF022  parts, then formats
    "Action", "Asked", "Backfill", "Control", "CustomBackfill", "DelayStart", "DrainNode", "Entries", "Estimator",
    "Finished",
    "FinishedRuns", "Floats", "Frequency", "Ints", "KnownJobs", "Ledger", "Observed", "OnlineEstimator",
    "OnlineRunTime", "Order", "Placement", "PowerCorrection", "Prediction", "Refusal", "Remembering", "Requeue",
    "RerankingOrder", "Resume", "RunTime", "Runs", "SetDeviceLimits", "SetFrequency", "Start", "StartJob", "StopNode",
    "Suspend", "View", "WakeNode", "check_estimator", "check_part",
    "WorkloadFormat", "WorkloadFile", "ReadOptions", "Workload", "Unusable", "NOT", "POSSIBLE", "LIKELY", "SURE",
]  # fmt: skip

_HOMES = {
    **dict.fromkeys(__all__, "wattqueue.parts.actions"),  # all that have no other home below
    **dict.fromkeys(_CONTRACTS, "wattqueue.parts.contracts"),
    **dict.fromkeys(_RUN_CONTRACTS, "wattqueue.parts.run_contracts"),
    **dict.fromkeys(_FORMATS, "wattqueue.formats.workload_format"),
    "KnownJobs": "wattqueue.model.known_jobs",
    "Observed": "wattqueue.model.known_jobs",
    "Unusable": "wattqueue.formats.unusable",
    "View": "wattqueue.policy.view",
    "Workload": "wattqueue.formats.workload",
    "check_estimator": "wattqueue.checks.estimator",
    "check_part": "wattqueue.checks.suite",
}
"""Module in which each public name is defined."""

__getattr__ = lazy_names(__name__, _HOMES)
