"""Tables of unit factors: what they refer to, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from wattqueue.errors import InputError
from wattqueue.model.unit_table import UnitTable

TABLE = UnitTable.of_watts(["a", "b"], ["u", "v", "w"], np.array([[90.0, 110.0, 100.0], [50.0, 70.0, np.nan]]))


def test_factors_refer_to_the_mean_of_the_measured_units() -> None:
    np.testing.assert_allclose(TABLE.base_w, [100.0, 60.0])
    np.testing.assert_allclose(TABLE.factor, [[0.9, 1.1, 1.0], [50 / 60, 70 / 60, np.nan]])


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
