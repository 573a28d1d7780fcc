"""Entries as other packages call them: where a library holds their machine code, their sources are not imported.

``from wattqueue.kernels.calls import run``. The sources of the loop alone are fifty modules.
"""

# ruff: noqa: PLC0414  names are handed on
from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wattqueue.kernels._numba import bind as bind
from wattqueue.kernels.mode import MODE

if TYPE_CHECKING:
    from wattqueue.kernels.actions import delay_start as delay_start
    from wattqueue.kernels.actions import drain_node as drain_node
    from wattqueue.kernels.actions import least_nets as least_nets
    from wattqueue.kernels.actions import least_of_jobs as least_of_jobs
    from wattqueue.kernels.actions import net_of_start as net_of_start
    from wattqueue.kernels.actions import requeue as requeue
    from wattqueue.kernels.actions import resume as resume
    from wattqueue.kernels.actions import set_frequency as set_frequency
    from wattqueue.kernels.actions import set_margin as set_margin
    from wattqueue.kernels.actions import set_predictions as set_predictions
    from wattqueue.kernels.actions import start_beside as start_beside
    from wattqueue.kernels.actions import start_checked as start_checked
    from wattqueue.kernels.actions import stop_node as stop_node
    from wattqueue.kernels.actions import suspend as suspend
    from wattqueue.kernels.actions import units_of_start as units_of_start
    from wattqueue.kernels.actions import wake_node as wake_node
    from wattqueue.kernels.consent import start_options as start_options
    from wattqueue.kernels.control_step import asks_consent as asks_consent
    from wattqueue.kernels.control_step import choose_if_due as choose_if_due
    from wattqueue.kernels.control_step import end_step as end_step
    from wattqueue.kernels.control_step import list_changed_caps as list_changed_caps
    from wattqueue.kernels.control_step import step_if_due as step_if_due
    from wattqueue.kernels.control_step import take_back as take_back
    from wattqueue.kernels.ledger import set_budget as set_budget
    from wattqueue.kernels.loop import run as run
    from wattqueue.kernels.profile_power import run_energies as run_energies
    from wattqueue.kernels.profile_power import sum_on_grid as sum_on_grid
    from wattqueue.kernels.profile_power import sum_steps as sum_steps
    from wattqueue.kernels.schedule import schedule_once as schedule_once
    from wattqueue.kernels.speed import set_device_limits as set_device_limits
    from wattqueue.kernels.unit_watts import mean_factors as mean_factors
    from wattqueue.kernels.unit_watts import sum_units as sum_units
    from wattqueue.kernels.view_lists import list_fitting as list_fitting
    from wattqueue.kernels.view_lists import list_queue as list_queue
    from wattqueue.kernels.view_lists import list_running as list_running
    from wattqueue.kernels.view_lists import may_start as may_start

_ENTRIES = {
    "actions": "delay_start drain_node least_nets least_of_jobs net_of_start requeue resume set_frequency set_margin "
    "set_predictions start_beside start_checked stop_node suspend units_of_start wake_node",
    "consent": "start_options",
    "control_step": "asks_consent choose_if_due end_step list_changed_caps step_if_due take_back",
    "ledger": "set_budget",
    "loop": "run",
    "profile_power": "run_energies sum_on_grid sum_steps",
    "schedule": "schedule_once",
    "speed": "set_device_limits",
    "unit_watts": "mean_factors sum_units",
    "view_lists": "list_fitting list_queue list_running may_start",
}
_MODULES = {name: module for module, names in _ENTRIES.items() for name in names.split()}
"""Module of each entry."""


def __getattr__(name: str) -> Any:
    """Return an entry, from the library or from the module of its source; from then on it is an ordinary attribute."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if MODE == "shipped":
        from wattqueue.kernels._numba.shipped import ShippedEntry

        found: Any = ShippedEntry(f"{module}.{name}", __name__)
    else:
        found = getattr(importlib.import_module(f"wattqueue.kernels.{module}"), name)
    return globals().setdefault(name, found)


def bind_long(call: Callable[..., int], *tuples: object) -> Callable[[], int]:
    """Return an entry bound to its tuples, as ``bind`` does, that may run for long: an interrupt from the keyboard is
    raised as what it is, also while a part of the entry is compiled."""
    bound = bind(call, *tuples)

    def called() -> int:
        try:
            return bound()
        except SystemError as error:
            from wattqueue.kernels._numba.kept import cause_of

            raise cause_of(error) from None

    return called
