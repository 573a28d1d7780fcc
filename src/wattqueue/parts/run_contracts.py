"""The interfaces of parts that are called during a run and see the present: they take a view of it.

The other interfaces, the values that parts exchange, and when each is called stand in ``contracts.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Floats, Prediction, Start

if TYPE_CHECKING:
    from wattqueue.parts.actions import Action
    from wattqueue.policy.view import View

Read = Literal["period", "submission"]
"""When sensors are read: at each multiple of their own period of readings, or when a job is submitted."""
Share = Literal["even", "busy"]
"""How a sample is spread over the units of its sensor."""


@runtime_checkable
class RerankingOrder(Protocol):
    """An order whose priorities change during the run: ``rerank`` is called before each scheduling pass."""

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        """Return all entries; their priorities hold until the first ``rerank``."""
        ...

    def rerank(self, view: View) -> Floats:
        """Return a finite priority for each entry of ``view.queue``, in its order."""
        ...


@runtime_checkable
class CustomBackfill(Protocol):
    """A scheduling pass in plain Python, called at each pass instead of a compiled one."""

    def schedule(self, view: View) -> Sequence[Start]:
        """Return what starts now, in order; a start that does not fit nodes, window or cap is refused and counted."""
        ...


@runtime_checkable
class Ledger(Protocol):
    """Decide which watts count against the cap (rule 15 of docs/semantics.md): predictions, unless it states more.

    Attributes that it may have: ``called``, a text by which messages name it ("a chance ledger"); ``terms``, the share
    and variances of a margin that follows from what runs (``Chance.terms``); ``counts_samples``, it counts what power
    sensors show (``SampledLedger``), and ``corrects_by_samples``, predictions are corrected by that
    (``CorrectingLedger``); ``metered``, a meter of the whole machine corrects its margin (``MeteredLedger``);
    ``ramped``, it rises at the ramp of a load target after it; ``follows_power``, what it counts falls with what jobs
    draw; ``promise``, a text of what it promises about power.
    """

    def margin_w(self, view: View) -> float:
        """Return the watts to keep free below the cap, 0 or more; read at each pass."""
        ...


class NoMargin:
    """Base of ledgers that keep nothing free, or whose margin the compiled pass adds itself, start by start."""

    def margin_w(self, view: View) -> float:
        """Return 0."""
        return 0.0


class SampledLedger(Protocol):
    """A ledger that counts what power sensors show of running jobs: which driver reads them how."""

    read: Read
    share: Share
    stale_s: float | None
    """Age at which a sample is stale; None: three periods of the sensor and its readings."""
    ages: bool
    """Whether a sample also becomes stale while nobody reads the sensor."""
    idle_tolerance: float
    """Share by which a sample may be below idle watts and counts as idle."""


class CorrectingLedger(SampledLedger, Protocol):
    """A ledger of predictions that samples correct."""

    even_s: float
    """Seconds of measurement that say as much of a job's mean as its prediction."""

    @property
    def phase_share(self) -> float:
        """Return the share of a job's variance at its start that no measurement takes away."""
        ...


class MeteredLedger(Protocol):
    """A ledger whose margin a meter of the whole machine corrects; the figures are explained in ``adaptive``."""

    epsilon: float
    window_days: float
    aim: float
    gain: float
    caution: float
    begin: float
    most: float
    forget_s: float
    own: float
    common: float
    meter_s: float
    late: int
    noise: float


@runtime_checkable
class Control(Protocol):
    """Act on running jobs and on nodes: change frequencies, limit sockets, stop and wake nodes, requeue.

    A control is called when its period has run out or when one of its events happened at this instant, in the order
    of the policy's list. It sees the actions of the controls before it, but is not woken by them. One with a period, or
    with the event ``signal`` or ``node``, is called at the beginning, too: cap and units are new to it then.

    A control may have an attribute ``missing``, a text that names what it lacks to act ("" for nothing); a policy with
    a control that lacks something is refused. ``reads_sensors``: it needs measured power. ``reads_counters``: it
    measures jobs by counters. ``acts_by_power``: it takes watts from jobs because measured power is above the cap
    (rule 16); only jobs whose users consent may be stopped by it. ``holds_starts``, read after each call: nothing
    starts now beside running jobs. ``switches_off``: where a waiting job lacks watts, idle nodes are switched off, so
    that a job that fits beside such nodes is not rejected (rule 4). ``delays``: it delays starts. ``parks``: it
    suspends jobs, and continues those that are suspended; a policy has one such control. ``sets_limits``: it limits
    devices. One that promises what others could break may have a method ``refuses(view, action)``: why an action of any
    control is refused, or "".

    One that keeps something from call to call may have a method ``begin()``, called before the first call of a run: it
    forgets the run before, since a policy may be used for several.
    """

    period_s: float
    """Seconds between two calls; 0 means no period."""
    events: frozenset[str]
    """Events that wake it, out of ``arrival``, ``completion``, ``signal`` (cap, price, target), ``node``,
    ``start`` (called after the pass that started jobs), and, live alone, ``consent`` (a user changed the consent of a
    job) and ``parked`` (the driver suspended or continued jobs)."""

    def act(self, view: View) -> Sequence[Action]:
        """Return actions, carried out in this order. A refused one is listed in the next view with its reason."""
        ...


@dataclass(frozen=True, slots=True)
class CompiledStep:
    """A step of a control that a driver's compiled loop can take itself, instead of a call of ``act``."""

    code: int
    """Number of the kernel in ``kernels/codes.py``."""
    figures: tuple[float, ...]
    """What the control was configured with, as that kernel takes it."""


@runtime_checkable
class SteppedControl(Protocol):
    """A control with a period whose step a kernel can take; ``act`` stays, for drivers without that kernel.

    Both forms must have equal outcomes. A step is no call: it makes no view, and other parts do not see what was
    refused.
    """

    period_s: float
    events: frozenset[str]

    def act(self, view: View) -> Sequence[Action]:
        """Return the actions of a step."""
        ...

    def compiled_step(self) -> CompiledStep | None:
        """Return the step as a kernel takes it; None where this control, as it was configured, needs Python."""
        ...
