"""The in-flight ledger: a prediction, corrected by what is measured of the job itself (rule 15 of docs/semantics.md).

A job's mean watts differ from its prediction x0 with the relative variance ``own``; what it draws at an instant differs
from its own mean with the relative variance ``phase``. Readings of its own run, t seconds in all, say that it draws m
watts for a watt predicted. With h seconds after which they say as much as the prediction,

    w = t / (t + h)                   weight of the measurement
    x = x0 (1 + w (m - 1))            watts that the ledger counts
    v = own (1 - w) + phase           their relative variance

are the posterior mean and variance of a normal mean under a normal prior (Gelman et al., Bayesian Data Analysis, third
edition, eq. 2.12), and the phases on top, which no number of readings takes away. Squares of net watts are summed as
shares of the variance at the start, v / (own + phase), so that the margin is that of a chance ledger
(``kernels/chance.py``).

m is a ratio, not a difference, so that it holds on at another frequency, where the prediction is another one.
"""

from __future__ import annotations

import numpy as np

from wattqueue.kernels._numba import as_int64, entry, inlined
from wattqueue.kernels.state import KernelEvidence

INF = float("inf")

# Slots of KernelEvidence.figures.
EVEN_S = 0  # seconds of measurement that say as much as the prediction
PHASE = 1  # share of the variance at the start that stays, however long a job was measured
FIGURES = 2

# Columns of KernelEvidence.seen.
SECONDS = 0  # time that readings stand for
DRAWN_J = 1  # joules that they show, and that were predicted for the same time
PREDICTED_J = 2
UNTIL_S = 3  # end of the last reading
COLUMNS = 4


def new_evidence(jobs: int, even_s: float, phase: float) -> KernelEvidence:
    """Return the evidence of so many jobs, of which nothing is measured."""
    figures = np.zeros(FIGURES)
    figures[[EVEN_S, PHASE]] = even_s, phase
    seen = np.zeros((jobs, COLUMNS))
    seen[:, UNTIL_S] = -INF
    return KernelEvidence(figures, seen, np.ones(jobs))


@inlined
def weight_of(seconds: float, even_s: float) -> float:
    """Return the weight of a measurement of so many seconds beside the prediction."""
    return float(seconds / (seconds + even_s))


@inlined
def variance_left(weight: float, phase: float) -> float:
    """Return the relative variance of a job's watts, as a share of that at its start."""
    return float((1.0 - phase) * (1.0 - weight) + phase)


@inlined
def corrected(predicted: float, drawn: float, expected: float, weight: float, seconds: float) -> float:
    """Return a prediction corrected by ``drawn`` joules where ``expected`` ones were predicted, in its own unit.

    Where nothing was predicted there is no ratio: the measured mean stands in for it.
    """
    measured = predicted * (drawn / expected) if expected > 0.0 else drawn / seconds
    return float(predicted + weight * (measured - predicted))


@inlined
def corrected_uw(evidence: KernelEvidence, job: int, predicted_uw: int) -> int:
    """Return the microwatts of a running job, of which ``predicted_uw`` are predicted now."""
    seen = evidence.seen
    seconds = seen[job, SECONDS]
    if seconds <= 0.0:
        return predicted_uw
    weight = weight_of(seconds, evidence.figures[EVEN_S])
    uw = corrected(float(predicted_uw), seen[job, DRAWN_J] * 1e6, seen[job, PREDICTED_J] * 1e6, weight, seconds)
    return as_int64(round(uw))


@inlined
def add_reading(evidence: KernelEvidence, job: int, uw: int, predicted_uw: int, end: float, since: float) -> None:
    """Add a reading that ends at ``end`` to what is known of a job that runs as it does since ``since``.

    It stands for the time since the one before it, or since ``since``. One that is no newer adds nothing.
    """
    seen = evidence.seen
    span = end - max(seen[job, UNTIL_S], since)
    if span <= 0.0:
        return
    seen[job, SECONDS] += span
    seen[job, DRAWN_J] += uw / 1e6 * span
    seen[job, PREDICTED_J] += predicted_uw / 1e6 * span
    seen[job, UNTIL_S] = end
    evidence.left[job] = variance_left(weight_of(seen[job, SECONDS], evidence.figures[EVEN_S]), evidence.figures[PHASE])


@inlined
def forget_job(evidence: KernelEvidence, job: int) -> None:
    """Forget what was measured of a job that ended or goes back to the queue."""
    if len(evidence.left) > 0:
        evidence.seen[job, :] = 0.0
        evidence.seen[job, UNTIL_S] = -INF
        evidence.left[job] = 1.0


@entry
def note_reading(evidence: KernelEvidence, uw: int, predicted_uw: int, end: float, since: float) -> None:
    """Add a reading of the only job of ``evidence``, outside of a simulation."""
    add_reading(evidence, as_int64(0), uw, predicted_uw, end, since)


@entry
def correct_prediction(evidence: KernelEvidence, predicted_uw: int) -> int:
    """Return the microwatts of the only job of ``evidence``, outside of a simulation."""
    return corrected_uw(evidence, as_int64(0), predicted_uw)
