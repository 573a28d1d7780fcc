"""Ranges and lists of caps."""

from __future__ import annotations

import pytest

from wattqueue.errors import InputError, MachineError
from wattqueue.model.machine import plain_machine
from wattqueue.whatif.caps import parse_caps

TEN = plain_machine(10, 100.0, 500.0)


def watts(text: str) -> list[float]:
    return [cap.cap_w for cap in parse_caps(text, TEN)]


def test_a_range_has_nine_caps_both_ends_included() -> None:
    caps = parse_caps("60%..100%", TEN)
    assert [cap.text for cap in caps] == ["60%", "65%", "70%", "75%", "80%", "85%", "90%", "95%", "100%"]
    assert [cap.cap_w for cap in caps] == pytest.approx([50.0 * share for share in range(60, 101, 5)])


def test_steps_units_and_lists() -> None:
    assert watts("2kW..3kW:0.5kW") == [2000, 2500, 3000]
    assert watts("2..3kW:0.4") == [2000, 2400, 2800, 3000]  # the last step is shorter
    assert watts("80%,3kW,60%") == [3000, 4000]  # 60 % of 5 kW is 3 kW: once
    assert watts("40%..60%:10%,100%") == [2000, 2500, 3000, 5000]


@pytest.mark.parametrize(
    "text",
    [
        "60",  # without a unit
        "",
        "none",
        "60%..",
        "60%..x",
        "60%..100%..120%",
        "100%..60%",
        "60%..60%",
        "60%..4kW",
        "60%..100%:0%",
        "60%..100%:50%",
        "60%..100%:-5%",
        "60%..100%:0.001%",  # 40,001 caps
        ",".join(f"{k}W" for k in range(2_000, 2_300)),
    ],
)
def test_a_text_that_is_not_a_list_of_caps_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_caps(text, TEN)
    assert str(caught.value.where).endswith("cap")
    assert caught.value.hint


def test_a_cap_below_idle_and_an_unknown_maximum() -> None:
    with pytest.raises(MachineError) as caught:
        parse_caps("10%..100%", TEN)
    assert "1,000 W" in caught.value.what
    with pytest.raises(MachineError):
        parse_caps("60%..100%", plain_machine(10))
