"""Run the session of a recording again, on what it saw then, and compare what it decides (``recordings.recording``).

The same code decides as in a controller (``Decider.answer``): controls, an order that re-ranks, margins and passes in
Python are asked again, and an estimator is taught and asked the same jobs in the same order. What the parts keep from
round to round is therefore built up as it was, so a replay begins at the first line and asks about each round once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wattqueue.errors import InputError
from wattqueue.formats.machine.file import machine_of
from wattqueue.live.decision import Decider
from wattqueue.live.features.agent_controls import live_policy_from_row, load_live_policy
from wattqueue.live.files.reading import as_written
from wattqueue.live.predictor import Predictor
from wattqueue.live.recordings.recording import decided, dumps, inputs_of
from wattqueue.live.requests import JobRequest, MeasuredJob
from wattqueue.live.run_times import EndedRun
from wattqueue.live.world import Layout
from wattqueue.model.codec import made
from wattqueue.model.machine import Machine
from wattqueue.policy.decide import PolicySnapshot
from wattqueue.policy.registry import Policy


class Replay:
    """One controller of a recording: its session, and its estimator."""

    def __init__(self, begin: dict[str, Any], policy: Policy | None = None) -> None:
        """Begin as the recorded controller did; ``policy`` replaces the recorded row."""
        machine = machine_of(begin["machine"], "recording")
        chosen = policy or recorded_policy(begin)
        layout = layout_of_units(machine)
        self.decider = Decider(chosen, layout, power_nodes=begin["power_nodes"], timeout_s=0.0)
        self.predictor = Predictor(self.decider.session, layout)
        self.predictor.learn(made(MeasuredJob, one) for one in begin["learned"])
        self.predictor.learn_runs([made(EndedRun, one) for one in begin.get("ended", ())])
        self.predictor.pop_notes()
        self.view: PolicySnapshot | None = None

    def decide(self, data: dict[str, Any]) -> dict[str, Any]:
        """Decide a recorded round again. Raises: InputError for values that are none."""
        inputs = inputs_of(data, self.view)
        self.view = inputs.view
        self.predictor.learn(made(MeasuredJob, one) for one in data.get("learned", ()))
        self.predictor.learn_runs([made(EndedRun, one) for one in data.get("ended", ())])
        self.predictor.predict([made(JobRequest, one) for one in data.get("asked", ())], inputs.view.now_s)
        notes = self.predictor.pop_notes()
        nodes = inputs.view.jobs.nodes
        decision = self.decider.answer(
            inputs.view, inputs.context, lambda row: inputs.ranges.get(row, int(nodes[row])), inputs.late
        )
        return decided(decision, notes)


def recorded_policy(begin: dict[str, Any]) -> Policy:
    """Return the policy that a controller began with.

    Raises: PolicyError for a row whose parts are not here.
    """
    name, row = begin["policy"], begin["row"]
    return (live_policy_from_row(name, row) if row else load_live_policy(name))[0]


def layout_of_units(machine: Machine) -> Layout:
    """Return a layout whose nodes have no names: a recording holds numbers of units."""
    return Layout(machine, tuple(str(unit) for unit in range(machine.units)), {})


def replay(path: Path, policy: Policy | None = None) -> Iterator[tuple[int, str, str]]:
    """Yield (line number, decision as recorded, decision now) for each round, in canonical text.

    ``policy`` replaces the recorded one: a policy with parts of one's own is not in the recording.

    Raises: InputError for a file that is no recording; PolicyError for a policy whose parts are not here.
    """
    session: Replay | None = None
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    with as_written(path, "recorded view"):
                        data = json.loads(line)
                        if "begin" in data:
                            session = Replay(data["begin"], policy)
                            continue
                        if session is None:
                            raise KeyError("begin")
                        recorded = dumps(data["decided"])
                        now = session.decide(data)
                except InputError as error:
                    raise InputError(f"line {number} {error.what}", where=path) from error
                yield number, recorded, dumps(now)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from error
