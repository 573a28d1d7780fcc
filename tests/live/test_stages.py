"""Each stage uses what it declares, and nothing else: looked at in rounds in which the features of a controller act."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.interactions.live_worlds import Place
from wattqueue.live.planner import Planner, RoundState
from wattqueue.live.table import COLUMNS, TRANSITIONS, LiveJobs

WORLDS: list[dict[str, Any]] = [
    {"row": "dr-parking", "target": True, "consent": True, "restarts": True},
    {"ledger": "measured", "telemetry": "right", "operator": True, "anywhere": True},
    {"ledger": {"part": "adaptive", "meter_s": 5.0, "window_days": 0.01}, "shared": True, "fails": True},
]
RARE = {
    "classify": {"jobs.since_s", "jobs.reason"},
    "learn": {"snapshot"},
    "reserve": {"free_nodes", "jobs.reason", "jobs.request", "reserved", "running", "waiting", "jobs.option",
        "jobs.part", "jobs.since_s", "let_go"},
    "budget": {"jobs.row"},
    "decide": {"jobs.reason", "planned_s"},
    "place": {"free_nodes", "running", "under_way"},
    "goals": {
        "bare_w", "in_force", "jobs.label", "jobs.name", "jobs.net_w", "jobs.start_w", "under_way", "withheld_w"
    },
}  # fmt: skip
"""What only site rules, arrays, components, run times and waking nodes make a stage use: none of it in these worlds."""
ROOT = Path(__file__).parents[2]
FIELDS = frozenset(RoundState.__dataclass_fields__) - {"planner"}


class Watch:
    """Notes which fields and columns each stage reads, and which it writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = ""
        self.read: dict[str, set[str]] = defaultdict(set)
        self.written: dict[str, set[str]] = defaultdict(set)
        self.declared: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
        field, column, set_field = RoundState.__getattribute__, LiveJobs.__getattribute__, RoundState.__setattr__

        def read_field(state: RoundState, name: str) -> Any:
            if name in FIELDS:
                self.read[self.now].add(name)
            return field(state, name)

        def write_field(state: RoundState, name: str, value: Any) -> None:
            if name in FIELDS:
                self.written[self.now].add(name)
            set_field(state, name, value)

        def read_column(jobs: LiveJobs, name: str) -> Any:
            if name in COLUMNS:
                self.read[self.now].add(f"jobs.{name}")
            return column(jobs, name)

        def take(planner: Planner, now: RoundState) -> RoundState:
            for one in planner.stages:
                self.stage(one, now)
            return now

        monkeypatch.setattr(RoundState, "__getattribute__", read_field)
        monkeypatch.setattr(RoundState, "__setattr__", write_field)
        monkeypatch.setattr(LiveJobs, "__getattribute__", read_column)
        monkeypatch.setattr(Planner, "take", take)

    def stage(self, one: Any, now: RoundState) -> None:
        """Carry a stage out."""
        if not hasattr(one, "reads"):  # of an extension, or of a test
            self.now = ""
            one(now)
            return
        self.now, jobs = "", now.planner.jobs
        before = {name: getattr(jobs, name).copy() for name in COLUMNS}
        self.declared[one.__name__] = one.reads, one.writes
        self.now = one.__name__
        one(now)
        self.now = ""
        for name, old in before.items():
            new = getattr(jobs, name)
            same = all(a is b for a, b in zip(old, new, strict=False)) if old.dtype == object else alike(old, new)
            if not same:
                self.written[one.__name__].add(f"jobs.{name}")


def alike(old: np.ndarray, new: np.ndarray) -> bool:
    return np.array_equal(old, new[: len(old)], equal_nan=old.dtype.kind == "f")


def test_each_stage_uses_what_it_declares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(monkeypatch)
    for k, settings in enumerate(WORLDS):
        place = Place(tmp_path / str(k), k, **settings)
        place.folder.mkdir()
        place.run()
        assert place.problems == []
    assert len(watch.declared) == 11
    for name, (reads, writes) in watch.declared.items():
        assert watch.written[name] <= writes, f"{name} writes {sorted(watch.written[name] - writes)}"
        assert watch.read[name] <= reads | writes, f"{name} reads {sorted(watch.read[name] - reads - writes)}"
        used = watch.read[name] | watch.written[name] | RARE.get(name, set())
        assert reads | writes <= used, f"{name} declares {sorted((reads | writes) - used)} and does not use it"


def test_the_page_about_live_jobs_lists_the_transitions() -> None:
    page = (ROOT / "docs" / "live-job.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    stated = {row[0].strip("`"): set(re.findall("`([A-Z_]+)`", row[2])) for row in rows if len(row) == 3}
    assert stated == {stage.name: {after.name for after in following} for stage, following in TRANSITIONS.items()}
