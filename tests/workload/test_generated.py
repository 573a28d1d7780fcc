"""Generator calls in place of a trace's name: read, bounded, and refused in one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wattqueue.errors import InputError
from wattqueue.workload import fugaku, marconi
from wattqueue.workload.generated import check_call, generate, is_generated, refuse_unknown


@pytest.mark.parametrize("call", ["fugaku:jobs=1e3", "fugaku:jobs=1000", "fugaku:jobs= 1000.0"])
def test_scientific_notation_counts(call: str) -> None:
    jobs = generate(call, np.random.default_rng(1))
    assert np.array_equal(jobs.submit_s, fugaku.generate(np.random.default_rng(1), jobs=1000).submit_s)


def test_options_reach_the_generator() -> None:
    one = generate("marconi:days=1,load=0.5,nodes=2e2", np.random.default_rng(3))
    other = marconi.generate(np.random.default_rng(3), days=1.0, load=0.5, nodes=200)
    assert np.array_equal(one.runtime_s, other.runtime_s)


WRONG = (
    "marconi",
    "marconi:",
    "marconi:jobs=5,days=1",
    "marconi:days",
    "marconi:days=",
    "marconi:days=abc",
    "marconi:days=nan",
    "marconi:days=inf",
    "marconi:days=1e400",
    "marconi:days=-1",
    "marconi:days=0",
    "marconi:days=1e9",
    "marconi:days=9e4,load=900,nodes=16777216",
    "marconi:jobs=10,load=1e-7",
    "marconi:jobs=1e18",
    "marconi:jobs=1e300",
    "marconi:jobs=2.5",
    "marconi:jobs=0",
    "marconi:jobs=-5",
    "marconi:jobs=5,load=0",
    "marconi:jobs=5,users=1e12",
    "marconi:jobs=5,nodes=2147483648",
    "marconi:jobs=5,drift=-1",
    "marconi:jobs=5,spread=1e6",
    "marconi:jobs=5,jobs=6",
    "marconi:jobs=5,rng=1",
    "marconi:jobs=5;days=2",
    "lightesp:divide=0.5",
    "lightesp:accuracy=0",
    "lightesp:load=1e-9",
    "lightesp:first=1.5",
    "lightesp:nodes=0",
    "lightesp:jobs=230",
    "fugaku:days=2",
    "fugaku:jobs=1e18",
    "fugaku:jobs=1_0e1x",
    "fugaku:jobs=10,load=nan",
    "fugaku:jobs=10,users=0",
    "fugaku:jobs=10,nodes=1e-3",
)


@pytest.mark.parametrize("call", WRONG)
def test_wrong_calls_are_refused_before_anything_is_generated(call: str) -> None:
    for refuse in (check_call, lambda text: generate(text, np.random.default_rng(1))):
        with pytest.raises(InputError) as caught:
            refuse(call)
        assert caught.value.where == call
        assert caught.value.hint


def test_a_load_so_low_that_times_overflow_is_refused() -> None:
    call = "marconi:jobs=20000,load=1e-6,nodes=4"
    check_call(call)
    with pytest.raises(InputError) as caught:
        generate(call, np.random.default_rng(1))
    assert caught.value.where == call


OUT_OF_RANGE: list[tuple[Any, dict[str, float]]] = [
    (marconi, {"days": 1e9}),
    (marconi, {"jobs": 10**18}),
    (fugaku, {"jobs": 10**18}),
    (fugaku, {"jobs": 5, "nodes": 2**31}),
]


@pytest.mark.parametrize(("module", "options"), OUT_OF_RANGE)
def test_callers_from_python_meet_the_same_limits(module: Any, options: dict[str, float]) -> None:
    with pytest.raises(InputError):
        module.generate(np.random.default_rng(1), **options)


def test_names_that_look_like_calls_are_refused() -> None:
    assert not is_generated("trace.swf")
    refuse_unknown("trace.swf")
    with pytest.raises(InputError) as caught:
        refuse_unknown("marcony:days=1")
    assert caught.value.where == "marcony:days=1"
