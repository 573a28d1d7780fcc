"""Events, counts and activity ratios: wrapping counters, Table 1 by hand, processes alike."""

from __future__ import annotations

import numpy as np
import pytest

from wattqueue.errors import InputError
from wattqueue_studies.pmc.activity import ActivityTrace, activity_ratios, alike, merged
from wattqueue_studies.pmc.events import COMPONENTS, microarchitecture, microarchitectures, plain
from wattqueue_studies.pmc.readings import CounterTrace, increments

TABLE_1 = {
    "CPU_CLK_UNHALTED.THREAD_P": 100.0,
    "UOPS_RETIRED.ALL": 200.0,
    "BR_INST_RETIRED.ALL_BRANCHES": 10.0,
    "UOPS_DISPATCHED.PORT_0": 20.0,
    "UOPS_DISPATCHED.PORT_1": 30.0,
    "UOPS_DISPATCHED.PORT_5": 50.0,
    "FP_COMP_OPS_EXE.X87": 40.0,
    "L1D_ALL.REF": 80.0,
    "L2_RQSTS.ALL_RFO": 2.0,
    "L2_RQSTS.ALL_DEMAND_DATA_RD": 3.0,
    "LLC.References": 1.0,
    "LLC.Misses": 0.5,
}
"""Counts of one interval under the names that Table 1 prints."""
BROADWELL = microarchitecture("broadwell")


def counted(counts: dict[str, float], intervals: int = 1) -> CounterTrace:
    return CounterTrace(np.arange(1.0, intervals + 1), {e: np.full(intervals, c) for e, c in counts.items()})


def test_the_ratios_of_table_1_by_hand() -> None:
    got = activity_ratios(counted(TABLE_1), np.array([12.0]), BROADWELL)
    np.testing.assert_allclose(got.mean, [12.0, 2.0, 0.1, 1.0, 0.4, 0.8, 0.05, 0.01, 0.005])


def test_names_of_perf_are_the_same_events() -> None:
    perf = {
        "cycles:u": 100.0,
        "cpu/uops_retired.all/u": 200.0,
        "branches": 10.0,
        "uops_executed_port.port_0": 20.0,
        "uops_executed_port.port_1": 30.0,
        "uops_executed_port.port_5": 50.0,
        "fp_arith_inst_retired.scalar": 40.0,
        "mem_uops_retired.all_loads": 80.0,
        "l2_rqsts.all_rfo": 2.0,
        "l2_rqsts.all_demand_data_rd": 3.0,
        "LLC-references": 1.0,
        "LLC-misses": 0.5,
    }
    cores = np.array([12.0])
    np.testing.assert_array_equal(
        activity_ratios(counted(perf), cores, BROADWELL).level,
        activity_ratios(counted(TABLE_1), cores, BROADWELL).level,
    )
    assert plain("power/energy-pkg/") == "energy-pkg"


def test_every_microarchitecture_has_every_component() -> None:
    assert {"broadwell", "skylake"} <= set(microarchitectures())
    for each in microarchitectures().values():
        assert tuple(each.components) == COMPONENTS
        assert all(term for terms in each.components.values() for term in terms)


def test_a_missing_event_and_an_unknown_microarchitecture_are_named() -> None:
    fewer = {e: c for e, c in TABLE_1.items() if e != "LLC.Misses"}
    with pytest.raises(InputError) as caught:
        activity_ratios(counted(fewer), np.array([12.0]), BROADWELL)
    assert "LLC.Misses" in str(caught.value)
    with pytest.raises(InputError) as caught:
        microarchitecture("pentium")
    assert "broadwell" in str(caught.value.hint)


def test_intervals_without_a_count_or_a_cycle_are_left_out() -> None:
    trace = counted(TABLE_1, 4)
    trace.counts["LLC.Misses"][1] = np.nan
    trace.counts["CPU_CLK_UNHALTED.THREAD_P"][2] = 0.0
    got = activity_ratios(trace, np.full(4, 12.0), BROADWELL)
    assert (got.time_s.tolist(), got.dropped) == ([1.0, 4.0], 2)
    trace.counts["LLC.Misses"][:] = np.nan
    with pytest.raises(InputError) as caught:
        activity_ratios(trace, np.full(4, 12.0), BROADWELL, "md5")
    assert caught.value.where == "md5"
    with pytest.raises(InputError):
        activity_ratios(counted(TABLE_1), np.full(2, 12.0), BROADWELL)


def test_a_counter_that_wraps_goes_on_counting() -> None:
    top = 2**48
    assert increments(np.array([top - 5, 7, 100])).tolist() == [12.0, 93.0]
    assert increments(np.array([2**32 - 1, 0]), bits=32).tolist() == [1.0]


def test_a_counter_that_was_set_back_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        increments(np.array([1_000, 2_000, 50]), where="f.csv")
    assert caught.value.where == "f.csv"
    with pytest.raises(InputError):
        increments(np.array([0, 2**48]))
    with pytest.raises(InputError):
        increments(np.array([-1, 0]))


def test_levels_must_be_figures() -> None:
    for level in (np.full((1, 9), -1.0), np.full((1, 9), np.nan), np.zeros((0, 9)), np.zeros((1, 8))):
        with pytest.raises(InputError):
            ActivityTrace("x", np.zeros(len(level)), level)


def test_processes_alike_share_one() -> None:
    base = np.linspace(1.0, 2.0, 9)
    means = np.stack([base, base * 1.01, base * 1.5, base * 1.49, base * 0.99])
    assert alike(means).tolist() == [0, 0, 2, 2, 0]
    traces = [ActivityTrace("bt", np.array([1.0]), row[None], k) for k, row in enumerate(means)]
    distinct, group = merged(traces)
    assert [t.process for t in distinct] == [0, 2]
    assert group.tolist() == [0, 0, 1, 1, 0]
