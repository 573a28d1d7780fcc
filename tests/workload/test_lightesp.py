"""LightESP: 230 jobs of 14 classes on a machine of any size, and the applications that they run."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from wattqueue.formats.machine.file import load_machine
from wattqueue.model.machine import Machine
from wattqueue.workload.generated import generate as by_call
from wattqueue.workload.lightesp import (
    APPS,
    BULL_HZ,
    CLASSES,
    LULESH,
    MONTBLANC_HZ,
    exponent_that_admits,
    generate,
    time_by_option,
    watts_by_option,
)

WINDOWS = {"bull": BULL_HZ, "montblanc": MONTBLANC_HZ}


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def paper_machine(name: str, idle_share: float = 0.3) -> Machine:
    machine = load_machine(name)
    part = machine.partitions[0]
    return replace(machine, partitions=(replace(part, idle_w=idle_share * (part.max_w or 0.0)),))


@pytest.mark.parametrize("nodes", [1, 26, 520, 10_000])
def test_230_jobs_of_14_classes_fit_any_machine(nodes: int) -> None:
    jobs = generate(rng(), nodes=nodes)
    assert len(jobs) == 230
    assert jobs.nodes.min() >= 1
    assert jobs.nodes.max() == nodes
    counts = dict(zip(*np.unique(jobs.extra["esp_class"], return_counts=True), strict=True))
    assert counts == {c.name: c.jobs for c in CLASSES}
    for c in CLASSES:
        own = jobs.extra["esp_class"] == c.name
        assert len(set(jobs.nodes[own])) == len(set(jobs.runtime_s[own])) == 1
    assert np.bincount(jobs.app.codes).max() - np.bincount(jobs.app.codes).min() <= 1


def test_both_readings_of_the_run_times() -> None:
    light, esp = generate(rng(), nodes=520), by_call("lightesp:nodes=520,divide=1", rng())
    np.testing.assert_allclose(esp.runtime_s, 12 * light.runtime_s)
    np.testing.assert_array_equal(esp.nodes, light.nodes)
    # An ideal scheduler needs a quarter of an hour for the light version.
    assert float(light.nodes @ light.runtime_s) / 520 == pytest.approx(900, rel=0.05)


def test_two_jobs_take_the_whole_machine_after_a_third_and_two_thirds() -> None:
    jobs = generate(rng(), nodes=520)
    assert np.flatnonzero(jobs.nodes == 520).tolist() == [76, 153]
    assert set(jobs.extra["esp_class"][jobs.nodes == 520]) == {"Z"}
    assert (jobs.submit_s[:50] == 0).all()
    gaps = np.diff(jobs.submit_s[49:])
    np.testing.assert_allclose(gaps, gaps[0])
    assert float(jobs.nodes @ jobs.runtime_s) / (520 * jobs.submit_s[-1]) == pytest.approx(2.0)


def test_seeds_differ_in_order_and_application() -> None:
    first, second = generate(rng(1)), generate(rng(2))
    assert (first.nodes != second.nodes).any()
    assert (generate(rng(1)).nodes == first.nodes).all()


@pytest.mark.parametrize("name", ["bull", "montblanc"])
def test_lulesh_draws_the_most_and_every_frequency_is_a_pareto_point(name: str) -> None:
    machine = paper_machine(name)
    hz = machine.option_frequency_hz
    assert (hz.min(), hz.max()) == WINDOWS[name]
    watts = {app.name: watts_by_option(machine, app) for app in APPS}
    for app in APPS:
        assert (np.diff(watts[app.name]) < 0).all()
        assert (np.diff(time_by_option(machine, app)) > 0).all()
        assert (watts[app.name] <= watts["lulesh"]).all()
    assert watts["lulesh"][0] == machine.partitions[0].max_w


def test_the_curve_that_lets_a_job_on_the_whole_machine_in() -> None:
    """On bull the cap is 4,200 of 5,200 W; at 2.2 of 2.8 GHz alpha = 2 lets it in with up to 49 % idle watts."""
    low = BULL_HZ[0] / BULL_HZ[1]
    assert exponent_that_admits(4200 / 5200, 0.0, low) == pytest.approx(0.886, abs=1e-3)
    assert exponent_that_admits(4200 / 5200, 0.49, low) < LULESH.alpha < exponent_that_admits(4200 / 5200, 0.5, low)
    assert exponent_that_admits(1.0, 0.3, low) == 0.0
    assert math.isinf(exponent_that_admits(0.8, 0.8, low))
    for idle, admitted in ((0.45, True), (0.55, False)):
        machine = paper_machine("bull", idle)
        needed = watts_by_option(machine, LULESH)[-1] * machine.units
        assert (needed <= 4200) == admitted
