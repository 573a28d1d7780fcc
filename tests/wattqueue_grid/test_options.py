"""Options of settlements and incentives are described once, as those of the core."""

from __future__ import annotations

import pytest

import wattqueue_grid
from tests.cli.test_options import check_arguments, check_flags, commands
from wattqueue_grid.incentives.options import DesignOptions, OfferOptions
from wattqueue_grid.settlement.options import SettleOptions

VERBS: dict[str, type] = {
    "settle": SettleOptions,
    "incentives design": DesignOptions,
    "incentives offer": OfferOptions,
}


@pytest.mark.parametrize("verb", VERBS)
def test_each_field_is_a_flag_with_its_text_and_default(verb: str) -> None:
    check_flags(dict(commands("wattqueue_grid"))[verb], VERBS[verb])


def test_each_field_is_an_argument_of_python() -> None:
    check_arguments(wattqueue_grid.settle, SettleOptions)
