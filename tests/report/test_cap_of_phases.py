"""A run whose jobs have phases: every output states the cap's figures of the exact power, not of the 20 s means."""

import numpy as np

from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.metrics import metrics
from wattqueue.model.profiles import PowerProfiles
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.report.figures import power
from wattqueue.report.run import About, RunData
from wattqueue.report.run_page import lede, tiles
from wattqueue.sim.engine import simulate
from wattqueue.sim.profiles import with_phases
from wattqueue.whatif.run import run_cap


def test_time_above_the_cap_is_that_of_the_phases_everywhere() -> None:
    """One node draws 100 W and 300 W in turns of 20 s from second 10 on. The series has means from 20 to 40, 40 to 60
    ...: 200 W, below the cap of 250 W. In truth power is above it for half of the time: 40 of 80 s, by 50 W."""
    levels = np.array([100.0, 300.0], np.float32)
    profiles = PowerProfiles(
        np.zeros(1, np.int32), np.zeros(1), np.ones(1), levels, np.array([0, 2]), np.zeros(1, np.int64)
    )
    jobs = Jobs.build([10.0], [1], [80.0], mean_power_w=[200.0], max_power_w=[300.0], profiles=profiles)
    machine = Machine("one", (Partition("p", 1, idle_w=10.0, max_w=400.0),), cap_scope="jobs")
    policy, cap = load_policy("easy+estimator=oracle-mean"), Cap.constant(250.0)
    found, kept = with_phases(simulate(jobs, machine, policy, cap=cap))
    assert kept.cap_over_s == 40.0
    assert found.power.time_s.tolist() == [10.0, 20.0, 40.0, 60.0, 80.0, 90.0]

    figures = metrics(jobs, found.schedule, found.power, machine, cap) | kept._asdict()
    run = RunData.of(jobs, found.schedule, found.power, machine, cap, metrics=figures, about=About())
    assert "exceeded for 40 s" in lede(run)
    assert "40 s" in tiles(run)
    assert "by 50 W at most" in tiles(run)
    says = power.figure(run).says
    assert "for 40 s in all, by at most 50 W" in says
    assert says.endswith("in the curve, of means over at most 20 s, it is 10 s."), "the last one, from 80 s on"

    lower = Cap.constant(150.0)
    figures = metrics(jobs, found.schedule, found.power, machine, lower)
    figures |= kept._replace(cap_overshoot_w=150.0)._asdict()
    low = RunData.of(jobs, found.schedule, found.power, machine, lower, metrics=figures, about=About())
    says = power.figure(low).says
    assert "The excess is that of the jobs' phases" not in says, "the job draws more than this cap on average"
    assert says.endswith("in the curve, of means over at most 20 s, it is 70 s.")

    asked = run_cap(jobs, machine, load_policy("easy+estimator=oracle-mean"), 250.0)
    assert {name: asked.metrics[name] for name in kept._fields} == kept._asdict()
    assert asked.power.over_s.sum() == 40.0
