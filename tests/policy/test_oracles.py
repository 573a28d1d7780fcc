"""Which policies have oracles, and how outputs mark them."""

from __future__ import annotations

from typing import Any

import pytest

from wattqueue.parts.order.penalised import Penalised
from wattqueue.policy.oracles import marked, oracles_of
from wattqueue.policy.policy import load_policy


class LongestFirst:
    """A pass that knows run times."""

    knows_future = True

    def schedule(self, view: object) -> list[object]:
        return []


class KnowsBest:
    knows_future = True

    def entries(self, jobs: object, prediction: object, machine: object) -> None:
        return None


@pytest.mark.parametrize(
    ("name", "parts", "expected"),
    [
        ("easy", {}, ""),
        ("easy", {"estimator": "history-mean"}, ""),
        ("easy", {"estimator": "oracle-mean"}, "oracle-mean"),
        ("easy+estimator=oracle-max", {}, "oracle-max"),
        ("easy", {"estimator": {"part": "history-mean", "completions": "trace"}}, "history-mean"),
        ("easy", {"estimator": "oracle-max", "backfill": LongestFirst()}, "oracle-max, longest-first"),
        ("easy", {"order": Penalised(inner=KnowsBest())}, "penalised"),  # type: ignore[arg-type]
    ],
)
def test_the_oracles_of_a_policy(name: str, parts: dict[str, Any], expected: str) -> None:
    assert oracles_of(load_policy(name, **parts)) == expected


@pytest.mark.parametrize(
    ("label", "oracles", "expected"),
    [
        ("easy", "", "easy"),
        ("easy, cap 80%", "oracle-max", "easy, cap 80% (oracle: oracle-max)"),
        ("easy, oracle-max", "oracle-max", "easy, oracle-max (oracle)"),
        ("easy, oracle-max (oracle)", "oracle-max", "easy, oracle-max (oracle)"),
    ],
)
def test_a_label_is_marked_once(label: str, oracles: str, expected: str) -> None:
    assert marked(label, oracles) == expected
