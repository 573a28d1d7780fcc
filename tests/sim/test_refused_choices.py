"""Choices that the contracts allow and no kernel carries out are refused, never ignored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import plain_machine
from wattqueue.parts.contracts import Floats
from wattqueue.parts.ledger.measured import Measured
from wattqueue.parts.order.all_partitions import AllPartitions
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import simulate


class Ranks(AllPartitions):
    """An order that re-ranks."""

    def rerank(self, view: View) -> Floats:
        return np.zeros(len(view.queue))


JOBS = Jobs.build([0.0, 1.0], [1, 2], [5.0, 5.0])


def test_a_measured_ledger_is_refused() -> None:
    policy = replace(load_policy("easy"), ledger=Measured())
    with pytest.raises(PolicyError) as caught:
        simulate(JOBS, plain_machine(4), policy)
    assert caught.value.where == "easy"
    assert "ledger" in str(caught.value.hint)


def test_an_order_that_re_ranks_is_not_ignored_beside_a_pass_in_python() -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy("easy", order=Ranks(), backfill="announced-caps")
    assert caught.value.where == "easy"
    assert "schedule()" in str(caught.value.hint)
