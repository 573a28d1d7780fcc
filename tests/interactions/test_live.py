"""Features that meet live: each pair over the fake Slurm, with oracles in each round and equal writes on rerun."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from tests.interactions.live_worlds import CHOICES, LIVE_FEATURES, READS, LiveFeature, Place

TRIES = 5
PAIRS = [
    (a, b)
    for a, b in itertools.combinations(LIVE_FEATURES, 2)
    if not any(c in LIVE_FEATURES[a].settings and c in LIVE_FEATURES[b].settings for c in CHOICES)
    and not (a.startswith("ledger") and a not in READS and b.startswith("telemetry"))
]
"""All pairs but those of two ledgers, of two states of telemetry, and of telemetry with a ledger that reads none."""


def covering() -> set[tuple[str, str]]:
    """Pairs in which each feature is at least once."""
    found: set[tuple[str, str]] = set()
    seen: set[str] = set()
    for pair in random.Random(26).sample(PAIRS, len(PAIRS)):
        if not seen.issuperset(pair):
            found.add(pair)
            seen.update(pair)
    return found


QUICK = covering()


def settings_of(features: list[LiveFeature]) -> dict[str, object]:
    return {key: value for feature in features for key, value in feature.settings.items()}


@pytest.mark.parametrize(
    "pair",
    [pytest.param(pair, id=" with ".join(pair), marks=() if pair in QUICK else pytest.mark.slow) for pair in PAIRS],
)
def test_two_features_meet_live(pair: tuple[str, str], tmp_path: Path) -> None:
    features = [LIVE_FEATURES[name] for name in pair]
    for seed in range(TRIES):
        first, again = (Place(tmp_path / f"{seed}-{k}", seed, **settings_of(features)) for k in range(2))  # type: ignore[arg-type]
        first.folder.mkdir()
        first.run()
        assert first.problems == []
        if all(feature.acted(first) for feature in features):
            again.folder.mkdir()
            again.run()
            assert again.written() == first.written()
            return
    pytest.fail(f"in {TRIES} worlds they never acted together: {first.seen}")
