"""What Slurm may start of a budget by itself: never more than is left, and all of it where partitions are alike."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.live.test_job_energy import Meters, lab, rounds
from tests.live.test_live_budgets import MOST_W, file, most_kwh, start
from wattqueue.errors import InputError
from wattqueue.formats.budgets import read_budgets
from wattqueue.live.features.budget_room import Occupant, joules_of, room_of
from wattqueue.live.features.budgets import LATE_S
from wattqueue.live.slurm.budget_qos import SLACK, BudgetJournal, BudgetKeeper, examine_qos, read_use, require_kept
from wattqueue.live.slurm.commands import CommandResult
from wattqueue.model.budgets import Book, Budget
from wattqueue.model.machine import Machine, Partition

DAY = 86_400.0
AMOUNT_MJ = 50 * 300 * 3_600_000
"""Fifty hours of 300 W."""


def machine_of(*pairs: tuple[float, float]) -> Machine:
    parts = [Partition(f"p{i}", 100, idle_w=idle, max_w=most) for i, (idle, most) in enumerate(pairs)]
    return Machine("lab", tuple(parts))


def book_of(amount_mj: int = AMOUNT_MJ) -> Book:
    return Book(Budget("centre", frozenset(), amount_mj, "kWh", np.array([0.0, DAY, 2 * DAY]), qos="centre"))


class Alone:
    """Slurm's rule: what is used and what running jobs may use until their limits stays within N."""

    def __init__(self, limit: float) -> None:
        self.limit, self.used, self.running = limit, 0.0, 0.0

    def start(self, licence_w: float, limit_s: float) -> bool:
        if self.used + self.running + licence_w * limit_s > self.limit + 1e-6:
            return False
        self.running += licence_w * limit_s
        return True

    def end(self, licence_w: float, limit_s: float, ran_s: float) -> None:
        self.running -= licence_w * limit_s
        self.used += licence_w * ran_s


JOBS = st.lists(st.tuples(st.integers(0, 1), st.integers(1, 5), st.integers(1, 40), st.floats(0, 1)), max_size=8)


@settings(max_examples=300, deadline=None)
@given(running=JOBS, later=JOBS, ends=st.floats(0, 1), alike=st.booleans())
def test_what_is_started_alone_stays_within_the_budget(
    running: list[tuple[int, int, int, float]],
    later: list[tuple[int, int, int, float]],
    ends: float,
    alike: bool,
) -> None:
    pairs = ((100.0, 300.0), (100.0, 300.0) if alike else (200.0, 260.0))
    machine, book = machine_of(*pairs), book_of()
    now_s, occupants, used_ws, drawn_j = 1000.0, [], 0.0, 0.0
    for number, (part, nodes, minutes, share) in enumerate(running):
        idle, most = pairs[part]
        limit_s = minutes * 60.0
        amounts = book.budget.most(most * nodes, limit_s + LATE_S, now_s - share * limit_s, now_s - share * limit_s)
        if not book.fits(amounts, {}):
            continue
        book.hold(str(number), amounts)
        licence = (most - idle) * nodes
        occupants.append(Occupant(str(number), True, most * nodes, licence, licence, limit_s, (1 - share) * limit_s))
        used_ws += licence * limit_s
    room = room_of([book], occupants, machine, now_s)["room"]
    slurm = Alone(used_ws + room)
    slurm.running = used_ws
    for one in occupants:  # they end some time before their limits, drawing the most until then
        ran_s = one.limit_s - one.left_s + ends * one.left_s
        slurm.end(one.licence_w, one.limit_s, ran_s)
        drawn_j += one.drawn_w * ran_s
    for part, nodes, minutes, _ in later * 3:
        idle, most = pairs[part]
        if slurm.start((most - idle) * nodes, minutes * 60.0):
            drawn_j += most * nodes * minutes * 60.0
    assert drawn_j <= AMOUNT_MJ / 1e3 + 1e-3


