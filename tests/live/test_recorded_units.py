"""Recordings keep factors of units and ranks of placement: the same pass starts the same jobs on the same units."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from wattqueue.errors import PolicyError
from wattqueue.live.decision import require_live
from wattqueue.live.recordings.recording import decode, dumps, encode
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.unit_table import UnitTable
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.parts.estimator.unit_watts import UnitWatts
from wattqueue.parts.placement.benchmark import Benchmark
from wattqueue.policy.build import PassSettings
from wattqueue.policy.consent_windows import Window
from wattqueue.policy.decide import PolicySnapshot, RunningJobs, decide
from wattqueue.policy.policy import load_policy

MACHINE = Machine("three", (Partition("p", 3, max_w=200.0),), "jobs")
TABLE = UnitTable.of_watts(["cg"], ["0", "1", "2"], np.array([[90.0, 60.0, 75.0]]))


def snapshot() -> PolicySnapshot:
    jobs = replace(Jobs.build([0.0], [2], [10.0]), app=Labels(np.zeros(1, np.int32), ("cg",)))
    none, one = np.zeros(0, np.int32), np.zeros(1, np.int32)
    running = RunningJobs(
        none, none.astype(np.int16), np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64), none, none, none
    )
    factor = np.array([[1.2, 0.8, 1.0]])
    prediction = Prediction(np.full((1, 1), 75.0), np.ones((1, 1)), np.zeros(1, np.int32), unit_factor=factor)
    settings = PassSettings(2, 0, "jobs")
    entries = Entries(one, one, np.zeros(1))
    return PolicySnapshot(
        5.0,
        KnownJobs.of(jobs),
        MACHINE,
        prediction,
        entries,
        Window(one, one),
        settings,
        running,
        cap_w=140.0,
        rank=factor,
    )


def test_a_recorded_view_starts_the_same_jobs_on_the_same_units() -> None:
    view = snapshot()
    data = json.loads(dumps(encode(view)))
    starts = decide(decode(data, view.now_s))
    assert starts == decide(view)
    assert [start.nodes for start in starts] == [(1, 2)]


def test_a_recording_without_these_columns_is_read() -> None:
    data = json.loads(dumps(encode(replace(snapshot(), rank=None, cap_w=np.inf))))
    del data["rank"], data["unit_factor"]
    assert [start.nodes for start in decide(decode(data, 5.0))] == [(0, 1)]


@pytest.mark.parametrize("name", ["slurm-vtp", "slurm-vtp+placement=lowest"])
def test_live_drives_a_policy_of_units_that_differ_where_it_may_name_nodes(name: str) -> None:
    policy = load_policy(name, estimator=UnitWatts(table=TABLE))
    assert require_live(policy, MACHINE).online is None
    with pytest.raises(PolicyError):
        require_live(policy, MACHINE, names_nodes=False)


def test_live_drives_a_ranked_placement_where_it_may_name_nodes() -> None:
    policy = load_policy("easy", placement=Benchmark(table=TABLE, app="cg"))
    assert require_live(policy, MACHINE).online is None
    with pytest.raises(PolicyError):
        require_live(policy, MACHINE, names_nodes=False)


def test_live_takes_one_profiled_unit_for_all() -> None:
    policy = load_policy("slurm-vtp", estimator=UnitWatts(table=TABLE, profile_unit=1), placement="lowest")
    needs = require_live(policy, MACHINE)
    assert needs.online is None
