"""Physics from files against a naive reading of the same figures, and the runs that follow, on random worlds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.physics import Files, NaivePhysics
from tests.sim.invariants import check_invariants
from tests.sim.test_against_twin import Scripted, expect_same, random_script
from tests.sim.workloads import World, random_world
from wattqueue.model.jobs import Labels
from wattqueue.parts.contracts import Prediction
from wattqueue.runs.physics import physics_of
from wattqueue.runs.task import Task
from wattqueue.sim.engine import simulate
from wattqueue.sim.physics import true_figures

SEEDS = st.integers(0, 2**32 - 1)
APPS = ("cg", "ft", "lu", "mg")


def drawn_world(seed: int) -> tuple[World, Files]:
    """A random world whose jobs have applications and references, and what files say of it.

    Of the applications some have cells, some figures by unit, some both, and some neither.
    """
    rng = np.random.default_rng((seed, 21))
    world = random_world(seed, failures=seed % 3 == 0)
    roomy = tuple(replace(p, max_w=None if rng.random() < 0.2 else 6e4) for p in world.machine.partitions)
    machine = replace(world.machine, partitions=roomy)
    n, names = len(world.jobs), [p.name for p in roomy]
    watts = np.round(rng.uniform(20.0, 300.0, n), 3)
    watts[rng.random(n) < 0.2] = np.nan
    ran, hz = np.full(n, "", object), np.full(n, np.nan)
    for job in range(n):
        if rng.random() < 0.6:
            part = roomy[int(rng.integers(len(roomy)))]
            ran[job] = part.name
            if part.frequencies_hz and rng.random() < 0.5:
                hz[job] = rng.choice(part.frequencies_hz)
    user = rng.choice(["", "elsewhere", *names], n) if rng.random() < 0.3 else np.full(n, "")
    stated = roomy[int(rng.integers(len(roomy)))]
    files = Files(reference=stated.name)
    if stated.frequencies_hz and rng.random() < 0.3:
        files.reference_hz = float(rng.choice(stated.frequencies_hz))
    codes = rng.integers(-1, len(APPS), n).astype(np.int32)
    own = {"ran_partition": ran, "ran_frequency_hz": hz} if rng.random() < 0.7 else {}
    jobs = replace(world.jobs, app=Labels(codes, APPS), mean_power_w=watts, extra=own, partition=Labels.of(user))
    world = replace(world, jobs=jobs, machine=machine)
    draw_figures(rng, world, files)
    return world, files


def draw_figures(rng: np.random.Generator, world: World, files: Files) -> None:
    """Fill in cells and figures by unit; every reference that a job has is among the cells of its application."""
    naive = NaivePhysics(files, world.jobs, world.machine)
    for app in APPS[: int(rng.integers(1, len(APPS)))]:
        by_unit, by_cell = rng.random() < 0.4, rng.random() < 0.7
        if by_cell or not by_unit:
            jobs = [j for j in range(len(world.jobs)) if naive.app(j) == app]
            needed = {naive.reference(job) for job in jobs} | {naive.options[0]}
            for part, hz in naive.options:
                if (part, hz) in needed or rng.random() < 0.5:
                    files.watts[app, part, hz] = float(np.round(rng.uniform(30.0, 300.0), 3))
                    files.seconds[app, part, hz] = float(np.round(rng.uniform(5.0, 20.0), 3))
        if by_unit:
            for unit in range(world.machine.units):
                files.unit_watts[app, unit] = float(np.round(rng.uniform(50.0, 150.0), 3))
                files.unit_seconds[app, unit] = float(np.round(rng.uniform(8.0, 12.0), 3))
    for app in APPS:
        for own in world.machine.partitions:
            if rng.random() < 0.4:
                watts = own.idle_w + np.cumsum(rng.uniform(1.0, 60.0, int(rng.integers(2, 5))))
                slower = np.sort(rng.uniform(1.0, 4.0, len(watts)))[::-1]
                rows = [(float(w) + 1.0, float(w), float(t)) for w, t in zip(watts, slower, strict=True)]
                files.limits[app, own.name] = [rows[k] for k in rng.permutation(len(rows))]


def written(files: Files, folder: Path, timed: bool) -> str:
    """Write physics.toml and its tables; return its name. ``timed``: with the run times by unit."""
    keys = f'reference = "{files.reference}"\n'
    keys += f"reference_hz = {files.reference_hz}\n" if files.reference_hz else ""
    if files.watts:
        rows = [f"{a},{p},{hz or ''},{w},{files.seconds[a, p, hz]}" for (a, p, hz), w in files.watts.items()]
        (folder / "cells.csv").write_text("\n".join(["app,partition,frequency_hz,watts,time_s", *rows]) + "\n")
        keys += 'table = "cells.csv"\n'
    if files.unit_watts:
        more = {key: f",{seconds}" for key, seconds in files.unit_seconds.items()}
        rows = [f"{a},u{u},{w}{more.get((a, u), '')}" for (a, u), w in files.unit_watts.items()]
        (folder / "units.csv").write_text("\n".join(["app,unit,watts" + ",time_s" * timed, *rows]) + "\n")
        keys += 'units = "units.csv"\n'
    if files.limits:
        rows = [f"{a},{p},{limit},{w},{s}" for (a, p), points in files.limits.items() for limit, w, s in points]
        (folder / "limits.csv").write_text("\n".join(["app,partition,limit_w,watts,time_s", *rows]) + "\n")
        keys += 'limits = "limits.csv"\n'
    (folder / "physics.toml").write_text(keys)
    return str(folder / "physics.toml")


def expect_twin(seed: int) -> None:
    world, files = drawn_world(seed)
    timed = seed % 2 == 0
    if not timed:
        files.unit_seconds.clear()
    with TemporaryDirectory() as folder:
        physics = physics_of(Task("", physics=written(files, Path(folder), timed)), world.machine)
    assert physics is not None
    found, naive = (
        true_figures(physics, world.jobs, world.machine).actual,
        NaivePhysics(files, world.jobs, world.machine),
    )
    jobs, options, units = range(len(world.jobs)), range(len(naive.options)), range(world.machine.units)
    watts, slower = (
        np.array([[of(job, option) for option in options] for job in jobs]) for of in (naive.watts, naive.slower)
    )
    np.testing.assert_allclose(found.power_w, watts, rtol=1e-12)
    np.testing.assert_allclose(found.time_factor, slower, rtol=1e-12)
    for factor, what in ((found.unit_factor, "watts"), (found.unit_time_factor, "seconds")):
        own = np.array([[naive.on_unit(app, unit, what) for unit in units] for app in APPS])
        np.testing.assert_allclose(np.ones_like(own) if factor is None else factor, own, rtol=1e-12)
    # Equal to the last bits: the twin of the simulator gets the same ones, so that ends that meet still do.
    truth = Prediction(found.power_w, found.time_factor, None, {}, found.unit_factor, found.unit_time_factor)
    script = random_script(seed, world) if seed % 4 < 2 else None
    policy = world.policy(**({"controls": (Scripted(script, 7.0),)} if script else {}))
    run = simulate(world.jobs, world.machine, policy, cap=world.cap, actual=physics, events=world.events)
    same = replace(world, actual=truth)
    curve = naive.slower_under_limits
    twin = same.twin(same.simulation().truth.reject, script=script, period=7.0, slower_under_limits=curve)
    expect_same(run, twin)
    check_invariants(run)
    assert sum(count for text, count in run.sources.items() if "watts and times by" in text) == int(
        run.schedule.ran.sum()
    )


@given(SEEDS)
def test_files_say_what_the_twin_reads_in_them(seed: int) -> None:
    expect_twin(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_2000_worlds(block: int) -> None:
    for seed in range(100 * block, 100 * (block + 1)):
        expect_twin(seed)
