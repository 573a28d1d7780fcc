"""Give kernels what is measured: samples of power sensors for a measured ledger, and the site meter of an adaptive one.

Prepare the site meter of an adaptive ledger, for the compiled loop or a controller (``kernels/site_meter.py``).
"""

from __future__ import annotations

import numpy as np

from wattqueue.kernels import codes, in_flight, state
from wattqueue.kernels.codes import microwatts
from wattqueue.kernels.measured import new_measured
from wattqueue.kernels.state import site_meter as at
from wattqueue.kernels.state.site_meter import SiteMeter, new_meter
from wattqueue.kernels.supply_load import BY_UNIT
from wattqueue.model.machine import Machine
from wattqueue.parts.run_contracts import CorrectingLedger, MeteredLedger, SampledLedger
from wattqueue.policy.build import unit_idle_uw
from wattqueue.policy.capabilities import LEAST_SHARE


def with_sensors(
    view: state.KernelView, machine: Machine, ledger: SampledLedger | None, corrects: CorrectingLedger | None
) -> state.KernelView:
    """Return the view of an idle machine with a sample of each of its sensors.

    ``ledger``: count running jobs by them; None leaves the ledger as it is, and samples are for parts to read.
    ``corrects``: the same ledger, where samples correct predictions.
    """
    from wattqueue.model.power_sensor import IDLE_TOLERANCE

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
        if len(view.supply.marks) and corrects is None:
            view.supply.marks[BY_UNIT] = 1
    view.now.idle_tolerance = IDLE_TOLERANCE if ledger is None else ledger.idle_tolerance
    if corrects is not None:
        view = view._replace(evidence=in_flight.new_evidence(len(view.nodes), corrects.even_s, corrects.phase_share))
    return view._replace(measured=measured)


class JobEvidence:
    """What was measured of one job outside of a simulation, by the same kernels. Watts are of all its nodes."""

    def __init__(self, ledger: CorrectingLedger) -> None:
        self._evidence = in_flight.new_evidence(1, ledger.even_s, ledger.phase_share)

    def add(self, drawn_w: float, predicted_w: float, taken_s: float, since_s: float) -> None:
        """Add a reading taken at ``taken_s`` of a job that runs as it does since ``since_s``.

        ``predicted_w`` is what is predicted for the same time. A reading that is no newer than the last adds nothing.
        """
        in_flight.note_reading(
            self._evidence, microwatts(drawn_w), microwatts(predicted_w), float(taken_s), float(since_s)
        )

    @property
    def measured_s(self) -> float:
        """Return for how long the job was measured."""
        return float(self._evidence.seen[0, in_flight.SECONDS])

    @property
    def variance_left(self) -> float:
        """Return the relative variance of the job's watts, as a share of that at its start."""
        return float(self._evidence.left[0])

    def corrected_w(self, predicted_w: float) -> float:
        """Return what a prediction counts now."""
        return float(in_flight.correct_prediction(self._evidence, microwatts(predicted_w)) / codes.MICRO)


DAY_S = 86_400.0
PARTS_A_DAY = 24
"""Parts of the window: what is older leaves it hour by hour."""
LICENSED_SHARE = 1.0
"""The same where licences keep the cap (live): they count whole predictions, however little jobs draw."""


def site_meter_of(ledger: MeteredLedger, least_share: float = LEAST_SHARE) -> SiteMeter:
    """Return the meter of a ledger, which has read nothing."""
    figures = np.zeros(at.FIGURES)
    figures[[at.PERIOD_S, at.LATE, at.NOISE, at.EPSILON]] = ledger.meter_s, ledger.late, ledger.noise, ledger.epsilon
    figures[[at.OWN, at.COMMON, at.FORGET_S]] = ledger.own, ledger.common, ledger.forget_s
    figures[[at.GAIN, at.AIM, at.CAUTION]] = ledger.gain, ledger.aim, ledger.caution
    figures[[at.MOST, at.BEGIN]] = ledger.most, ledger.begin
    figures[at.LEAST_SHARE] = least_share
    parts = max(1, round(ledger.window_days * PARTS_A_DAY))
    # A constant seed: noise is a property of the site's meter, and the same run must give the same result.
    return new_meter(figures, ledger.window_days * DAY_S, parts, np.random.default_rng(2))
