"""Compile the kernels of actions and of control steps, before several workers want them: ``python -m tests.warm``.

``wattqueue.sim.warm`` compiles what the stock policies call; this takes as long once more.
"""

from __future__ import annotations

from tests.sim.test_against_twin import Scripted, random_script
from tests.sim.test_control_step import expect_equal_forms
from tests.sim.workloads import random_world

if __name__ == "__main__":
    for seed in range(4):
        world = random_world(seed)
        world.simulation(controls=(Scripted(random_script(seed, world, parking=True), 7.0),)).go()
    expect_equal_forms(1)
