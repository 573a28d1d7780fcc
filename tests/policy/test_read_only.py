"""What a part is shown cannot be written to, and stays valid when the driver's buffers move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.checks.test_other_axes import FirstFit
from wattqueue.checks.in_a_run import policy_with
from wattqueue.checks.samples import sample_jobs, sample_machine
from wattqueue.kernels.arrays import lengthened
from wattqueue.kernels.fresh import new_held
from wattqueue.kernels.state import Scalars
from wattqueue.parts.contracts import Start
from wattqueue.policy.state_view import own_kernel, read_only, read_only_tuple
from wattqueue.policy.view import View
from wattqueue.sim.engine import simulate


def arrays_of(value: Any) -> list[np.ndarray[Any, Any]]:
    if isinstance(value, Scalars):
        return [value.data]
    if isinstance(value, np.ndarray):
        return [value]
    return [array for member in value for array in arrays_of(member)] if isinstance(value, tuple) else []


class Looks(FirstFit):
    """Keeps what it was shown at its first call."""

    seen: View | None = None

    def schedule(self, view: View) -> Sequence[Start]:
        if self.seen is None:
            self.seen = view
            shown, own = arrays_of(view.kernel), arrays_of(own_kernel(view))
            assert len(shown) == len(own) > 50
            assert all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(shown, own, strict=True))
            for array in (*shown, view.free, view.expected_end_s, view.unit_state):
                with pytest.raises(ValueError, match="WRITEABLE"):
                    array.flags.writeable = True
        return super().schedule(view)


def test_no_array_of_a_view_can_be_written_to() -> None:
    part = Looks()
    simulate(sample_jobs(20), sample_machine(), policy_with("backfill", part))
    assert part.seen is not None


def test_a_read_only_array_shows_what_the_driver_writes() -> None:
    own = np.zeros(3)
    shown = read_only(own)
    own[1] = 2.0
    assert shown.tolist() == [0.0, 2.0, 0.0]
    with pytest.raises(ValueError, match="read-only"):
        shown[0] = 1.0


def test_a_tuple_keeps_its_class() -> None:
    held = new_held(3, 4)
    assert type(read_only_tuple(held)) is type(held)


def test_columns_that_a_part_was_shown_stay_where_they_are() -> None:
    held = new_held(3, 4)
    held.low[:] = 7
    shown = read_only_tuple(held)
    longer = lengthened(held, 1_000_000, "low", "high", in_place=False)
    assert longer.low[:4].tolist() == shown.low.tolist() == [7] * 4
    assert len(longer.low) == 1_000_004
    assert longer.low is not held.low
