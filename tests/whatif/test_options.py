"""The question that options of ``whatif`` state."""

from __future__ import annotations

import pytest

from wattqueue.errors import InputError
from wattqueue.runs.task import Task
from wattqueue.whatif.options import WhatifOptions


@pytest.mark.parametrize(
    ("policy", "settings"),
    [("easy,easy", ()), ("easy,easy+backfill=easy", ()), ("easy,easy+backfill=none", ("backfill=first-fit",))],
)
def test_a_policy_is_compared_once(policy: str, settings: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="repeats a name") as raised:
        WhatifOptions("trace", policy=policy, settings=settings).question(Task("trace"))
    assert raised.value.where == "--policy"


def test_settings_change_each_policy() -> None:
    asked = WhatifOptions("trace", policy="easy, pas", settings=("backfill=none",)).question(Task("trace"))
    assert asked.policies == ("easy+backfill=none", "pas+backfill=none")
