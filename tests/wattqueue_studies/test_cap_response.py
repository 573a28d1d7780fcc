"""Watts and speed against frequency and cap: known curves are found again, and measured ones on the other half."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from wattqueue.errors import InputError
from wattqueue_studies.epas.cap_response import (
    CappedRuns,
    CapResponse,
    errors_on_other_half,
    fit_cap_response,
    read_capped_runs,
)

KNOWN = CapResponse(2e9, 20.0, 80.0, 2.0, 1.0, 3.0, 1.5, 0.95)


def runs_of(curve: CapResponse, cap_w: float = 1e3) -> CappedRuns:
    hz = np.array([1.0, 1.2, 1.5, 1.8, 2.0]) * 1e9
    cap = np.full(len(hz), cap_w)
    power, time_s = curve.under_cap(hz, cap)
    return CappedRuns(np.full(len(hz), "known"), cap, hz, curve.frequency_under(hz, cap), power, time_s)


def test_a_known_curve_is_found_again() -> None:
    found = fit_cap_response(runs_of(KNOWN))
    assert found.cap_share == 1.0
    np.testing.assert_allclose([found.power_exponent, found.time_exponent], [2.0, 1.5])
    np.testing.assert_allclose([found.fixed_w, found.scaled_w], [20.0, 80.0], rtol=1e-3)
    np.testing.assert_allclose([found.fixed_s, found.scaled_s], [1.0, 3.0], rtol=1e-3)


def test_a_cap_below_the_draw_slows_down() -> None:
    """95 % of 80 W is 76 W: 20 + 80 x**2 = 76 at x = 0.837."""
    power, time_s = KNOWN.under_cap(np.array([2e9, 2e9, 1e9]), np.array([80.0, 200.0, 80.0]))
    x = 0.7**0.5
    np.testing.assert_allclose(power, [76.0, 100.0, 40.0])
    np.testing.assert_allclose(time_s, [1.0 + 3.0 * x**-1.5, 4.0, 1.0 + 3.0 * 2**1.5])
    assert KNOWN.frequency_under(np.array([2e9]), np.array([5.0]))[0] == 2e8
    assert fit_cap_response(runs_of(KNOWN, 80.0)).cap_share == pytest.approx(0.95)


def test_too_few_runs_and_flat_ones_are_refused() -> None:
    with pytest.raises(InputError):
        fit_cap_response(runs_of(KNOWN).take(slice(0, 3)))
    flat = runs_of(KNOWN)
    flat.power_w[:] = 50.0
    with pytest.raises(InputError):
        fit_cap_response(flat)


def test_half_of_the_measured_runs_predict_the_other_half(data_dir: Path) -> None:
    runs = read_capped_runs(data_dir / "power/gridpilot_v100_parsed_results.csv")
    assert len(runs) == 36
    curves, errors = errors_on_other_half(runs)
    assert sorted(curves) == ["bursty_alternating", "inference_memory_bound", "matmul_compute_bound"]
    assert sum(e.runs for e in errors) == 18
    assert sum(e.runs for e in errors if e.cap) == 3
    assert max(e.watts_mean for e in errors) < 3.0
    assert max(e.watts_most for e in errors) < 8.0
    assert max(e.time_most for e in errors) < 2.0


@pytest.mark.parametrize("row", ["a,0,945,945,100,60", "a,150,945,945,,60", ",150,945,945,100,60"])
def test_a_row_that_cannot_be_used_is_refused(tmp_path: Path, row: str) -> None:
    path = tmp_path / "runs.csv"
    head = "workload,pcap_w,sm_target_mhz,sm_mean_mhz,power_mean_w,iters_per_s"
    path.write_text(f"{head}\na,150,945,945,100,60\n{row}\n")
    with pytest.raises(InputError) as refused:
        read_capped_runs(path)
    assert str(refused.value.where).endswith("runs.csv:3")
