"""What the parts of a policy do, read from them once; and whether a driver carries all of it out.

Parts are plain classes with optional methods and attributes (``parts/contracts.py``). ``resolve`` looks at them once
and returns ``Capabilities``, plain values that everything else asks. A driver (the simulator, the live controller)
states its own side as ``DriverAbilities``. ``require_carried_out`` compares the two: it is the one place where a choice
that a driver ignores would be found, and it refuses the policy with a message instead (docs/adr/0003).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.kernels import codes
from wattqueue.parts.ledger.chance import Chance
from wattqueue.parts.ledger.predicted import Predicted
from wattqueue.parts.oracles import is_oracle
from wattqueue.policy.build import PassSettings
from wattqueue.policy.interfaces import AXES, method_of, stated
from wattqueue.policy.registry import part_name

if TYPE_CHECKING:
    from wattqueue.model.machine import Machine
    from wattqueue.model.past import Past
    from wattqueue.parts.contracts import Control, Floats, OnlineEstimator, Prediction, Start
    from wattqueue.policy.policy import Policy
    from wattqueue.policy.view import View

LEAST_PERIOD_S = 1e-3
"""Shortest period of a control. Float64 cannot hold a smaller step than 1e-6 s at the times of Unix clocks."""
EVENT_BITS = {
    "arrival": codes.STOP_ON_ARRIVAL,
    "completion": codes.STOP_ON_COMPLETION,
    "signal": codes.STOP_ON_SIGNAL,
    "node": codes.STOP_ON_NODE,
    "start": codes.STOP_ON_START,
}
"""Events that a control may name, and the bits that stand for them in the compiled loop."""
STOCK_MARGINS = (Predicted.margin_w, Chance.margin_w)
"""Margins that are known to be 0, so that no pass stops to ask for them."""
GREEDY = (codes.NO_BACKFILL, codes.FIRST_FIT, codes.EASY, codes.LAST_END)
"""Passes that test one start at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Capabilities:
    """What the parts of one policy do."""

    pass_code: int
    """Compiled pass (``kernels/codes.py``); CUSTOM where the backfill is a pass in Python."""
    custom_pass: Callable[[View], Sequence[Start]] | None
    """``schedule`` of a backfill in Python."""
    queue_depth: int
    """Entries that a pass tries; 0 for all."""
    pass_interval_s: float
    """Shortest time between two passes."""
    pass_at_completion: bool
    """Whether passes come at completions, and at whole intervals after the last one (rule 10)."""
    rerank: Callable[[View], Floats] | None
    """Of an order whose priorities change during the run."""
    pass_part: object
    """The backfill, where it is a pass in Python; else the order."""
    ledger_part: object
    """The part that keeps watts free."""
    ledger: int
    """Number of the ledger (``kernels/codes.py``)."""
    chance: tuple[float, float, float] | None
    """Terms of a chance ledger."""
    margin_w: Callable[[View], float] | None
    """Of a ledger that keeps watts free; None where they are known to be 0."""
    online: OnlineEstimator | None
    """The estimator, where it is asked at each submission and learns from completions."""
    remember: Callable[[Past], None] | None
    """Of an estimator that can start from jobs that ended before the run."""
    machine_figures: bool
    """Whether the estimator predicts the machine's own maxima, which alone may reject a job (rule 4)."""
    controls: tuple[Control, ...]
    """In the order of the policy."""
    knows_future: tuple[str, ...]
    """Axes whose part is an oracle: it reads what no scheduler can know."""

    @property
    def views(self) -> bool:
        """Return whether some part is given views of the present."""
        return self.pass_in_python or bool(self.controls)

    @property
    def pass_in_python(self) -> bool:
        """Return whether a pass needs Python: for its starts, its order or its margin."""
        return self.custom_pass is not None or self.rerank is not None or self.margin_w is not None

    def pass_settings(self, cap_scope: str) -> PassSettings:
        """Return what the compiled pass needs to know."""
        return PassSettings(self.pass_code, self.queue_depth, cap_scope, self.chance)


@dataclass(frozen=True, slots=True, eq=False)
class DriverAbilities:
    """What a driver carries out, beside the compiled passes that every driver has."""

    name: str
    """As messages call it: ``the simulator``."""
    actions: Mapping[type, Callable[[Any, Any], str] | str]
    """For each kind of action the function that carries it out, or the reason why it is refused.

    A function takes the driver and the action, and returns an empty text or the reason of a refusal."""
    ledgers: frozenset[int] = frozenset({codes.PREDICTED, codes.CHANCE})
    """Ledgers that it keeps (``kernels/codes.py``)."""
    ranked_placement: bool = False
    """Whether free units can be taken by rank."""
    unit_factors: bool = False
    """Whether the watts of a job may depend on its units."""
    passes_at_completion: bool = False
    """Whether a pass can be tied to completions."""
    future: bool = False
    """Whether the future is known, so that an oracle can be given it."""


