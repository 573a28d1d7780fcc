"""Give a view the samples of a machine's power sensors, and the rules by which a measured ledger counts them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes, state
from wattqueue.kernels import in_flight as at
from wattqueue.kernels.codes import microwatts
from wattqueue.kernels.measured import new_measured
from wattqueue.model.machine import Machine
from wattqueue.parts.run_contracts import CorrectingLedger, SampledLedger
from wattqueue.policy.build import idle_uw


def unit_idle_uw(machine: Machine) -> NDArray[np.int64]:
    """Return the idle microwatts of each unit. Shape (U,)."""
    return np.repeat(idle_uw(machine), [p.units for p in machine.partitions])


IDLE_TOLERANCE = 0.2
"""Share by which a sample may be below idle watts and counts as idle, where parts alone read samples."""


def with_sensors(
    view: state.KernelView, machine: Machine, ledger: SampledLedger | None, corrects: CorrectingLedger | None
) -> state.KernelView:
    """Return the view of an idle machine with a sample of each of its sensors.

    ``ledger``: count running jobs by them; None leaves the ledger as it is, and samples are for parts to read.
    ``corrects``: the same ledger, where samples correct predictions.
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
    view.now.idle_tolerance = IDLE_TOLERANCE if ledger is None else ledger.idle_tolerance
    if corrects is not None:
        view = view._replace(evidence=at.new_evidence(len(view.nodes), corrects.even_s, corrects.phase_share))
    return view._replace(measured=measured)


class JobEvidence:
    """What was measured of one job outside of a simulation, by the same kernels. Watts are of all its nodes."""

    def __init__(self, ledger: CorrectingLedger) -> None:
        self._evidence = at.new_evidence(1, ledger.even_s, ledger.phase_share)

    def add(self, drawn_w: float, predicted_w: float, taken_s: float, since_s: float) -> None:
        """Add a reading taken at ``taken_s`` of a job that runs as it does since ``since_s``.

        ``predicted_w`` is what is predicted for the same time. A reading that is no newer than the last adds nothing.
        """
        at.note_reading(self._evidence, microwatts(drawn_w), microwatts(predicted_w), float(taken_s), float(since_s))

    @property
    def measured_s(self) -> float:
        """Return for how long the job was measured."""
        return float(self._evidence.seen[0, at.SECONDS])

    @property
    def variance_left(self) -> float:
        """Return the relative variance of the job's watts, as a share of that at its start."""
        return float(self._evidence.left[0])

    def corrected_w(self, predicted_w: float) -> float:
        """Return what a prediction counts now."""
        return float(at.correct_prediction(self._evidence, microwatts(predicted_w)) / codes.MICRO)
