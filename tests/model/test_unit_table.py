"""Tables of unit factors: what is missing, what falls back, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from wattqueue.errors import InputError
from wattqueue.model.unit_table import UnitTable

TABLE = UnitTable.of_watts(["a", "b"], ["u", "v", "w"], np.array([[90.0, 110.0, 100.0], [50.0, 70.0, np.nan]]))


def test_a_missing_chip_is_an_error() -> None:
    assert TABLE.on(["w", "u"]).factor[0].tolist() == [1.0, 0.9]
    with pytest.raises(InputError) as caught:
        TABLE.on(["u", "x", "y"])
    assert "unit x and 1 others" in caught.value.what


def test_an_application_never_profiled_gets_the_worst_factor_and_is_counted() -> None:
    found, unknown = TABLE.for_apps(["b", "new"])
    worst = 70.0 / 60.0
    assert unknown == 1
    np.testing.assert_allclose(found, [[50 / 60, worst, worst], [worst] * 3])


@pytest.mark.parametrize("factor", [0.0, -0.1, np.inf])
def test_factors_that_are_no_factors_are_refused(factor: float) -> None:
    with pytest.raises(InputError) as caught:
        UnitTable(("a",), ("u", "v"), np.ones(1), np.array([[1.0, factor]]))
    assert "a on v" in str(caught.value.where)


def test_tables_that_contradict_themselves_are_refused() -> None:
    for apps, units, factor in (
        (("a", "a"), ("u",), np.ones((2, 1))),
        (("a",), ("u", "u"), np.ones((1, 2))),
        (("a",), ("u",), np.ones((1, 2))),
    ):
        with pytest.raises(InputError):
            UnitTable(apps, units, np.ones(len(apps)), factor)
    with pytest.raises(InputError):
        UnitTable.of_watts(["a"], ["u"], np.array([[np.nan]]))
    assert TABLE.complete.units == ("u", "v")
