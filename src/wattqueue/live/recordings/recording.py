"""Record what the policy's session saw and decided in each round, as lines of JSON.

A recording answers "why did it start this job then?" after the fact, on any machine: a replay (``recordings.replay``)
runs the same session on what is recorded and compares the decisions to the last bit. A difference means that another
version of the program, or of a part, decides otherwise.

Numbers are written in the shortest text that gives the float back, so nothing is lost. The lines are:

``{"begin": {...}}``
    A controller started: the policy's row, the machine, what the site allows, the measured jobs that the estimator was
    taught from the database. The lines that follow belong to it, up to the next such line.
``{"now_s": s, "view": {...}, "moment": {...}, "ranges": {...}, "learned": [...], "asked": [...], "decided": {...}}``
    A round. ``view`` holds the fields of ``PolicySnapshot``, the terms of a chance ledger among them; it is left out
    where it equals the last one but for its time. ``moment`` is what else parts in Python are shown: states of units,
    jobs under way, events, limits of nodes. ``ranges`` has the greatest number of nodes of jobs that started, ``late``
    the starts that the resource manager did not carry out. ``learned`` and ``asked`` are the jobs that the estimator
    was taught and asked about before, ``ended`` the run times that the run-time part was taught; ``decided`` holds
    watts and planned seconds of those asked about, the actions of controls, the starts and the refusals.

A round in which nothing changed is left out where no part in Python was asked: an idle cluster would fill the disk.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import astuple, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats.machine.file import machine_data, machine_of
from wattqueue.live.decision import Decision, DecisionInputs, PartContext
from wattqueue.live.extension import Extension, beside
from wattqueue.live.predictor import EstimatorNotes, Predictor
from wattqueue.model.codec import made, plain
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Labels
from wattqueue.model.known_jobs import KnownJobs, Observed
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.signals import NO_SIGNALS, Cap, RiseScale, Signals
from wattqueue.parts.actions import Refusal, StartJob
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.policy.build import PassSettings
from wattqueue.policy.consent_windows import Window
from wattqueue.policy.decide import PolicySnapshot, RunningJobs
from wattqueue.policy.device_limits import DeviceLimits, DeviceReadings
from wattqueue.policy.registry import Policy
from wattqueue.policy.round import NOBODY

# Columns of the job table that a pass or a part reads.
JOB_COLUMNS = ("submit_s", "nodes", "walltime_s")
LABELS = ("user", "app", "partition")


class Recorder:
    """Appends rounds to a file that its owner alone may read (job names are users' text).

    A write that fails raises OSError, and the controller goes on without the recording: lines build on those before
    them, so nothing is appended behind a gap.
    """

    def __init__(
        self,
        path: Path,
        policy: Policy,
        machine: Machine,
        predictor: Predictor,
        *,
        power_nodes: bool,
        most_bytes: float = math.inf,
    ) -> None:
        """Record the rounds of a controller that has taught its ``predictor`` what its database holds.

        The row of the policy is recorded, not its parts: a policy that was put together in Python has to be given to
        the replay. A file of more than ``most_bytes`` is renamed to ``NAME.1``, in place of the one before, and a
        new one begins: without what a control or a ledger remembers from before.
        """
        self.path, self.predictor, self.most_bytes = path, predictor, most_bytes
        self._begin: dict[str, Any] = {
            "policy": policy.name, "row": _row_data(policy.row), "machine": machine_data(machine),
            "power_nodes": power_nodes, "learned": list(predictor.learned),
        }  # fmt: skip
        self._begun = False
        self._last = ""
        self._ended: OSError | None = None
        if predictor.run_times is not None:
            self._begin["ended"] = list(predictor.run_times.ended)
        predictor.pop_notes()

    def write(self, decision: Decision) -> None:
        """Append a round, unless nothing changed and no part in Python was asked."""
        if self._ended is not None:
            raise self._ended
        self._rotate()
        notes, inputs = self.predictor.pop_notes(), decision.inputs
        view = encode(inputs.view)
        now_s = view.pop("now_s")
        text = dumps(view)
        line: dict[str, Any] = {"now_s": now_s, "decided": decided(decision, notes)}
        if text != self._last:
            line["view"] = view
        if inputs.context is not None:
            line["moment"] = _context_data(inputs.context)
        if inputs.ranges:
            line["ranges"] = {str(row): most for row, most in inputs.ranges.items()}
        if inputs.late:
            line["late"] = [[action_data(one.action), one.reason] for one in inputs.late]
        if notes.learned or notes.asked:
            line |= {"learned": notes.learned, "asked": notes.asked}
        if notes.ended:
            line["ended"] = notes.ended
        if not {"view", "moment", "late", "asked", "ended"} & line.keys():
            return
        try:
            self._append(line)
        except OSError as error:
            self._ended = error
            raise
        self._last = text

    def _rotate(self) -> None:
        """Begin a new file where the present one is too large."""
        try:
            if self.path.stat().st_size < self.most_bytes:
                return
            self.path.rename(self.path.with_name(f"{self.path.name}.1"))
        except OSError:
            return  # no file yet, or one that only grows: the next write says what is wrong
        self._begin["learned"] = list(self.predictor.learned)
        if self.predictor.run_times is not None:
            self._begin["ended"] = list(self.predictor.run_times.ended)
        self._begun, self._last = False, ""

    def _append(self, line: dict[str, Any]) -> None:
        """Append a line; before the first one what the controller began with."""
        if not self.path.exists():  # before the first byte is written, so that nobody can read it in between
            self.path.touch(mode=0o600)
        with self.path.open("a") as file:
            if not self._begun:
                file.write(dumps({"begin": self._begin}) + "\n")
                self._begun = True
            file.write(dumps(line) + "\n")


def recorder_extension(recorder: Recorder) -> Extension:
    """Return the stage that records each plan."""
    return Extension({"planned": beside("the recording", lambda now: recorder.write(now.decision))}, keeps=recorder)


def decided(decision: Decision, notes: EstimatorNotes) -> dict[str, Any]:
    """Return what a round decided as JSON values, with the watts and run times that were predicted before it."""
    planned = {"planned_s": notes.planned_s} if notes.planned_s else {}
    return planned | {
        "watts": [list(row) for row in notes.watts],
        "actions": [action_data(action) for action in decision.answers.actions],
        "starts": [action_data(start) for start in decision.starts],
        "refusals": [[action_data(refusal.action), refusal.reason] for refusal in decision.refusals],
    }


def action_data(action: Any) -> list[Any]:
    """Return an action as JSON values: its kind, then its fields."""
    values = plain(action)
    return [type(action).__name__, *(values.values() if isinstance(values, dict) else values)]


def dumps(value: Any) -> str:
    """Return the canonical JSON text of a value: shortest floats, sorted keys, no blanks."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=True)


def _row_data(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return the row of a policy, if it is plain data."""
    try:
        data: dict[str, Any] = json.loads(json.dumps(row))
    except (TypeError, ValueError):
        return None
    return data or None


def _context_data(context: PartContext) -> dict[str, Any]:
    """Return what parts are shown as JSON values; states of units as runs of (state, count)."""
    edges = [0, *(np.flatnonzero(np.diff(context.states)) + 1).tolist(), len(context.states)]
    runs = [[int(context.states[low]), high - low] for low, high in pairwise(edges) if high > low]
    data = {"states": runs, "under_way": sorted(context.under_way), "happened": context.happened}
    data |= {"parked_w": dict(context.parked_w)} if context.parked_w else {}
    if context.readings is not None:
        data["readings"] = plain(context.readings._asdict())
    return data if context.limits is None else {**data, "limits": plain(context.limits)}


def context_of(data: dict[str, Any]) -> PartContext:
    """Return what parts were shown in a recorded round."""
    states = np.repeat([state for state, _ in data["states"]], [count for _, count in data["states"]])
    limits = made(DeviceLimits, data["limits"]) if "limits" in data else None
    readings = made(DeviceReadings, data["readings"]) if "readings" in data else None
    under_way, parked_w = frozenset(data["under_way"]), data.get("parked_w", NOBODY)
    return PartContext(states.astype(np.int8), under_way, data["happened"], limits, parked_w, readings)


def inputs_of(data: dict[str, Any], last: PolicySnapshot | None) -> DecisionInputs:
    """Return what a recorded round decided on. ``last`` is the view of the round before it.

    Raises: InputError for values that are no recorded round.
    """
    try:
        now_s = float(data["now_s"])
        if "view" in data:
            view = decode(data["view"], now_s)
        elif last is not None:
            view = at_time(last, now_s)
        else:
            raise KeyError("view")
        context = context_of(data["moment"]) if "moment" in data else None
        late = tuple(Refusal(StartJob(one[1], -1, (), one[4]), reason) for one, reason in data.get("late", ()))
        return DecisionInputs(view, context, {int(row): most for row, most in data.get("ranges", {}).items()}, late)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(f"is no recorded view: {error!r}"[:200], where="recording") from error


def at_time(view: PolicySnapshot, now_s: float) -> PolicySnapshot:
    """Return a view at another time."""
    return replace(view, now_s=now_s)


def encode(view: PolicySnapshot) -> dict[str, Any]:
    """Return a view as JSON values.

    Only the prediction rows that the view's jobs use are kept; the predictor's table is larger.
    """
    jobs: dict[str, Any] = {name: getattr(view.jobs, name).tolist() for name in JOB_COLUMNS}
    jobs["job_id"] = [str(v) for v in view.jobs.job_id]
    jobs["start_s"] = view.jobs.observed.start_s.tolist()
    jobs |= {name: plain(getattr(view.jobs, name)) for name in LABELS}
    row = view.prediction.row
    # the predictor's table holds rows of running and ended jobs as well
    used = np.unique(row) if row is not None else np.arange(len(view.prediction.power_w))
    small = np.searchsorted(used, row) if row is not None else None
    settings, consent = view.settings, view.jobs.consent
    if consent is not None:
        jobs["consent"] = plain(consent)
    return {
        "now_s": view.now_s,
        "machine": machine_data(view.machine),
        "jobs": jobs,
        "power_w": view.prediction.power_w[used].tolist(),
        "time_factor": view.prediction.time_factor[used].tolist(),
        "row": None if small is None else small.tolist(),
        "entries": plain(view.entries),
        "window": [np.asarray(side).tolist() for side in view.window if side is not None],
        "settings": list(astuple(settings)),
        "running": plain(view.running),
        "cap_w": "inf" if math.isinf(view.cap_w) else view.cap_w,
        **({} if view.alone_w == -math.inf else {"alone_w": str(view.alone_w)}),
        "margin_w": view.margin_w,
        "base_uw": view.base_uw,
        "unusable": view.unusable.tolist(),
        "unit_factor": None if view.prediction.unit_factor is None else view.prediction.unit_factor.tolist(),
        "rank": None if view.rank is None else view.rank.tolist(),
        "caps": [view.signals.cap.time_s.tolist(), view.signals.cap.cap_w.tolist()],
        "targets": [list(astuple(view.signals.targets.row(k))) for k in range(len(view.signals.targets))],
        **({} if view.planned_s is None else {"planned_s": view.planned_s.tolist()}),
        **({} if view.not_before_s is None else {"not_before_s": [*map(str, view.not_before_s.tolist())]}),
    }


def decode(data: dict[str, Any], now_s: float) -> PolicySnapshot:
    """Return the view of recorded values. Raises: KeyError, TypeError, ValueError or IndexError for any others."""
    jobs = data["jobs"]
    labels = {name: made(Labels, jobs[name]) for name in LABELS}
    # the machine is part of each view: a site may have changed its machine file since
    machine = machine_of(data["machine"], "recording")
    options = len(machine.option_partition)
    row = None if data["row"] is None else np.array(data["row"], np.int32)
    unknown = np.full(len(jobs["job_id"]), np.nan)
    table = KnownJobs.build(
        jobs["submit_s"], jobs["nodes"], jobs["walltime_s"],
        job_id=np.array(jobs["job_id"], object),
        consent=Consent.build(len(unknown), **jobs["consent"]) if "consent" in jobs else None,
        observed=Observed(np.array(jobs["start_s"], np.float64), unknown, unknown, unknown), **labels,
    )  # fmt: skip
    code, depth, scope, chance, *more = data["settings"]  # the last ones have defaults: old recordings lack them
    settings = PassSettings(code, depth, scope, None if chance is None else tuple(chance), *more)
    first, last, *plain = (np.array(side, np.int32) for side in data["window"])
    if settings.by_target and not plain:  # so old recordings have it: options behind the first were for targets
        plain = [first]
    return PolicySnapshot(
        now_s,
        table,
        machine,
        Prediction(
            np.array(data["power_w"], np.float64).reshape(-1, options),
            np.array(data["time_factor"], np.float64).reshape(-1, options),
            row,
            unit_factor=by_unit(data.get("unit_factor"), machine),
        ),
        made(Entries, data["entries"]),
        Window(first, last, *plain),
        settings,
        made(RunningJobs, data["running"]),
        math.inf if data["cap_w"] == "inf" else float(data["cap_w"]),
        float(data["margin_w"]),
        data["base_uw"],
        np.array(data["unusable"], np.int32),
        by_unit(data.get("rank"), machine),
        signals_of(machine, data.get("caps"), data.get("targets", ())),
        np.array(data["planned_s"], np.float64) if "planned_s" in data else None,
        alone_w=float(data.get("alone_w", "-inf")),
        not_before_s=np.array(data["not_before_s"], np.float64) if "not_before_s" in data else None,
    )


def by_unit(rows: list[list[float]] | None, machine: Machine) -> NDArray[np.float64] | None:
    """Return a recorded table by application and unit, None where there is none, as in old recordings. Shape (k, U)."""
    return None if rows is None else np.array(rows, np.float64).reshape(-1, machine.units)


def signals_of(machine: Machine, rows: list[list[float]] | None, targets: Iterable[Iterable[Any]] = ()) -> Signals:
    """Return the recorded caps and load targets, in force and announced; none in old recordings."""
    if rows is None:
        return NO_SIGNALS
    cap = Cap(*(np.array(column, np.float64) for column in rows))
    return Signals(cap, LoadTargets.of(*(LoadTarget(*row) for row in targets)), RiseScale.of(machine))
