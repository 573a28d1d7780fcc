"""Record each view with the actions decided on it, one JSON line per view, and replay the decisions.

A recording answers "why did it start this job then?" after the fact, on any machine: a view is all
that ``decide`` reads, so replaying it must give the same actions to the last bit. ``replay`` checks
that; a difference means that another version of the program decides otherwise.

Numbers are written in the shortest text that gives the float back, so nothing is lost.

A line is ``{"now_s": seconds, "view": {...}, "actions": [[job, partition, [nodes], option], ...]}``. ``view`` holds the
fields of ``PolicySnapshot``: the machine as its TOML data, tables as lists by column, the cap as a number or ``"inf"``.
Lines do not depend on each other, so a recording can be cut anywhere at a line's end, and the tail of a file that a
full disk cut in the middle of a line is the only part that is lost.

What is not recorded: the order's and estimator's own state. Their results (entries, priorities, predictions) are in
the view, so a replay needs neither the database nor the policy. A policy whose ``decide`` is wrapped (re-ranking, a
ledger's margin) is replayed with the wrapper's results too, but the wrapper itself is not run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.machine.file import machine_data, machine_of
from wattqueue.live.planner import Plan
from wattqueue.model.jobs import Labels
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.policy.actions import StartJob
from wattqueue.policy.build import PassSettings
from wattqueue.policy.decide import PolicySnapshot, RunningJobs, decide

# Columns of the job table that a pass reads.
JOB_COLUMNS = ("submit_s", "nodes", "walltime_s")
# Columns of the running jobs, whatever they are: a new one is recorded without a change here.
RUNNING = tuple(f.name for f in fields(RunningJobs))


class Recorder:
    """Appends views to a file that its owner alone may read (job names are users' text).

    A view that equals the last one but for its time is not written again: an idle cluster would fill
    the disk. A write that fails raises OSError, and the controller goes on without the recording.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last = ""

    def write(self, plan: Plan) -> None:
        """Append the view and the starts of one round, if they differ from the last ones written."""
        view, actions = encode(plan.view), [list(_plain(a)) for a in plan.starts]
        now = view.pop("now_s")
        text = dumps({"view": view, "actions": actions})
        if text == self._last:  # without the time, or no two views would be equal
            return
        self._last = text
        if not self.path.exists():  # before the first byte is written, so that nobody can read it in between
            self.path.touch(mode=0o600)
        with self.path.open("a") as file:
            file.write(dumps({"now_s": now, "view": view, "actions": actions}) + "\n")


def _plain(start: StartJob) -> tuple[Any, ...]:
    """Return a start as JSON values."""
    return start.job, start.partition, [int(n) for n in start.nodes], start.option


def dumps(value: Any) -> str:
    """Return the canonical JSON text of a value: shortest floats, sorted keys, no blanks."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=True)


def encode(view: PolicySnapshot) -> dict[str, Any]:
    """Return a view as JSON values.

    Only the prediction rows that the view's jobs use are kept; the predictor's table is larger.
    """
    jobs: dict[str, Any] = {name: getattr(view.jobs, name).tolist() for name in JOB_COLUMNS}
    jobs["job_id"] = [str(v) for v in view.jobs.job_id]
    for name in ("user", "app", "partition"):
        labels: Labels = getattr(view.jobs, name)
        jobs[name] = {"codes": labels.codes.tolist(), "names": list(labels.names)}
    row = view.prediction.row
    # the predictor's table holds rows of running and ended jobs as well
    used = np.unique(row) if row is not None else np.arange(len(view.prediction.power_w))
    small = np.searchsorted(used, row) if row is not None else None
    return {
        "now_s": view.now_s,
        "machine": machine_data(view.machine),
        "jobs": jobs,
        "power_w": view.prediction.power_w[used].tolist(),
        "time_factor": view.prediction.time_factor[used].tolist(),
        "row": None if small is None else small.tolist(),
        "entries": {name: getattr(view.entries, name).tolist() for name in ("job", "partition", "priority")},
        "window": [np.asarray(side).tolist() for side in view.window],
        "settings": [view.settings.code, view.settings.queue_depth, view.settings.cap_scope],
        "running": {name: getattr(view.running, name).tolist() for name in RUNNING},
        "cap_w": "inf" if math.isinf(view.cap_w) else view.cap_w,
        "margin_w": view.margin_w,
        "base_uw": view.base_uw,
        "unusable": view.unusable.tolist(),
    }


def decode(data: dict[str, Any], now_s: float) -> PolicySnapshot:
    """Return the view of recorded values. Raises: InputError for values that are no recorded view."""
    try:
        jobs = data["jobs"]
        labels = {
            name: Labels(np.array(jobs[name]["codes"], np.int32), tuple(jobs[name]["names"]))
            for name in ("user", "app", "partition")
        }
        # the machine is part of each view: a site may have changed its machine file since
        machine = machine_of(data["machine"], "recording")
        options = len(machine.option_partition)
        row = None if data["row"] is None else np.array(data["row"], np.int32)
        table = KnownJobs.build(
            jobs["submit_s"], jobs["nodes"], jobs["walltime_s"],
            job_id=np.array(jobs["job_id"], object), **labels,
        )  # fmt: skip
        kinds = {"row": np.int32, "option": np.int16, "net_uw": np.int64, "first": np.int64}
        kinds |= {"expected_end_s": np.float64}  # type: ignore[dict-item]
        running = {n: np.array(data["running"][n], kinds.get(n, np.int32)) for n in RUNNING}
        entries = data["entries"]
        return PolicySnapshot(
            now_s,
            table,
            machine,
            Prediction(
                np.array(data["power_w"], np.float64).reshape(-1, options),
                np.array(data["time_factor"], np.float64).reshape(-1, options),
                row,
            ),
            Entries(
                np.array(entries["job"], np.int32),
                np.array(entries["partition"], np.int32),
                np.array(entries["priority"], np.float64),
            ),
            tuple(np.array(side, np.int32) for side in data["window"]),  # type: ignore[arg-type]
            PassSettings(*data["settings"]),
            RunningJobs(**running),
            math.inf if data["cap_w"] == "inf" else float(data["cap_w"]),
            float(data["margin_w"]),
            data["base_uw"],
            np.array(data["unusable"], np.int32),
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(f"is no recorded view: {error!r}"[:200], where="recording") from error


def replay(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (line number, actions as recorded, actions as decided now) for each view, in canonical text.

    Raises: InputError for a file that is no recording.
    """
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    data = json.loads(line)
                    recorded = dumps(data["actions"])
                    view = decode(data["view"], float(data["now_s"]))
                except (ValueError, KeyError, TypeError) as error:
                    raise InputError(f"line {number} is no recorded view", where=path) from error
                yield number, recorded, dumps(actions_of(decide(view)))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from error


def actions_of(starts: Sequence[StartJob]) -> list[list[Any]]:
    """Return starts as JSON values."""
    return [list(_plain(start)) for start in starts]