def test_all_that_is_left_may_be_started_where_partitions_are_alike() -> None:
    machine, book = machine_of((100.0, 300.0)), book_of()
    assert room_of([book], [], machine, 1000.0)["room"] == pytest.approx(50 * 3600 * 200)
    waiting = Occupant("a", False, 300.0, 200.0, 200.0, 600.0, 600.0)
    book.hold("a", book.budget.most(300.0, 600.0, 1000.0, 1000.0))
    found = room_of([book], [waiting], machine, 1000.0)
    assert found["under_way"] == 200.0 * 600.0
    assert found["room"] == pytest.approx(50 * 3600 * 200), "it is set aside in the books, and not yet in Slurm"


def test_a_job_that_reaches_into_the_next_period_leaves_less() -> None:
    machine, book = machine_of((0.0, 300.0)), book_of()
    book.hold("a", {1: AMOUNT_MJ - 300_000})
    assert room_of([book], [], machine, 1000.0)["room"] == pytest.approx(300.0)
    assert room_of([book], [], machine, DAY * 2.5)["room"] is None, "after its end nothing is limited"


def test_a_partition_of_which_licences_say_nothing_lets_nothing_start() -> None:
    machine = machine_of((300.0, 300.0))
    assert math.isinf(joules_of(machine))
    assert room_of([book_of()], [], machine, 1000.0)["room"] == 0.0


