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

from wattqueue.errors import PolicyError, one_of
from wattqueue.kernels import codes
from wattqueue.model.bounds import PERIOD_S
from wattqueue.model.supply import ANY_MARGIN, NO_MARGIN, Terms
from wattqueue.parts.oracles import is_oracle
from wattqueue.parts.run_contracts import NoMargin
from wattqueue.policy.build import PassSettings
from wattqueue.policy.interfaces import AXES, method_of, stated
from wattqueue.policy.lists import parts_in
from wattqueue.policy.registry import part_name, require_together
from wattqueue.policy.rows import FOR_MACHINE, listed

if TYPE_CHECKING:
    from wattqueue.model.known_jobs import Past
    from wattqueue.model.machine import Machine
    from wattqueue.parts.actions import Action
    from wattqueue.parts.contracts import Floats, OnlineEstimator, OnlineRunTime, Prediction, RunTime, Start
    from wattqueue.parts.run_contracts import CompiledStep, Control, CorrectingLedger, MeteredLedger, SampledLedger
    from wattqueue.policy.registry import Policy
    from wattqueue.policy.view import View

LEAST_SHARE = 0.1
"""Least watts drawn for a watt predicted that an adaptive ledger believes: a machine whose jobs do nothing at first, or
a meter that fails, must not admit ten times the cap."""
EVENT_BITS = {
    "arrival": codes.STOP_ON_ARRIVAL,
    "completion": codes.STOP_ON_COMPLETION,
    "signal": codes.STOP_ON_SIGNAL,
    "node": codes.STOP_ON_NODE,
    "start": codes.STOP_ON_START,
    "consent": 1 << 16,
    "parked": 1 << 17,
}
"""Events that a control may name, and the bits that stand for them in the compiled loop.

Two happen in live operation alone: ``consent``, a user changed the consent of a job; ``parked``, jobs are suspended or
could not be (once in each round, since an action may fail there). In a simulation nobody changes their mind, and what
is asked for is done."""
STEP_EVENTS = frozenset({"start", "signal"})
"""Events at which a compiled step of a control acts beside its period."""
CORRECTIONS = {
    "start": codes.LIMIT_AT_START,
    "limit": codes.LIMIT_AT_OVERRUN,
    "steps": codes.STEPS_AT_OVERRUN,
}
"""Corrections of planned times, as run-time parts name them (``parts.contracts.Correction``)."""
GREEDY = (codes.NO_BACKFILL, codes.FIRST_FIT, codes.EASY, codes.LAST_END, codes.SHORTEST)
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
    ledger: str
    """The ledger as messages call it."""
    chance: tuple[float, float, float] | None
    """Terms of a ledger whose margin follows from what runs (``Chance.terms``)."""
    measured: SampledLedger | None
    """The ledger, where it reads power sensors."""
    corrects: CorrectingLedger | None
    """The same, where what they show corrects predictions."""
    metered: MeteredLedger | None
    """The ledger, where a meter of the whole machine corrects its margin."""
    reads_sensors: bool
    """Whether a part reads power sensors: a measured ledger, or a control with ``reads_sensors``."""
    margin_w: Callable[[View], float] | None
    """Of a ledger that keeps watts free; None where they are known to be 0."""
    plans: RunTime | None
    """The run-time part, where it predicts anything; None where planned times are walltimes."""
    plans_online: OnlineRunTime | None
    """The same part, where it is asked at each submission and learns from completions."""
    correction: int
    """What becomes of planned times that are wrong (``kernels/codes.py``)."""
    online: OnlineEstimator | None
    """The estimator, where it is asked at each submission and learns from completions."""
    remember: Callable[[Past], None] | None
    """Of an estimator that can start from jobs that ended before the run."""
    machine_figures: bool
    """Whether the estimator predicts the machine's own maxima, which alone may reject a job (rule 4)."""
    controls: tuple[Control, ...]
    """In the order of the policy."""
    refusing: tuple[Callable[[View, Action], str], ...]
    """``refuses`` of the controls that have one: asked before each action of any control."""
    switches_off: bool
    """Whether a control switches idle nodes off for a waiting job that lacks their watts."""
    delays: bool
    """Whether a control delays starts of waiting jobs."""
    by_target: bool
    """Whether the frequency part's windows mean: the first option, but the last one during a load target."""
    looks_ahead: int
    """How the pass looks ahead to announced limits (``kernels/codes.py``); 0: not."""
    all_limits: bool
    """Whether to all of them; else to the begin of the next load target."""
    ramped: bool
    """Whether the ledger rises at the ramp of a load target after it."""
    balanced: bool
    """Whether starts level watts over racks."""
    racks: int
    """Racks that a start takes units of at most, where so many hold it; 0 for no bound."""
    step: CompiledStep | None
    """Of the first control whose step a kernel can take, where a driver has that kernel."""
    step_control: int
    """Which of the controls that is; -1 for none."""
    oracle_axes: tuple[str, ...]
    """Axes whose part is an oracle: it reads what no scheduler can know."""

    @property
    def views(self) -> bool:
        """Return whether some part is given views of the present."""
        return self.pass_in_python or bool(self.controls)

    @property
    def pass_in_python(self) -> bool:
        """Return whether a pass needs Python: for its starts, its order or its margin."""
        return self.custom_pass is not None or self.rerank is not None or self.margin_w is not None

    def least_margin(self, least_share: float) -> tuple[float, float, float]:
        """Return the terms of the least margin that the ledger can come to keep for a single job (rule 19).

        Share of the predicted watts, relative variance of a job's own, and that of all jobs together. Of an adaptive
        ledger the margin may come down to 0 and the share to ``least_share``; what a part in Python keeps free is not
        known in advance.
        """
        if self.metered is not None:
            return least_share, 0.0, 0.0
        return self.chance or (1.0, 0.0, 0.0)

    def pass_settings(self, cap_scope: str) -> PassSettings:
        """Return what the compiled pass needs to know."""
        chance, correction = self.chance, self.correction
        ahead = self.looks_ahead, self.all_limits
        learns = self.online is not None
        return PassSettings(
            self.pass_code, self.queue_depth, cap_scope, chance, self.by_target, correction, *ahead, learns,
            self.balanced, self.racks, self.domain_terms,
        )  # fmt: skip

    @property
    def domain_terms(self) -> Terms:
        """Return the terms of the greatest margin that power domains can come to keep."""
        return ANY_MARGIN if self.metered is not None else self.chance or NO_MARGIN

    @property
    def not_under_supply(self) -> str:
        """Return what no driver combines with domains that bind, or nothing: what a snapshot of rerank() lacks."""
        by_unit = self.measured is not None and self.corrects is None
        other = self.ledger if by_unit else "a pass that looks ahead" if self.looks_ahead else ""
        return f"rerank() beside {other}" if other and self.rerank is not None else ""


