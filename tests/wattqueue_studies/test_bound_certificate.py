"""Certificates: what any prices prove is below every schedule, and is computed exactly."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.wattqueue_studies.bound_twin import certificate_value
from tests.wattqueue_studies.bound_worlds import draw_certificate, draw_problem, ticks_of
from wattqueue.errors import InputError
from wattqueue_studies.bound.certificate import MOST_BITS, Objective, OwnPrices, greatest_cost
from wattqueue_studies.bound.instance import Instance
from wattqueue_studies.bound.makespan import makespan_ticks
from wattqueue_studies.bound.problem import instance_of
from wattqueue_studies.bound.store import TURNAROUND, Proof, proven_again, stored

SEEDS = range(30)


@pytest.mark.parametrize("objective", [Objective(), Objective(ends=False), Objective(energy_rate=3)])
def test_the_value_is_that_of_exact_fractions(objective: Objective) -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        instance = instance_of(draw_problem(rng, jobs=3))
        certificate = draw_certificate(rng, instance, objective=objective)
        assert certificate.value(instance) == certificate_value(certificate, instance, 60) * 64


def test_random_prices_never_exceed_the_optimum() -> None:
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        problem = draw_problem(rng)
        instance, optimum = instance_of(problem), ticks_of(problem).optimum()
        assert optimum is not None
        for _ in range(4):
            certificate = draw_certificate(rng, instance)
            assert certificate.ticks(instance) <= optimum
            starts = replace(certificate, objective=Objective(ends=False))
            assert starts.ticks(instance) <= (ticks_of(problem, pays_ends=False).optimum() or 0)


def test_own_prices_of_nothing_are_left_out_and_prove_the_same() -> None:
    fewer = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        instance = instance_of(draw_problem(rng))
        certificate = draw_certificate(rng, instance)
        value = certificate.own.value * (rng.random(len(certificate.own.value)) < 0.4)
        own = replace(certificate.own, value=value)
        found = own.trimmed()
        assert replace(certificate, own=found).value(instance) == replace(certificate, own=own).value(instance)
        assert (np.diff(found.first) >= 0).all()
        assert (found.value > 0).sum() == (value > 0).sum()
        fewer += len(found.value) < len(value)
    assert fewer > 0


def test_a_bound_for_admission_is_below_every_admitted_schedule() -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        problem = draw_problem(rng, jobs=3, capped=True)
        strict, wide = instance_of(problem), instance_of(problem.for_admission())
        optimum = ticks_of(problem).optimum_of_admission(12)
        assert optimum is not None
        for _ in range(6):
            certificate = draw_certificate(rng, wide)
            assert certificate.ticks(wide) <= optimum
        assert makespan_ticks(wide) <= makespan_ticks(strict)


def test_more_to_use_or_a_job_less_never_raises_the_sum_at_fixed_prices() -> None:
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        problem = draw_problem(rng)
        instance = instance_of(problem)
        certificate = draw_certificate(rng, instance)
        value = certificate.value(instance)
        wider = instance_of(replace(problem, units=problem.units + 1))  # jobs start sooner, too
        assert (wider.release <= instance.release).all()
        assert certificate.value(wider) <= value
        for i in range(len(instance.free)):
            more = instance.free.copy()
            more[i] += int(rng.integers(1, 4))
            assert certificate.value(replace(instance, free=more)) <= value
        plain = replace(certificate, own=OwnPrices.none(len(instance)))
        fewer = replace(certificate, own=OwnPrices.none(len(instance) - 1))
        assert fewer.value(without_job(instance, int(rng.integers(len(instance))))) <= plain.value(instance)


def without_job(instance: Instance, job: int) -> Instance:
    rows = instance.job != job
    first = np.append(0, np.cumsum(np.delete(np.diff(instance.first), job)))
    columns: dict[str, Any] = {name: getattr(instance, name)[rows] for name in ("run", "amount", "energy_mj")}
    columns |= {name: np.delete(getattr(instance, name), job) for name in ("release", "release_up")}
    return replace(instance, first=first, **columns)


def test_doubling_all_times_doubles_the_bound() -> None:
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        instance = instance_of(draw_problem(rng))
        certificate = draw_certificate(rng, instance)
        twice = {name: 2 * getattr(instance, name) for name in ("release", "release_up", "run", "time")}
        doubled = replace(instance, **twice)
        assert replace(certificate, edge=2 * certificate.edge).value(doubled) == 2 * certificate.value(instance)
        assert makespan_ticks(doubled) in {2 * makespan_ticks(instance), 2 * makespan_ticks(instance) - 1}


def test_no_schedule_ends_before_the_makespan_bound() -> None:
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        problem = draw_problem(rng)
        world = ticks_of(problem)
        for _ in range(10):
            found = world.list_schedule(rng.permutation(len(problem.jobs)).tolist())
            assert found is not None
            ends = [start + world.options[job][option][0] for job, (start, option) in enumerate(found)]
            assert makespan_ticks(instance_of(problem)) <= max(ends)


@pytest.fixture
def proof() -> Proof:
    rng = np.random.default_rng(3)
    instance = instance_of(draw_problem(rng))
    return Proof({"begin_s": 0.0, "jobs": 4}, "strict", instance, {TURNAROUND: draw_certificate(rng, instance)})


def content(proof: Proof) -> Any:
    """What a file holds: plain values that JSON carries."""
    return json.loads(json.dumps(stored([proof])))


def test_a_stored_proof_is_proven_again(proof: Proof) -> None:
    (again,) = proven_again(content(proof), "file")
    assert again.instance.digest() == proof.instance.digest()
    assert again.figures() == proof.figures()


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Places of all whole numbers in nested values."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [place for key, each in items for place in leaves(each, (*path, key))]
    return [path] if isinstance(value, int) and not isinstance(value, bool) else []


def test_a_changed_number_is_refused_or_proves_the_same(proof: Proof) -> None:
    """Each number of the instance and of what is proven; a price may be changed where nothing of it is bought."""
    whole = content(proof)
    for place in leaves(whole["proofs"][0]):
        changed = content(proof)
        target = changed["proofs"][0]
        for key in place[:-1]:
            target = target[key]
        target[place[-1]] += 1
        try:
            (again,) = proven_again(changed, "file")
        except InputError:
            continue
        assert place[0] in ("certificates", "window")
        assert place[-1] != "value"
        assert again.figures() | {"jobs": 4} == proof.figures()


@pytest.mark.parametrize("value", [None, [], {}, {"format": "wattqueue-bound-2"}, {"format": "other", "proofs": []}])
def test_a_file_of_something_else_is_refused(value: Any) -> None:
    with pytest.raises(InputError) as caught:
        proven_again(value, "file")
    assert caught.value.where == "file"


@pytest.mark.parametrize(
    "change",
    [
        {"price": []},
        {"price": [[0.5]]},
        {"edge": [0, 3, 2]},
        {"shift": 70},
        {"own": {}},
        {"objective": {"odd": 1}},
        {"edge": None},
    ],
)
def test_a_certificate_of_other_form_is_refused(proof: Proof, change: dict[str, Any]) -> None:
    changed = content(proof)
    changed["proofs"][0]["certificates"][TURNAROUND] |= change
    with pytest.raises(InputError) as caught:
        proven_again(changed, "file")
    assert caught.value.where in ("file", "certificate")


def test_prices_that_are_negative_or_too_great_are_refused(proof: Proof) -> None:
    instance, certificate = proof.instance, proof.certificates[TURNAROUND]
    for price in (certificate.price - 1, certificate.price + (1 << 59)):
        changed = replace(certificate, price=price)
        assert price.min() < 0 or greatest_cost(changed, instance) >= 1 << MOST_BITS
        with pytest.raises(InputError):
            changed.value(instance)
