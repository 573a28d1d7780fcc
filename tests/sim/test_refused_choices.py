"""Choices that the contracts allow and no kernel carries out are refused, never ignored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wattqueue.errors import PolicyError
from wattqueue.kernels import codes
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import plain_machine
from wattqueue.parts.ledger.predicted import Predicted
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate

JOBS = Jobs.build([0.0, 1.0], [1, 2], [5.0, 5.0])


class Measured(Predicted):
    code = codes.MEASURED


def test_a_measured_ledger_is_refused() -> None:
    policy = replace(load_policy("easy"), ledger=Measured())  # type: ignore[arg-type]
    with pytest.raises(PolicyError) as caught:
        simulate(JOBS, plain_machine(4), policy)
    assert caught.value.where == "easy"
    assert "ledger" in str(caught.value.hint)