@dataclass(frozen=True, slots=True, eq=False)
class DriverAbilities:
    """What a driver carries out, beside the compiled passes that every driver has."""

    name: str
    """As messages call it: ``the simulator``."""
    actions: Mapping[type, Callable[[Any, Any], str] | str]
    """For each kind of action the function that carries it out, or the reason why it is refused.

    A function takes the driver and the action, and returns an empty text or the reason of a refusal."""
    ranked_placement: bool = False
    """Whether free units can be taken by rank."""
    unit_factors: bool = False
    """Whether the watts of a job may depend on its units."""
    passes_at_completion: bool = False
    """Whether a pass can be tied to completions."""
    planned_times: bool = False
    """Whether run times are predicted, and corrected."""
    control_steps: frozenset[int] = frozenset()
    """Steps of controls that its compiled loop takes (``kernels/codes.py``)."""
    future: bool = False
    """Whether the future is known, so that an oracle can be given it."""
    ramps: bool = False
    """Whether the ledger can rise at the ramp of a load target."""
    frees_at_once: bool = False
    """Whether its view shows at once what an action frees."""
    telemetry: bool | None = None
    """Whether power is measured; None: the machine's own sensors tell."""
    supply: bool = False
    """Whether it tests power domains that can hold jobs back."""
    site_meter: bool = True
    """Whether the power of the whole machine is metered."""


