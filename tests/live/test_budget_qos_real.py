"""Beside a real slurmdbd: a QOS keeps a budget while no controller is at work, and what Slurm lacks for it is said."""

from __future__ import annotations

import json
import math
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.node_counters import NodeCounters
from tests.live.site import Site, bring_up, cap_text
from tests.live.slurmlab import PATIENCE_S, SlurmLab, wait_for
from wattqueue.live.features.budgets import LATE_S
from wattqueue.live.slurm.budget_qos import SLACK, STEP, QosUse, examine_qos, read_use
from wattqueue.live.slurm.commands import SlurmError

pytestmark = [pytest.mark.slow, pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm-2")]
QOS = "centre-energy"
LIMIT_MIN = 20  # so long that a busy host does not reach it
JOB_WM = 200 * LIMIT_MIN
"""Watt-minutes of licence of a job of one node: 200 W above idle."""
MOST_MJ = round(300.0 * 1e3 * (60 * LIMIT_MIN + LATE_S))
"""What it sets aside of the budget."""
EXTRA = [
    "AccountingStorageEnforce=limits,safe", "PriorityType=priority/multifactor", "PriorityCalcPeriod=1",
    "PriorityDecayHalfLife=7-0",
]  # fmt: skip


@pytest.fixture(scope="module")
def weighed(slurm_release: str) -> Iterator[SlurmLab]:
    for lab in bring_up(slurm_release, extra=list(EXTRA)):
        lab.run(["sacctmgr", "-i", "add", "qos", QOS, "flags=NoDecay"])
        lab.run(["sacctmgr", "-i", "modify", "account", "all", "set", f"qos={QOS}", f"defaultqos={QOS}"])
        yield lab


class Kept(Site):
    """A site whose budget names a QOS, and the process that keeps its limit."""

    def begin_budget(self, amount_mj: int, period: list[float] | None = None, more: str = "") -> Path:
        """Start controller and keeper; ``period`` are the edges of periods in place of months."""
        self.keeper: subprocess.Popen[str] | None = None
        (self.root / "live/budgets.toml").write_text(self.budget(amount_mj))
        self.journal = self.root / "journal.jsonl"
        self.journal.unlink(missing_ok=True)
        config = self.configure(cap_text(1600), slurm=f'[energy]\n[budgets]\nfile = "budgets.toml"\n{more}')
        if period is not None:
            self.set_period(period)
            edges = f"b._edges = lambda *_: numpy.array(json.load(open({str(self.root / 'edges.json')!r})))"
            imports = "import json, numpy, wattqueue.formats.budgets as b"
            self.program = f"{imports}; {edges}; from wattqueue.cli import main; main()"
        self.start(config)
        self.wait_up()
        self.keeper = self.spawn([*self.keep(config), "--every", "1"], self.env)
        self.wait("a limit", lambda: self.use().limit is not None)
        return config

    def set_period(self, edges: list[float]) -> None:
        """State the edges of periods for the next controller."""
        (self.root / "edges.json").write_text(json.dumps(edges))

    def budget(self, amount_mj: int) -> str:
        return f'[[budgets]]\nname = "centre"\namount = {amount_mj / 3.6e9}\nqos = "{QOS}"\n'

    def keep(self, config: Path) -> list[str]:
        """The keeper as an administrator of Slurm runs it."""
        program = [sys.executable, "-c", "from wattqueue.cli import main; main()"]
        return [*program, "budget", "keep", "--config", str(config), "--journal", str(self.root / "journal.jsonl")]

    def is_quiet(self) -> bool:
        """Whether the keeper has changed nothing for a while, and its last change is in force."""
        last = self.changes()[-1]
        return time.time() - self.journal.stat().st_mtime > 5.0 and self.use().limit == last["limit"]

    def use(self) -> QosUse:
        found = read_use(self.lab.commands, QOS)
        assert found is not None
        return found

    def changes(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.journal.read_text().splitlines()]

    def end_keeper(self) -> None:
        if self.keeper is not None:
            self.keeper.terminate()
            self.keeper.wait(60.0)
            self.keeper = None

    def stop(self) -> None:
        super().stop()
        self.end_keeper()


@pytest.fixture
def kept(weighed: SlurmLab) -> Iterator[Kept]:
    weighed.clear()
    place = Kept(weighed)
    for old in (weighed.root / "live").glob("*"):
        if old.is_file():
            old.unlink()
    for change in ("GrpTRESMins=license/watts=-1", "RawUsage=0"):  # jobs of a test before have ended now
        weighed.run(["sacctmgr", "-i", "modify", "qos", QOS, "set", change], check=False)
    yield place
    place.stop()
    (weighed.root / "live/run/beat").unlink(missing_ok=True)


def waits_for_qos(lab: SlurmLab, job: str) -> bool:
    return lab.field(job, "Reason") == "QOSGrpLicenseMinutes"


def test_without_a_controller_the_budget_holds_and_what_jobs_leave_is_used(kept: Kept) -> None:
    config = kept.begin_budget(int(3.5 * MOST_MJ))
    jobs = [kept.gated("-N", "1", "-t", str(LIMIT_MIN)) for _ in range(6)]
    kept.wait("three jobs", lambda: len(kept.running()) == 3)
    time.sleep(5.0)
    assert len(kept.running()) == 3
    use = kept.use()
    assert use.running == 3 * JOB_WM
    free = 0.5 * MOST_MJ / 1e3 / 1.5 / 60.0  # a job draws 300 W for each 200 W of licence
    assert use.limit is not None
    assert 3 * JOB_WM <= use.limit <= 3 * JOB_WM + free + 3 * SLACK
    kept.kill()
    kept.wait("the heartbeat to be old", lambda: kept.release(config).returncode == 0 and not_held(kept.lab, jobs))
    late = kept.gated("-N", "1", "-t", str(LIMIT_MIN))
    waiting = [*(set(jobs) - set(kept.running())), late]
    kept.wait("the reason", lambda: all(waits_for_qos(kept.lab, job) for job in waiting))
    time.sleep(5.0)
    assert len(kept.running()) == 3, "the budget has no room for a fourth one"
    kept.open_gate(kept.running()[0])
    kept.wait("what it left lets one start", lambda: len(kept.running()) == 3)
    time.sleep(5.0)
    assert len(kept.running()) == 3
    kept.start(config)
    kept.wait_up()
    kept.wait("both count the same jobs", lambda: set(kept.running()) <= held_jobs(kept))


def not_held(lab: SlurmLab, jobs: list[str]) -> bool:
    """Whether ``live release`` has released what was held."""
    return all(not lab.field(job, "Reason").startswith("JobHeld") for job in jobs)


def held_jobs(site: Site) -> set[str]:
    """Jobs of the controller's books."""
    with sqlite3.connect(f"file:{site.root}/live/wattqueue-live.db?mode=ro", uri=True, timeout=10.0) as database:
        names = [json.loads(name) for (name,) in database.execute("select name from live_budgets")]
    return {key.partition("@")[0] for kind, key, *_ in names if kind == "job"}


def test_at_the_limit_no_running_job_is_ended(kept: Kept) -> None:
    kept.begin_budget(int(3.5 * MOST_MJ))
    jobs = [kept.gated("-N", "1", "-t", str(LIMIT_MIN)) for _ in range(3)]
    kept.wait_running(jobs)
    (kept.root / "live/budgets.toml").write_text(kept.budget(round(0.5 * MOST_MJ)))
    kept.wait("no room", lambda: kept.use().limit in range(3 * JOB_WM, 3 * JOB_WM + 2 * SLACK))
    kept.end_keeper()
    kept.lab.run(["sacctmgr", "-i", "modify", "qos", QOS, "set", "GrpTRESMins=license/watts=0"])  # as at a renewal
    late = kept.gated("-N", "1", "-t", str(LIMIT_MIN))
    time.sleep(65.0)  # Slurm looks at limits on times every 30 s
    states = kept.lab.states()
    assert [states[job] for job in jobs] == ["RUNNING"] * 3
    assert states[late] == "PENDING"
    kept.open_gate(*jobs)


def test_over_the_end_of_a_period_the_raise_is_taken_back(kept: Kept) -> None:
    begin_s = time.time() - 43_200.0
    whole = 4 * MOST_MJ / 1e3 / 1.5 / 60.0
    with NodeCounters(kept, math.inf, lambda _job: lambda _run_s: 0.1) as counters:  # a node draws 120 W
        config = kept.begin_budget(4 * MOST_MJ, [begin_s, begin_s + 86_400.0], f"[telemetry]\n{counters.sources}\n")
        short = [kept.gated("-N", "1", "-t", str(LIMIT_MIN)) for _ in range(3)]
        kept.wait_running(short)
        time.sleep(60.0)  # Slurm counts 200 W of each, which stand for 300 W of the budget
        kept.open_gate(*short)
        kept.wait("the raise", lambda: (kept.use().limit or 0) > (1.0 + STEP) * whole)
        assert max(one["raised"] for one in kept.changes()) > STEP * whole
        over = kept.gated("-N", "1", "-t", str(2 * LIMIT_MIN))
        kept.wait_running([over])
        kept.wait("it to be set aside", lambda: over in held_jobs(kept))
        kept.kill()
        kept.wait("the keeper to be done", kept.is_quiet)
        raised = kept.use()
        assert raised.used > 0
        end_s = time.time() + 3.0
        kept.set_period([begin_s, end_s, end_s + 86_400.0])
        time.sleep(6.0)
        assert kept.use().limit == raised.limit, "nobody changes it without a controller"
        kept.start(config)
        kept.wait_up()
        kept.wait("a new period", lambda: any(one["event"] == "renew" for one in kept.changes()))
        kept.wait("its limit", lambda: kept.changes()[-1]["event"] == "set")
    use = kept.use()
    assert use.limit is not None
    assert use.used < raised.used
    assert use.limit <= whole + use.used + SLACK, "what jobs used before counts no longer"
    assert kept.lab.states()[over] == "RUNNING"
    assert kept.changes()[-1]["raised"] <= use.used + SLACK
    more = kept.gated("-N", "1", "-t", str(LIMIT_MIN))
    kept.wait_running([more])
    kept.open_gate(over, more)


def test_what_slurm_lacks_is_refused_and_said(kept: Kept) -> None:
    lab = kept.lab
    config = kept.begin_budget(5 * MOST_MJ)
    kept.end_keeper()
    before = kept.use().limit
    lab.run(["sacctmgr", "-i", "modify", "qos", QOS, "set", "flags-=NoDecay"])
    assert any(one.state == "no" and "decays" in one.found for one in examine_qos(lab.commands, {QOS: "centre"}))
    done = kept_once(kept, config)
    assert done.returncode != 0
    assert "decays" in done.stderr
    assert f"sacctmgr modify qos {QOS} set flags+=NoDecay" in done.stderr
    assert kept.use().limit == before
    doctor = [sys.executable, "-c", "from wattqueue.cli import main; main()", "doctor", "--live", str(config)]
    said = subprocess.run(doctor, env=kept.env, capture_output=True, text=True, timeout=PATIENCE_S, check=False).stdout
    assert "decays" in said
    try:
        with_settings(
            lab, AccountingStorageEnforce="limits", PriorityDecayHalfLife="0", PriorityUsageResetPeriod="MONTHLY"
        )
        found = {one.found: one for one in settled(lab)}
        assert any("ends running jobs at the limit" in text for text in found)
        (reset,) = [one for text, one in found.items() if "to zero (MONTHLY)" in text]
        assert reset.state == "no"
        assert "fair share" in reset.cost
    finally:
        with_settings(lab)
    lab.run(["sacctmgr", "-i", "modify", "qos", QOS, "set", "flags+=NoDecay"])
    assert all(one.state == "yes" for one in settled(lab) if one.name != "chosen")
    done = kept_once(kept, config)
    assert done.returncode == 0, done.stderr


def kept_once(kept: Kept, config: Path) -> subprocess.CompletedProcess[str]:
    argv = [*kept.keep(config), "--once"]
    return subprocess.run(argv, env=kept.env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def with_settings(lab: SlurmLab, **values: str) -> None:
    """Restart slurmctld with other settings than the lab's."""
    keys = tuple(f"{name}=" for name in values)
    lab.extra = [*(line for line in EXTRA if not line.startswith(keys)), *(f"{k}={v}" for k, v in values.items())]
    lab.configure()
    lab.restart_controller()


def settled(lab: SlurmLab) -> list[Any]:
    """What is found once slurmctld has its QOS again."""
    found: list[Any] = []

    def there() -> bool:
        try:
            found[:] = examine_qos(lab.commands, {QOS: "centre"})
        except SlurmError:
            return False
        return bool(found)

    wait_for("slurmctld", there, step_s=0.5)
    return found
