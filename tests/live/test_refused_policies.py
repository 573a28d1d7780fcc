"""Choices that live does not carry out are refused by name, not ignored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from wattqueue.errors import InputError
from wattqueue.kernels import codes
from wattqueue.live.assemble import require_driven
from wattqueue.parts.ledger.predicted import Predicted
from wattqueue.policy.policy import load_policy


class Ranked:
    """A placement of one's own."""

    def rank(self, apps: int, machine: Any, prediction: Any) -> Any:
        return np.zeros((apps, machine.units))


class Measured(Predicted):
    """A ledger of measurements."""

    code = codes.MEASURED


class OwnPass:
    """A backfill in plain Python."""

    def schedule(self, view: Any) -> list[Any]:
        return []


@pytest.mark.parametrize("change", [{"placement": Ranked()}, {"ledger": Measured()}, {"backfill": OwnPass()}])
def test_what_live_does_not_drive_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        require_driven(replace(load_policy("easy"), **change))
    assert caught.value.where == "policy"
    assert caught.value.hint


def test_an_oracle_is_refused_by_name() -> None:
    with pytest.raises(InputError) as caught:
        require_driven(load_policy("easy", estimator="oracle-mean"))
    assert "oracle-mean" in caught.value.what


@pytest.mark.parametrize("name", ["easy", "conservative", "easy+pc-mean", "easy+pc-chance-1", "min-energy"])
def test_rows_of_the_table_are_driven(name: str) -> None:
    policy = load_policy(name)
    require_driven(policy)
    assert policy.name == name