def resolve(policy: Policy) -> Capabilities:
    """Return what the parts of ``policy`` do.

    Raises: PolicyError for a part that lacks what it needs, parts that no driver can combine, and knobs, periods or
    events out of range.
    """
    require_complete(policy)
    backfill, ledger, estimator, order, runtime = (
        cast("Any", part) for part in (policy.backfill, policy.ledger, policy.estimator, policy.order, policy.runtime)
    )
    correction = correction_of(runtime)
    custom = method_of(backfill, "schedule")
    measured = ledger if stated(ledger, "counts_samples", False) else None
    depth, interval = stated(backfill, "queue_depth", 0), stated(backfill, "pass_interval_s", 0.0)
    check_knobs(backfill, depth, interval)
    for control in policy.controls:
        check_control(control)
    step_control, step = first_step(policy.controls)
    needs = Capabilities(
        pass_code=codes.CUSTOM if custom is not None else backfill.code,
        custom_pass=custom,
        queue_depth=depth,
        pass_interval_s=float(interval),
        pass_at_completion=bool(stated(backfill, "pass_at_completion", False)),
        rerank=method_of(order, "rerank"),
        pass_part=order if custom is None else backfill,
        ledger_part=ledger,
        ledger=stated(ledger, "called", "a ledger"),
        chance=stated(ledger, "terms", None),
        measured=measured,
        corrects=measured if stated(ledger, "corrects_by_samples", False) else None,
        metered=ledger if stated(ledger, "metered", False) else None,
        reads_sensors=measured is not None or some_control(policy, "reads_sensors"),
        margin_w=None if method_of(type(ledger), "margin_w") is NoMargin.margin_w else ledger.margin_w,
        plans=None if correction == codes.PLAN_IS_LIMIT else runtime,
        plans_online=None if runtime.asked == "once" else runtime,
        correction=correction,
        online=None if estimator.asked == "once" else estimator,
        remember=method_of(estimator, "remember"),
        machine_figures=bool(stated(estimator, "machine_figures", False)),
        controls=tuple(policy.controls),
        refusing=tuple(filter(None, (method_of(control, "refuses") for control in policy.controls))),
        switches_off=some_control(policy, "switches_off"),
        delays=some_control(policy, "delays"),
        by_target=bool(stated(policy.frequency, "by_target", False)),
        looks_ahead=int(stated(backfill, "looks_ahead", 0)),
        all_limits=stated(backfill, "ahead", "nothing") == "limits",
        ramped=bool(stated(ledger, "ramped", False)),
        balanced=bool(stated(policy.placement, "levels_watts", False)),
        racks=int(stated(policy.placement, "racks", 0)),
        step=step,
        step_control=step_control,
        oracle_axes=tuple(axis for axis, part in parts_of(policy) if is_oracle(part)),
    )
    refuse_combinations(policy, needs)
    return needs


def refuse_combinations(policy: Policy, needs: Capabilities) -> None:
    """Raise PolicyError for parts that no driver can combine."""
    if needs.by_target and needs.pass_code == codes.CONSERVATIVE:
        raise PolicyError(
            "windows by load target need a pass that tries one entry after another",
            where=policy.name,
            hint='use backfill = "easy", "first-fit" or "none"',
        )
    follows = needs.all_limits and needs.looks_ahead == codes.AHEAD_AS_RUN
    if needs.pass_code == codes.CONSERVATIVE and needs.looks_ahead and not follows:
        raise PolicyError(
            "a plan of all entries follows all announced limits, and counts jobs as they run",
            where=policy.name,
            hint='use backfill = { part = "conservative", ahead = "limits" }',
        )
    if needs.chance is not None and needs.pass_code not in GREEDY:
        raise PolicyError(
            "a ledger whose margin follows from what runs needs a pass that checks starts one by one",
            where=policy.name,
            hint='use backfill = "easy", "first-fit" or "none"; a plan takes a margin for each job: '
            'estimator = ["history-mean", { part = "margin", factor = 1.05 }]',
        )
    if needs.custom_pass is not None and needs.rerank is not None:
        raise PolicyError(
            "an order that re-ranks has no effect on a pass in Python",
            where=policy.name,
            hint='rank the entries in schedule(), or use a compiled pass: backfill = "easy"',
        )
    if needs.metered is not None and needs.rerank is not None:
        raise PolicyError(
            "an adaptive ledger cannot be combined with an order that re-ranks",
            where=policy.name,
            hint='its passes begin with the first margin again: use ledger = "chance"',
        )


