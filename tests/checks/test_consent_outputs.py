"""The check of outputs finds what is done for load targets without consent, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from typer.testing import CliRunner

from tests.sim.test_against_twin import SEEDS, Scripted, random_script, targeted_world
from tests.sim.test_consent_rule import MACHINE, WINDOW, At, jobs_of
from wattqueue.checks.consent import RunOutputs, consent_violations, outputs_of
from wattqueue.cli import _app
from wattqueue.formats.load_target import write_load_targets
from wattqueue.formats.rundir.folder import write_run
from wattqueue.formats.table.job_table import write_table
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Jobs
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.power_sensor import PowerSensor
from wattqueue.model.signals import Cap
from wattqueue.parts.actions import Action, Requeue, Resume, SetFrequency, Suspend
from wattqueue.policy.policy import load_policy
from wattqueue.policy.session import Session
from wattqueue.runs.perform import load, perform
from wattqueue.runs.record import record, recorded_inputs
from wattqueue.runs.task import Task
from wattqueue.sim.engine import Simulation
from wattqueue.sim.truth import NodeEvents, actual_power


def outputs(jobs: Jobs, policy: Any, target: LoadTarget) -> RunOutputs:
    truth = actual_power(jobs, MACHINE)
    simulation = Simulation(jobs, MACHINE, policy, Cap.none(), truth, NodeEvents.none(), targets=LoadTargets.of(target))
    simulation.go()
    done = simulation.result()
    return outputs_of(simulation, done.schedule, done.power, done.checkpointed_s)


def without_consent(run: RunOutputs) -> RunOutputs:
    """The same outputs, had no user consented: what the driver would have refused."""
    n = len(run.jobs)
    return replace(run, jobs=replace(run.jobs, consent=Consent.build(n, allowed=np.zeros(n))))


PLANTED: list[Action] = [SetFrequency("1", 2), Suspend("1"), Requeue("1", 20.0)]


@pytest.mark.parametrize("action", PLANTED)
def test_a_planted_violation_is_found(action: Action) -> None:
    policy = load_policy("easy", frequency=WINDOW, controls=[At({50.0: [action], 400.0: [Resume("1")]})])
    allowed = {"allowed": [1, 1], "checkpoint_s": [10.0, 10.0]}
    run = outputs(jobs_of((0, 1, 100.0), (0, 1, 100.0), **allowed), policy, LoadTarget(50.0, 400.0, 160.0))
    assert consent_violations(run) == []
    assert {one.job for one in consent_violations(without_consent(run))} == {"1"}


def test_a_planted_slow_start_is_found() -> None:
    run = outputs(
        jobs_of((0, 2, 100.0), allowed=[1]), load_policy("easy", frequency=WINDOW), LoadTarget(0.0, 300.0, 160.0)
    )
    assert consent_violations(run) == []
    assert [one.job for one in consent_violations(without_consent(run))] == ["1"]


@example(163056)  # suspended between two targets, while none was known
@given(SEEDS)
def test_random_worlds_have_none(seed: int) -> None:
    world = targeted_world(seed, ramps=seed % 2 == 0)
    script = random_script(seed, world, parking=seed % 3 == 0)
    simulation = world.simulation(controls=(Scripted(script, 7.0),))
    simulation.go()
    done = simulation.result()
    assert consent_violations(outputs_of(simulation, done.schedule, done.power, done.checkpointed_s)) == []


SENSED = replace(MACHINE, sensor=PowerSensor(5.0, 5.0))


@pytest.mark.parametrize("lifts", [True, False])
@pytest.mark.parametrize("start_s", [100.0, 310.0])
def test_a_job_that_runs_under_a_limit_of_a_target_is_found(
    monkeypatch: pytest.MonkeyPatch, lifts: bool, start_s: float
) -> None:
    """Idle devices get an even share of the target, and keep it for some seconds after it."""
    if not lifts:
        monkeypatch.setattr(Session, "lift_limits", lambda *_: None)
    policy = load_policy("easy", controls=[{"part": "rapl-redistribution", "reset": False, "period_s": 70.0}])
    jobs = jobs_of((0, 1, 1.0), (start_s, 1, 100.0), allowed=[0, 0])
    targets = LoadTargets.of(LoadTarget(5.0, 300.0, 180.0))
    truth = actual_power(jobs, SENSED)
    simulation = Simulation(jobs, SENSED, policy, Cap.none(), truth, NodeEvents.none(), targets=targets)
    simulation.go()
    done = simulation.result()
    run = outputs_of(simulation, done.schedule, done.power, done.checkpointed_s)
    assert [one.job for one in consent_violations(run)] == ([] if lifts else ["2"])


def test_the_verb_checks_the_folder_of_a_run(tmp_path: Path) -> None:
    jobs, targets = jobs_of((0, 2, 100.0)), LoadTargets.of(LoadTarget(0.0, 300.0, 160.0))
    table, file = tmp_path / "jobs.csv", tmp_path / "targets.csv"
    write_table(table, jobs)
    write_load_targets(file, targets)
    row = {"frequency": {"part": "frequency-window", "lowest_hz": 1e9}}
    inputs = {}
    for word in ("true", "false"):
        defaults = tmp_path / f"{word}.toml"
        defaults.write_text(f"others = {word}\n", encoding="utf-8")
        task = Task(str(table), nodes=4, node_watts="20:100", policy="easy", targets=str(file), consent=str(defaults))
        inputs[word] = load(task, machine=MACHINE, row={**load_policy("easy").row, **row})
    outcome = perform(inputs["true"])
    write_run(tmp_path / "good", record(outcome))
    write_run(tmp_path / "bad", record(replace(outcome, inputs=inputs["false"])))
    for name, status in (("good", 0), ("bad", 1)):
        words = ["check", str(tmp_path / name)]
        assert CliRunner().invoke(_app.build(words), words).exit_code == status
    # The folder knows the cap without targets: a repeated run has the same starts.
    write_run(tmp_path / "held", record(held := perform(inputs["false"])))
    again = perform(recorded_inputs(tmp_path / "held"))
    assert held.run.schedule.start_s.tolist() == again.run.schedule.start_s.tolist() == [300.0]
