"""Give a view the samples of a machine's power sensors, and the rules by which a measured ledger counts them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes, state
from wattqueue.kernels.in_flight import new_evidence
from wattqueue.kernels.measured import new_measured
from wattqueue.model.machine import Machine
from wattqueue.parts.ledger.in_flight import InFlight
from wattqueue.parts.ledger.measured import Measured
from wattqueue.policy.build import idle_uw


def unit_idle_uw(machine: Machine) -> NDArray[np.int64]:
    """Return the idle microwatts of each unit. Shape (U,)."""
    return np.repeat(idle_uw(machine), [p.units for p in machine.partitions])


def with_sensors(view: state.KernelView, machine: Machine, ledger: Measured | None) -> state.KernelView:
    """Return the view of an idle machine with a sample of each of its sensors.

    ``ledger``: count running jobs by them; None leaves the ledger as it is, and samples are for parts to read.
    """
    most = np.array([codes.microwatts(p.max_w or 0.0) for p in machine.partitions], np.int64)
    measured = new_measured(
        machine.sensor_start,
        machine.sensor_of_unit,
        unit_idle_uw(machine),
        np.repeat(most, [p.units for p in machine.partitions]),
    )
    if ledger is not None:
        view.now.by_sample = 1
        view.now.share_busy = ledger.share == "busy"
    view.now.idle_tolerance = Measured().idle_tolerance if ledger is None else ledger.idle_tolerance
    if isinstance(ledger, InFlight):
        view = view._replace(evidence=new_evidence(len(view.nodes), ledger.even_s, ledger.phase_share))
    return view._replace(measured=measured)
