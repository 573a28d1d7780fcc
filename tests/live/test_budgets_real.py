"""Budgets beside a real Slurm: jobs over the budget wait, and a controller that is killed keeps its books."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.live.site import Site, cap_text
from tests.live.slurmlab import USER
from wattqueue.live.features.budgets import LATE_S
from wattqueue.live.files.energy_records import USERS, EnergyRecord, folders_of, read_records
from wattqueue.live.reports.why import read_why, sentence

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm-2")]
LIMIT_MIN = 30  # so long that what jobs use on a busy host leaves room
MOST_MJ = round(300.0 * 1e3 * (60 * LIMIT_MIN + LATE_S))
"""What a job of one node sets aside."""


def books(site: Site) -> tuple[dict[str, int], int]:
    """What is set aside by job, and used, as the database has it at this moment."""
    held, used = {}, 0
    with sqlite3.connect(f"file:{site.root}/live/wattqueue-live.db?mode=ro", uri=True, timeout=10.0) as database:
        for name, state in database.execute("select name, state from live_budgets"):
            kind, key, *_ = json.loads(name)
            if kind == "job":
                held[key.partition("@")[0]] = sum(json.loads(state)[6].get("centre", {}).values())
            elif kind == "used":
                used += int(state)
    return held, used


def begin(site: Site, amount_mj: int) -> Path:
    (site.root / "live/budgets.toml").write_text(f'[[budgets]]\nname = "centre"\namount = {amount_mj / 3.6e9}\n')
    sections = '[energy]\n[budgets]\nfile = "budgets.toml"\n'
    config = site.configure(cap_text(1600), slurm=sections)
    site.start(config)
    site.wait_up()
    return config


def test_books_survive_kills_and_the_budget_is_kept(site: Site) -> None:
    rng = np.random.default_rng(36)
    amount = int(3.5 * MOST_MJ)
    config = begin(site, amount)
    jobs = [site.gated("-N", "1", "-t", str(LIMIT_MIN)) for _ in range(6)]
    site.wait("three jobs", lambda: len(site.running()) == 3)
    site.wait("reasons", lambda: len(reasons(site, jobs)) == 3)
    assert all("budget centre has no room for it before" in text for text in reasons(site, jobs))
    ended: list[str] = []
    while len(ended) < 6:
        held, used = books(site)
        assert used + sum(held.values()) <= amount
        assert set(site.running()) <= held.keys(), "whatever runs is set aside"
        site.kill()
        assert books(site)[1] >= used
        time.sleep(float(rng.uniform(0.0, 1.0)))
        site.start(config)
        site.wait_up()
        job = site.running()[0]
        site.open_gate(job)
        ended.append(job)
        site.wait("its record", lambda: ended[-1] not in books(site)[0])
        if len(ended) <= 3:  # what it did not use lets the next one start
            site.wait("the next one", lambda: len(site.running()) == 3)
    found = recorded(site, jobs)
    assert sorted(one.job for one in found) == sorted(jobs)
    held, used = books(site)
    assert held == {}
    assert used == pytest.approx(sum(one.energy_j for one in found) * 1e3, abs=10.0 * len(jobs))


def test_tasks_of_an_array_are_booked_by_themselves_and_components_wait_together(site: Site) -> None:
    """Slurm alone schedules jobs of several components: they are handed over when the budget has room for all."""
    amount = int(3.5 * MOST_MJ)
    begin(site, amount)
    each = ["-N", "1", "-t", str(LIMIT_MIN)]
    gate = site.root / "gates/all"
    gate.parent.mkdir(exist_ok=True, mode=0o755)
    array = site.lab.submit("--array=1-4", *each, f"--wrap=until [ -e {gate} ]; do sleep 0.1; done; sleep 10")
    site.wait("three tasks", lambda: sum(state == "RUNNING" for state in site.lab.states().values()) == 3)
    done = site.lab.run(["sbatch", "--parsable", "-o", "/dev/null", *each, ":", *each, "--wrap=sleep 10"], user=USER)
    whole = done.out.strip().split(";")[0]
    site.wait("reasons", lambda: len(reasons(site, [array])) == 1 and len(reasons(site, [whole])) == 2)
    held, used = books(site)
    assert {name.partition("_")[0] for name in held} == {array}
    assert len(held) == 3
    gate.touch()
    seen: list[int] = []

    def ended() -> bool:
        held, used = books(site)
        seen.append(used + sum(held.values()))
        return len(recorded(site, [array, whole])) == 6 and not held

    site.wait("all runs", ended)
    assert max(seen) <= amount
    found = recorded(site, [array, whole])
    assert sorted(one.job for one in found) == sorted(
        [*(f"{array}_{k}" for k in range(1, 5)), f"{whole}+0", f"{whole}+1"]
    )
    held, used = books(site)
    assert used == pytest.approx(sum(one.energy_j for one in found) * 1e3, abs=60.0)


def recorded(site: Site, jobs: list[str]) -> list[EnergyRecord]:
    """Records of jobs, their tasks and components; those of other tests lie in the same folder."""
    folder = site.root / "live/run/energy"
    every = read_records(folders_of(folder, 0)) if (folder / USERS).is_dir() else []
    return [one for one in every if re.split(r"[_+]", one.job)[0] in jobs]


def reasons(site: Site, jobs: list[str]) -> list[str]:
    """Why jobs wait for a budget."""
    found: list[tuple[str, Any]] = [one for job in jobs for one in read_why(site.root / "live/run", job)]
    return [sentence(*one) for one in found if one[1][0] == "budget"]