def correction_of(runtime: Any) -> int:
    """Return the number of a run-time part's correction (``kernels/codes.py``).

    Raises: PolicyError for an unknown one.
    """
    stated_as = stated(runtime, "correction", None)
    if stated_as is None:
        return codes.PLAN_IS_LIMIT
    if stated_as not in CORRECTIONS:
        raise PolicyError(
            f"correction is {stated_as!r}", where=type(runtime).__name__, hint=f"one of {', '.join(CORRECTIONS)}"
        )
    return CORRECTIONS[stated_as]


def parts_of(policy: Policy) -> list[tuple[str, Any]]:
    """Return (axis, part) of every part, those of a list one by one, controls last."""
    chosen = ((axis, getattr(policy, axis)) for axis in AXES if axis != "controls")
    single = [(axis, part) for axis, one in chosen for part in parts_in(one)]
    return [*single, *(("controls", control) for control in policy.controls)]


def require_complete(policy: Policy) -> None:
    """Raise PolicyError for a part that names something it lacks (``missing``), or has one like it too many."""
    require_together(policy)
    for axis, part in parts_of(policy):
        missing = stated(part, "missing", "")
        if missing:
            raise PolicyError(
                f"{axis} {part_name(type(part))} needs {missing}",
                where=policy.name,
                hint=stated(part, "remedy", "nothing that a policy file can name provides it: leave the part out"),
            )


def some_control(policy: Policy, attribute: str) -> bool:
    """Return whether a control states this of itself."""
    return any(stated(control, attribute, False) for control in policy.controls)


def check_knobs(backfill: object, depth: Any, interval_s: Any) -> None:
    """Raise PolicyError for a queue depth below 0 and an interval that is neither 0 nor a period."""
    where = type(backfill).__name__
    if depth < 0:
        raise PolicyError(f"queue_depth is {depth}", where=where, hint="0 tries the whole queue")
    if interval_s != 0:
        PERIOD_S.require(
            interval_s, "pass_interval_s", where=where, kind=PolicyError, hint="0 has a pass at every event"
        )


def check_control(control: Control) -> None:
    """Check what a control declares.

    Raises: PolicyError for a period that is negative, not finite or too short, an unknown event, or a control that
    neither a period nor an event wakes.
    """
    where = type(control).__name__
    period = float(control.period_s)
    if period != 0.0:
        PERIOD_S.require(period, "period_s", where=where, kind=PolicyError, hint="0 for no period")
    for event in control.events:
        if event not in EVENT_BITS:
            raise PolicyError(f"unknown event {event!r}", where=where, hint=one_of(event, EVENT_BITS))
    if period == 0.0 and not control.events:
        raise PolicyError("the control is never called", where=where, hint="set period_s, or name events")


def first_step(controls: Sequence[Control]) -> tuple[int, CompiledStep | None]:
    """Return the first control with a compiled step, and that step; -1 and None where there is none.

    One without a period, or that other events wake than a loop knows (``STEP_EVENTS``), is called in Python.
    """
    for i, control in enumerate(controls):
        asked = method_of(control, "compiled_step")
        steps = control.period_s > 0 and STEP_EVENTS.issuperset(control.events)
        step = asked() if asked is not None and steps else None
        if step is not None:
            return i, step
    return -1, None