def resolve(policy: Policy) -> Capabilities:
    """Return what the parts of ``policy`` do.

    Raises: PolicyError for a part that lacks what it needs, parts that no driver can combine, and knobs, periods or
    events out of range.
    """
    require_complete(policy)
    backfill, ledger, estimator, order = (
        cast("Any", part) for part in (policy.backfill, policy.ledger, policy.estimator, policy.order)
    )
    custom = method_of(backfill, "schedule")
    depth, interval = stated(backfill, "queue_depth", 0), stated(backfill, "pass_interval_s", 0.0)
    check_knobs(backfill, depth, interval)
    for control in policy.controls:
        check_control(control)
    needs = Capabilities(
        pass_code=codes.CUSTOM if custom is not None else backfill.code,
        custom_pass=custom,
        queue_depth=depth,
        pass_interval_s=float(interval),
        pass_at_completion=bool(stated(backfill, "pass_at_completion", False)),
        rerank=method_of(order, "rerank"),
        pass_part=order if custom is None else backfill,
        ledger_part=ledger,
        ledger=stated(ledger, "code", codes.PREDICTED),
        chance=stated(ledger, "terms", None),
        margin_w=None if method_of(type(ledger), "margin_w") in STOCK_MARGINS else ledger.margin_w,
        online=None if estimator.asked == "once" else estimator,
        remember=method_of(estimator, "remember"),
        machine_figures=bool(stated(estimator, "machine_figures", False)),
        controls=tuple(policy.controls),
        knows_future=tuple(axis for axis, part in parts_of(policy) if is_oracle(part)),
    )
    if needs.ledger == codes.CHANCE and needs.pass_code not in GREEDY:
        raise PolicyError(
            "a chance ledger needs a pass that checks starts one by one",
            where=policy.name,
            hint='use backfill = "easy", "first-fit" or "none"',
        )
    return needs


def parts_of(policy: Policy) -> list[tuple[str, Any]]:
    """Return (axis, part) of every part, controls last."""
    single = [(axis, getattr(policy, axis)) for axis in AXES if axis != "controls"]
    return [*single, *(("controls", control) for control in policy.controls)]


def require_complete(policy: Policy) -> None:
    """Raise PolicyError for a part that names something it lacks (attribute ``missing``, empty for nothing)."""
    for axis, part in parts_of(policy):
        missing = stated(part, "missing", "")
        if missing:
            raise PolicyError(
                f"{axis} {part_name(type(part))} needs {missing}",
                where=policy.name,
                hint="nothing that a policy file can name provides it: leave the part out",
            )


def check_knobs(backfill: object, depth: Any, interval_s: Any) -> None:
    """Raise PolicyError for knobs of a backfill that are below 0 or not finite."""
    if depth < 0 or not 0 <= interval_s < np.inf:
        raise PolicyError(
            f"queue_depth is {depth}, pass_interval_s {interval_s}",
            where=type(backfill).__name__,
            hint="0 tries the whole queue, and has a pass at every event; both must be finite, and 0 or more",
        )


def check_control(control: Control) -> None:
    """Check what a control declares.

    Raises: PolicyError for a period that is negative, not finite or too short, an unknown event, or a control that
    neither a period nor an event wakes.
    """
    where = type(control).__name__
    period = float(control.period_s)
    if not (period == 0.0 or LEAST_PERIOD_S <= period < np.inf):
        raise PolicyError(
            f"period_s is {period}", where=where, hint=f"0 for no period, or seconds from {LEAST_PERIOD_S}"
        )
    for event in control.events:
        if event not in EVENT_BITS:
            raise PolicyError(f"unknown event {event!r}", where=where, hint=f"one of {', '.join(EVENT_BITS)}")
    if period == 0.0 and not control.events:
        raise PolicyError("the control is never called", where=where, hint="set period_s, or name events")


def require_carried_out(
    policy: Policy, needs: Capabilities, driver: DriverAbilities, apps: int, machine: Machine, prediction: Prediction
) -> None:
    """Refuse what a policy chooses and a driver does not carry out, before the driver starts.

    An error is better than a run that silently ignores the choice. ``apps`` is the number of applications that jobs
    name; ``prediction`` may be of no job, where none is known yet.

    Raises: PolicyError naming the policy.
    """
    ranked = policy.placement.rank(apps, machine, prediction) is not None
    oracles = [f"{axis} {part_name(type(part))}" for axis, part in parts_of(policy) if is_oracle(part)]
    lacking = (
        (bool(oracles) and not driver.future, f"an oracle ({', '.join(oracles)})", "use a part that knows the present"),
        (ranked and not driver.ranked_placement, "a placement that ranks units", 'use placement = "lowest"'),
        (
            prediction.unit_factor is not None and not driver.unit_factors,
            "watts that depend on the unit",
            "use an estimator without unit factors",
        ),
        (
            prediction.unit_time_factor is not None,
            "an estimator with run times by unit",
            "leave unit_time_factor to the truth: simulate(actual=...)",
        ),
        (
            needs.pass_at_completion and not driver.passes_at_completion,
            "passes at completions",
            "leave out pass_at_completion",
        ),
        (
            needs.ledger not in driver.ledgers,
            "a ledger of measured watts" if needs.ledger == codes.MEASURED else f"ledger {needs.ledger}",
            'use ledger = "predicted"',
        ),
    )
    for lacks, what, hint in lacking:
        if lacks:
            raise PolicyError(f"has {what}, which {driver.name} does not carry out", where=policy.name, hint=hint)
