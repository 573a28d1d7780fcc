"""Views and what was decided on them, a line each, so that any of them can be decided again anywhere."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.machine_toml import machine_data, machine_of
from wattqueue.live.brain import Thought
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.policy.actions import StartJob
from wattqueue.policy.build import PassSettings
from wattqueue.policy.decide import RunningJobs, Snapshot, decide

JOB_COLUMNS = ("submit_s", "nodes", "walltime_s", "runtime_s")
RUNNING = tuple(f.name for f in fields(RunningJobs))


class Recorder:
    """Appends a line a round to a file that its owner alone reads; unchanged worlds are written once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last = ""

    def write(self, thought: Thought) -> None:
        """One view and its actions."""
        view, actions = encode(thought.view), [list(_plain(a)) for a in thought.starts]
        now = view.pop("now_s")
        text = dumps({"view": view, "actions": actions})
        if text == self._last:
            return
        self._last = text
        if not self.path.exists():
            self.path.touch(mode=0o600)
        with self.path.open("a") as file:
            file.write(dumps({"now_s": now, "view": view, "actions": actions}) + "\n")


def _plain(start: StartJob) -> tuple[Any, ...]:
    return start.job, start.partition, [int(n) for n in start.nodes], start.option


def dumps(value: Any) -> str:
    """The one spelling of a value: floats as the shortest text that gives them back, keys sorted."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=True)


def encode(view: Snapshot) -> dict[str, Any]:
    """A view as plain values."""
    jobs: dict[str, Any] = {name: getattr(view.jobs, name).tolist() for name in JOB_COLUMNS}
    jobs["job_id"] = [str(v) for v in view.jobs.job_id]
    for name in ("user", "app", "partition"):
        labels: Labels = getattr(view.jobs, name)
        jobs[name] = {"codes": labels.codes.tolist(), "names": list(labels.names)}
    row = view.prediction.row
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


def decode(data: dict[str, Any], now_s: float) -> Snapshot:
    """A view from its plain values. Raises InputError for others."""
    try:
        jobs = data["jobs"]
        labels = {
            name: Labels(np.array(jobs[name]["codes"], np.int32), tuple(jobs[name]["names"]))
            for name in ("user", "app", "partition")
        }
        machine = machine_of(data["machine"], "recording")
        options = len(machine.option_partition)
        row = None if data["row"] is None else np.array(data["row"], np.int32)
        table = Jobs.build(
            jobs["submit_s"], jobs["nodes"], jobs["runtime_s"], walltime_s=jobs["walltime_s"],
            job_id=np.array(jobs["job_id"], object), **labels,
        )  # fmt: skip
        kinds = {"row": np.int32, "option": np.int16, "net_uw": np.int64, "first": np.int64}
        kinds |= {"expected_end_s": np.float64}  # type: ignore[dict-item]
        running = {n: np.array(data["running"][n], kinds.get(n, np.int32)) for n in RUNNING}
        entries = data["entries"]
        return Snapshot(
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
    """Line number, actions as recorded, and as decided now, in their one spelling.

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
    """Actions as plain values."""
    return [list(_plain(start)) for start in starts]