def test_a_controller_writes_the_room_and_who_is_gone(tmp_path: Path) -> None:
    slurm = lab()
    file(tmp_path, 2.5 * most_kwh(1, 600.0), more='qos = "centre"\n')
    controller = start(slurm, tmp_path, sources=(Meters(slurm, lambda _: 170.0),))
    first, second = (slurm.submit(1, run_s, watts=200, limit_s=600.0, partition="p1") for run_s in (100.0, 500.0))
    rounds(controller, slurm, 20.0)
    path = tmp_path / "energy/budget-room.json"
    before = json.loads(path.read_text())
    assert (first.state, second.state) == ("RUNNING", "RUNNING")
    assert path.stat().st_mode & 0o077 == 0
    left_j = 0.5 * MOST_W * (600.0 + LATE_S)
    assert before["rooms"]["centre"]["room"] == pytest.approx(left_j / 1.5, rel=1e-6)
    rounds(controller, slurm, 120.0)
    after = json.loads(path.read_text())
    assert first.state == "COMPLETED"
    assert after["rooms"]["centre"]["room"] > before["rooms"]["centre"]["room"]
    ((at_s, amount),) = after["gone"]["centre"]
    assert before["time_s"] < at_s <= after["time_s"]
    assert amount == 200.0 * 600.0


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('qos = "a"\nunit = "EUR"\nprices = "p.csv"\n', "a QOS cannot keep it"),
        ('qos = "a"\nmode = "quantile"\n', "a QOS cannot keep it"),
        ('qos = "a"\nover = "spare-hours"\n', "no spare hours"),
        ('qos = "a b"\n', "qos"),
        ('qos = "a"\n[[budgets]]\nname = "b"\namount = 1\nqos = "a"\n', "budgets all and b name the same QOS a"),
    ],
)
def test_a_budget_that_no_qos_can_keep_is_refused(tmp_path: Path, more: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_budgets(file(tmp_path, 1.0, more=more))


class Recorded:
    """The commands of a Slurm with one QOS, as 22.05, 24.11 and 26.05 print them."""

    def __init__(self) -> None:
        self.limit, self.used, self.running = -1, 0, 0
        self.flags, self.settings = "NoDecay", dict(SETTINGS)
        self.written: list[str] = []
        self.assoc = "all||centre\nall|ann|centre\n"

    def run(self, argv: Sequence[str]) -> CommandResult:
        text = ""
        if argv[:2] == ("scontrol", "show"):
            text = "Configuration data as of now\n" + "".join(f"{k} = {v}\n" for k, v in self.settings.items())
        elif argv[0] == "scontrol":
            limit = "N" if self.limit < 0 else str(self.limit)
            text = (
                "Current Association Manager state\n\nQOS Records\n\nQOS=centre(2) UsageRaw=0.0 GrpTRES=cpu=N(0),"
                f"license/watts=N(0) GrpTRESMins=cpu=N(0),license/watts={limit}({self.used}) GrpTRESRunMins=cpu=N(0),"
                f"license/watts=N({self.running}) MaxWallPJ= Account Limits= all={{MaxTRESPA=license/watts=N(7)}}\n"
            )
        elif argv[1] == "-i":
            self.written.append(argv[-1])
            name, _, value = argv[-1].rpartition("=")
            self.limit, self.used = (int(value), self.used) if "Grp" in name else (self.limit, 0)
        else:
            text = f"normal||\ncentre|{self.flags}|\n" if argv[4] == "qos" else self.assoc
        return CommandResult(0, text, "", 0.0)


SETTINGS = {
    "AccountingStorageTRES": "cpu,mem,energy,node,billing,fs/disk,vmem,pages,license/watts",
    "AccountingStorageEnforce": "associations,limits,safe", "PriorityType": "priority/multifactor",
    "PriorityDecayHalfLife": "7-00:00:00", "PriorityUsageResetPeriod": "NONE",
}  # fmt: skip


class Rounds:
    """A controller that writes a room whenever somebody waits, and the clock."""

    def __init__(self, folder: Path) -> None:
        self.path, self.now_s, self.at_work = folder / "budget-room.json", 1e6, True
        self.room, self.begin_s, self.under_way = 6_000.0, 0.0, 0.0
        self.gone: list[tuple[float, float]] = []
        self.write()

    def write(self) -> None:
        room = {"name": "centre", "begin_s": self.begin_s, "room": self.room, "under_way": self.under_way, "whole": 6e3}
        self.path.write_text(
            json.dumps({"time_s": self.now_s, "rooms": {"centre": room}, "gone": {"centre": self.gone}})
        )

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        if self.at_work:
            self.write()


def keeper(folder: Path, slurm: Recorded, site: Rounds) -> BudgetKeeper:
    return BudgetKeeper(slurm, site.path, BudgetJournal(folder / "journal"), lambda: site.now_s, site.wait)


def test_the_limit_is_what_counts_and_the_room(tmp_path: Path) -> None:
    slurm, site = Recorded(), Rounds(tmp_path)
    one = keeper(tmp_path, slurm, site)
    slurm.used, slurm.running = 40, 25
    one.step()
    assert slurm.limit == 65 + 100 + SLACK
    assert one.step() == [], "nothing changed"
    site.room = 6_000.0 + 60.0 * SLACK
    assert one.step() == [], "too little for a write where nobody waits for it"
    site.under_way = 100.0
    site.room += 60.0
    assert len(one.step()) == 1
    assert slurm.limit == 65 + 104 + SLACK
    site.room = 3_000.0
    one.step()
    assert slurm.limit == 65 + 50 + SLACK, "a budget that was lowered"


def test_a_job_that_ended_after_the_use_was_read_does_not_count_twice(tmp_path: Path) -> None:
    slurm, site = Recorded(), Rounds(tmp_path)
    slurm.running = 50
    site.gone = [(site.now_s - 100.0, 60.0 * 7), (site.now_s + 0.05, 60.0 * 30)]
    keeper(tmp_path, slurm, site).step()
    assert slurm.limit == 50 - 30 + 100 + SLACK


def test_without_a_controller_nothing_is_changed(tmp_path: Path) -> None:
    slurm, site = Recorded(), Rounds(tmp_path)
    one = keeper(tmp_path, slurm, site)
    one.step()
    slurm.written.clear()
    site.at_work, site.room = False, 1e9
    assert one.step() == []
    site.path.unlink()
    assert one.step() == []
    assert slurm.written == []


def test_a_period_begins_with_nothing_used_whatever_happens_between(tmp_path: Path) -> None:
    slurm, site = Recorded(), Rounds(tmp_path)
    one = keeper(tmp_path, slurm, site)
    slurm.used = 90
    one.step()
    site.begin_s = DAY
    slurm.written.clear()
    one.step()
    assert slurm.written == ["GrpTRESMins=license/watts=0", "RawUsage=0"]
    one.journal.close()
    one = keeper(tmp_path, slurm, site)  # killed, and started again
    one.step()
    assert slurm.limit == 100 + SLACK
    events = [json.loads(line) for line in (tmp_path / "journal").read_text().splitlines()]
    assert [(event["event"], event["raised"]) for event in events] == [
        ("set", 90 + SLACK),
        ("renew", 0),
        ("set", SLACK),
    ]


def test_each_change_is_in_the_journal_before_it_is_made(tmp_path: Path) -> None:
    slurm, site = Recorded(), Rounds(tmp_path)
    one, run = keeper(tmp_path, slurm, site), slurm.run

    def failing(argv: Sequence[str]) -> CommandResult:
        return run(argv) if argv[1] != "-i" else CommandResult(1, "", "denied", 0.0)

    slurm.run = failing  # type: ignore[method-assign]
    with pytest.raises(Exception, match="denied"):
        one.step()
    assert json.loads((tmp_path / "journal").read_text())["limit"] == 100 + SLACK
    assert slurm.limit == -1


def test_two_processes_do_not_keep_the_same_budgets(tmp_path: Path) -> None:
    first = BudgetJournal(tmp_path / "journal")
    with pytest.raises(InputError, match="another process keeps budgets"):
        BudgetJournal(tmp_path / "journal")
    first.close()
    (tmp_path / "link").symlink_to(tmp_path / "journal")
    with pytest.raises(InputError, match="cannot be written"):
        BudgetJournal(tmp_path / "link")


def test_a_file_that_is_not_the_controllers_is_said(tmp_path: Path) -> None:
    slurm, site = Recorded(), Rounds(tmp_path)
    site.path.write_text('{"time_s": "x"}')
    with pytest.raises(InputError, match="is no file of a controller's budgets"):
        keeper(tmp_path, slurm, site).step()


@pytest.mark.parametrize(
    ("change", "state", "says"),
    [
        ({"AccountingStorageTRES": "cpu,energy"}, "no", "does not track license/watts"),
        ({"AccountingStorageEnforce": "limits"}, "no", "Slurm ends running jobs at the limit"),
        ({"AccountingStorageEnforce": "associations"}, "no", "no limit is enforced"),
        ({"PriorityType": "priority/basic"}, "no", "counts no use"),
        ({"flags": ""}, "no", "decays"),
        ({"flags": "", "PriorityDecayHalfLife": "0", "PriorityUsageResetPeriod": "MONTHLY"}, "no", "to zero (MONTHLY)"),
        ({"flags": "NoDecay,DenyOnLimit"}, "part", "DenyOnLimit"),
        ({"assoc": "all|ann|centre,normal\nall|bob|centre\n"}, "part", "1 users of QOS centre may choose another"),
    ],
)
def test_what_slurm_lacks_is_named(change: dict[str, str], state: str, says: str) -> None:
    slurm = Recorded()
    for name, value in change.items():
        if name in SETTINGS:
            slurm.settings[name] = value
        else:
            setattr(slurm, name, value)
    (found,) = [one for one in examine_qos(slurm, {"centre": "phys"}) if says in one.found]
    assert found.state == state
    assert found.cost
    if state == "no":
        with pytest.raises(InputError, match="budgets are not kept"):
            require_kept(slurm, {"centre": "phys"})
    else:
        assert any(says in line for line in require_kept(slurm, {"centre": "phys"}))


def test_a_slurm_that_has_all_is_fine_and_a_qos_that_is_not_there_is_named() -> None:
    slurm = Recorded()
    assert all(one.state == "yes" for one in examine_qos(slurm, {"centre": "phys"}))
    assert require_kept(slurm, {"centre": "phys"}) == []
    with pytest.raises(InputError, match="there is no QOS other"):
        require_kept(slurm, {"other": "phys"})
    assert read_use(slurm, "other") is None
