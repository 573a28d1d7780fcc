"""The adversary on a real Slurm whose controller has a guard: kills take the planner, the guard, or both.

``WATTQUEUE_ADVERSARIAL_S`` sets the duration of the slow test (an hour by default).
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.live.fight import Record
from tests.live.guard.site import SECTION, Arena
from tests.live.test_adversarial_real import arena_of, check_fight
from wattqueue.live.apply import LEFT_OUT
from wattqueue.live.guard.audit_check import check_audit
from wattqueue.live.guard.checks import LOW, NO_CONSENT, OTHER

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("arena-2")]


@pytest.fixture(scope="module")
def arena(slurm_release: str) -> Iterator[Arena]:
    """The adversary's Slurm; what ``live install`` writes for the guard is what it checks against."""
    for site in arena_of(slurm_release, Arena, SECTION):
        site.behind_guard(site.root / "live/live.toml")
        yield site


def fight(site: Arena, seconds: float, kills: int, seed: int, record_property: Record, timeout_s: float) -> None:
    """As without a guard; beside it the guard's record is whole, and it refused nothing for a lack in guard.toml."""
    check_fight(site, seconds, kills, seed, record_property, timeout_s)
    refused = Counter(row["after"] for row in site.check_audit() if row["after"].startswith(LEFT_OUT))
    record_property("refused", dict(refused))
    sys.stderr.write(f"refused by the guard: {dict(refused)}\n")
    assert not {f"{LEFT_OUT}: {reason}" for reason in (LOW, NO_CONSENT, OTHER)} & {*refused}
    found = check_audit(site.root / "live/run")
    assert found.problem == ""
    assert found.lines > 10 * kills


def test_no_job_gets_around_the_cap_behind_a_guard(arena: Arena, record_property: Record) -> None:
    fight(arena, 60.0, 6, 5, record_property, 15.0)


@pytest.mark.slow
def test_no_job_gets_around_the_cap_behind_a_guard_for_an_hour(arena: Arena, record_property: Record) -> None:
    seconds = float(os.environ.get("WATTQUEUE_ADVERSARIAL_S", "3600"))
    fight(arena, seconds, round(seconds / 18), 6, record_property, 45.0)
