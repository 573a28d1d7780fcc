"""When waiting jobs may start, of all at once: against one that is found job by job; and what the cap holds."""

from __future__ import annotations

import base64
import math
import random
import struct
from typing import Any

import numpy as np
import pytest

from wattqueue.live.reports.waits import waits_of


def packed(values: list[int]) -> str:
    return base64.b64encode(struct.pack(f"<{len(values)}i", *values)).decode()


def file_of(
    entries: list[tuple[int, int, int]], nodes: list[int], free: list[int], free_w: int | None, ends: list[list[Any]]
) -> dict[str, Any]:
    """``entries``: row of the job, partition, watts."""
    turns = {
        "names": [str(k + 1) for k in range(len(nodes))],
        "nodes": packed(nodes),
        **{name: packed([one[i] for one in entries]) for i, name in enumerate(("job", "partition", "watts"))},
    }
    return {"time_s": 1000, "free": free, "free_w": free_w, "ends": ends, "turns": turns}


def naive_when(wanted: float, have: float, ends: list[tuple[float | None, float]]) -> float:
    at_s = 1000.0
    for end_s, more in ends:
        if have >= wanted:
            break
        have, at_s = have + more, math.inf if end_s is None else end_s
    return at_s if have >= wanted else math.inf


def naive(values: dict[str, Any], entries: list[tuple[int, int, int]], nodes: list[int]) -> list[tuple[float, bool]]:
    best: dict[int, tuple[float, bool]] = {}
    for job, p, watts in entries:
        its = [(end[0], end[2]) for end in values["ends"] if end[1] == p]
        nodes_s = naive_when(nodes[job], values["free"][p], its)
        free_w = values["free_w"]
        all_w = [(end[0], end[3]) for end in values["ends"]]
        watts_s = nodes_s if free_w is None else naive_when(watts, free_w, all_w)
        found = max(nodes_s, watts_s), free_w is not None and watts > free_w and watts_s >= nodes_s
        if job not in best or found[0] < best[job][0]:
            best[job] = found
    return [best[job] for job in sorted(best)]


@pytest.mark.parametrize("seed", range(60))
def test_all_jobs_at_once_are_as_each_alone(seed: int) -> None:
    r = random.Random(seed)
    n = r.randrange(0, 12)
    nodes = [r.randrange(1, 9) for _ in range(n)]
    entries = [(job, p, 100 * nodes[job]) for job in range(n) for p in r.sample([0, 1], r.choice([1, 2]))]
    r.shuffle(entries)
    times = sorted(r.choice([1100, 1200, 1300, 1400]) for _ in range(r.randrange(6)))
    ends: list[list[Any]] = [[t, r.randrange(2), r.randrange(1, 5), r.randrange(50, 500)] for t in times]
    ends += [[None, 0, 2, 200]] * r.randrange(2)
    free_w = r.choice([None, 0, 300, 2000, -50])
    values = file_of(entries, nodes, [r.randrange(5), r.randrange(5)], free_w, ends)
    found = waits_of(values)
    assert list(zip(found.at_s.tolist(), found.for_watts.tolist(), strict=True)) == naive(values, entries, nodes)
    assert list(found.names) == [str(k + 1) for k in range(n)]


def test_the_cap_holds_jobs_that_free_nodes_would_serve() -> None:
    """Of jobs of 3, 2 and 1 nodes the first and the last fit four free nodes; another needs nine."""
    entries = [(0, 0, 300), (1, 0, 200), (2, 0, 100), (3, 0, 900)]
    found = waits_of(file_of(entries, [3, 2, 1, 9], [4], 50, [[2000, 0, 9, 900]]))
    assert found.for_watts.tolist() == [True, True, True, True]
    assert found.held_by_watts() == (2, 4)
    assert waits_of(file_of(entries, [3, 2, 1, 9], [4], None, [])).held_by_watts() == (0, 0)
    with_watts = waits_of(file_of(entries, [3, 2, 1, 9], [4], 5000, [[2000, 0, 9, 900]]))
    assert with_watts.held_by_watts() == (0, 0), "enough watts: nothing is held for them"
    assert np.isfinite(with_watts.at_s).all()