def require_carried_out(
    policy: Policy, needs: Capabilities, driver: DriverAbilities, apps: int, machine: Machine, prediction: Prediction
) -> None:
    """Refuse what a policy chooses and a driver does not carry out, before the driver starts.

    An error is better than a run that silently ignores the choice. ``apps`` is the number of applications that jobs
    name; ``prediction`` may be of no job, where none is known yet.

    A placement without what it ranks by would take units by number in silence, so it is refused, too, as is a row that
    nobody made for the machine.

    Raises: PolicyError naming the policy.
    """
    if any(listed(value) == [FOR_MACHINE] for value in policy.row.values()):
        raise PolicyError(
            f"has choices that follow from the machine, and was not made for {machine.name}",
            where=policy.name,
            hint=f"load_policy({policy.name!r}, machine=machine)",
        )
    ranked = policy.placement.rank(apps, machine, prediction) is not None
    if not ranked and not stated(policy.placement, "by_number", False):
        raise PolicyError(
            f"placement {part_name(type(policy.placement))} has nothing to rank units by",
            where=policy.name,
            hint=f'{stated(policy.placement, "remedy", "give rank() something to rank by")}, or use "lowest"',
        )
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
            needs.correction != codes.PLAN_IS_LIMIT and not driver.planned_times,
            "predicted run times",
            'use runtime = "user-limit"',
        ),
        (
            needs.ramped and not driver.ramps,
            "a ledger that rises at the ramp of a load target",
            'use ledger = "predicted": the limit itself rises at that ramp',
        ),
        (
            needs.pass_at_completion and not driver.passes_at_completion,
            "passes at completions",
            "leave out pass_at_completion",
        ),
    )
    for lacks, what, hint in lacking:
        if lacks:
            raise PolicyError(f"has {what}, which {driver.name} does not carry out", where=policy.name, hint=hint)
    untested = needs.not_under_supply if driver.supply else f"{driver.name} does not test domains yet"
    if machine.supply:
        from wattqueue.policy.supply import require_supply

        require_supply(
            policy.name, machine, prediction, untested, learns=needs.online is not None, terms=needs.domain_terms
        )
    require_sensors(policy, needs, driver, machine)


def require_sensors(policy: Policy, needs: Capabilities, driver: DriverAbilities, machine: Machine) -> None:
    """Raise PolicyError for a policy that counts or reads measured watts where nothing measures."""
    if needs.metered is not None and not driver.site_meter:
        raise PolicyError(
            f"has an adaptive ledger, and {driver.name} has no source of the nodes' power",
            where=policy.name,
            hint='name a source in [telemetry], or use ledger = "chance"',
        )
    if not needs.reads_sensors:
        return
    what = "a control that reads power sensors" if needs.measured is None else needs.ledger
    live = driver.telemetry if needs.measured is not None else driver.site_meter  # a control needs no lower licences
    there = machine.sensor is not None if driver.telemetry is None else live
    if not there:
        lacks = f"{driver.name} has no power sensor of {machine.name}"
        hint = "write a [sensor] table into the machine file"
        if driver.telemetry is not None and needs.measured is None:
            lacks, hint = f"{driver.name} has no source of the nodes' power", "name a source in [telemetry]"
        elif driver.telemetry is not None:
            lacks = f"{driver.name} has no source of the nodes' power, or track_running is off (the default)"
            hint = "name a source in [telemetry], with track_running = true and what it needs"
        raise PolicyError(
            f"has {what}, and nothing measures: {lacks}",
            where=policy.name,
            hint=f'{hint}, or use ledger = "predicted" and no such control',
        )
    unknown = [p.name for p in machine.partitions if p.max_w is None]
    if needs.measured is not None and needs.corrects is None and unknown:
        raise PolicyError(
            f"has {what}, and a stale sample counts as max_w, which partition {unknown[0]} does not state",
            where=policy.name,
            hint="write max_w into the machine file",
        )
