"""Licences of power domains in Slurm's commands, in its lists, and in job_submit.lua."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.live.fakeslurm import FakeSlurm
from tests.live.lua import Lua, library
from tests.live.submit_script import with_data
from wattqueue.errors import InputError
from wattqueue.live.cluster import ChangeJob, JobFields, Pool, SetDomains, SetPool
from wattqueue.live.files.supply_limits import GATE, FallBack, read_supply
from wattqueue.live.slurm.commands import CommandResult, SlurmError
from wattqueue.live.slurm.domain_lists import parse_pools, with_domains
from wattqueue.live.slurm.domain_writer import DomainReservation, DomainWriter
from wattqueue.live.slurm.guard import missing_domains, without_watts
from wattqueue.live.slurm.install import Settings, slurm_conf_lines
from wattqueue.live.slurm.submit_data import NodeWatts, SubmitData

DATA = SubmitData({"p1": NodeWatts(200, 100, 16, 4, held=True)})
SHOWN = "ReservationName=wattqueue StartTime=1 Licenses={} State=ACTIVE\n"


@dataclass
class Commands:
    """Slurm's commands: a reservation as it is shown, and what was run."""

    held: str = ""
    ran: list[str] = field(default_factory=list)

    def run(self, argv: Sequence[str]) -> CommandResult:
        shows = "show" in argv and bool(self.held)
        if "show" not in argv:
            self.ran.append(" ".join(argv[1:]))
        return CommandResult(0 if shows or "show" not in argv else 1, SHOWN.format(self.held) if shows else "", "", 0.0)


def writer_on(held: str) -> tuple[DomainWriter, Commands]:
    commands, slurm = Commands(held), FakeSlurm({"p": ["n1"]}, 1000)
    slurm.domains = {"w1": 300, GATE: 1}
    job = slurm.submit(1, 1.0, watts=200)
    job.licences |= {"matlab": 1, GATE: 1}
    writer = DomainWriter(commands, DomainReservation(), clock=lambda: slurm.now_s)
    writer.observed(slurm.observe())
    return writer, commands


@pytest.mark.parametrize("shown", ["watts:100,w1:50,other:2", "watts:100;w1:50;other:2"], ids=["24.11", "26.05"])
def test_one_reservation_holds_what_is_withheld_of_the_pool_and_of_domains(shown: str) -> None:
    writer, commands = writer_on(shown)
    writer.apply(SetPool("watts", "900", "700", 700))
    writer.apply(SetDomains("domains", "", "", (("w1", 100), (GATE, 0), ("gone", 5))))
    assert commands.ran == [
        "update ReservationName=wattqueue Licenses=watts:300,w1:50,other:2",
        "update ReservationName=wattqueue Licenses=watts:100,w1:200,other:2,watts_gate:1",
    ]


def test_the_reservation_is_made_and_deleted() -> None:
    writer, commands = writer_on("")
    writer.apply(SetDomains("domains", "", "", ((GATE, 0),)))
    assert commands.ran[0].startswith("create reservation ReservationName=wattqueue StartTime=now")
    assert commands.ran[0].endswith("Licenses=watts_gate:1")
    writer, commands = writer_on("w1:50")
    writer.apply(SetDomains("domains", "", "", (("w1", 300),)))
    assert commands.ran == ["delete ReservationName=wattqueue"]


@pytest.mark.parametrize(
    ("fields", "licences"),
    [
        (JobFields(watts=100), "matlab:1,watts_gate:1,watts:100"),
        (JobFields(domains=(("w1", 100),)), "matlab:1,w1:100,watts:200"),
        (JobFields(watts=100, domains=()), "matlab:1,watts:100"),
    ],
)
def test_an_update_replaces_licences_and_keeps_the_others(fields: JobFields, licences: str) -> None:
    writer, commands = writer_on("")
    assert writer.seen is not None
    (row,) = writer.seen.jobs
    row = row._replace(native=("matlab:1",))
    writer.seen = type(writer.seen)(writer.seen.taken_s, (row,), writer.seen.nodes, writer.seen.pool)
    write = ChangeJob(row.key.name, "", "", fields, key=row.key)
    writer.apply(write)
    assert writer.apply_batch([write, write]) == ["", ""]
    assert commands.ran[0] == f"update JobId=1 Licenses={licences}"
    assert commands.ran[1] == f"update JobId=1,1 Licenses={licences}"


def test_licences_of_domains_are_none_of_the_sites() -> None:
    slurm = FakeSlurm({"p": ["n1"]}, 1000)
    slurm.submit(1, 1.0, watts=200)
    row = slurm.observe().jobs[0]._replace(native=("matlab:1", "w1:30", "w2", "w1:5"))
    found = with_domains(row, {"w1", "w2"})
    assert (found.native, found.domains) == (("matlab:1",), (("w1", 35), ("w2", 1)))
    assert with_domains(row, {"w9"}) is row
    text = "LicenseName=w1 Total=300 Used=20 Free=280 Reserved=10 Remote=no\nLicenseName=x Total=1 Used=0\n"
    assert parse_pools(text, {"w1"}) == {"w1": Pool(300, 20, 10)}
    with pytest.raises(SlurmError, match="w1"):
        parse_pools("LicenseName=w1 Total=none\n", {"w1"})


def test_what_slurm_conf_lacks_is_named() -> None:
    found = missing_domains({"w1": Pool(200, 0, 0)}, {"w1": 300, "w2": 100})
    assert [(one.what, one.fatal) for one in found] == [
        ("slurm.conf has w1:200, a power domain with 300 W for jobs", False),
        ("slurm.conf has no licence w2:100 (a power domain)", True),
        ("slurm.conf has no licence watts_gate:1 (a power domain)", True),
    ]
    assert missing_domains({}, {}) == []


def test_an_uninstall_leaves_nothing_of_domains_in_slurm() -> None:
    slurm = FakeSlurm({"p": ["n1"]}, 1000)
    slurm.domains, slurm.domains_aside = {"w1": 300, GATE: 1}, {"w1": 100, GATE: 1}
    job = slurm.submit(1, 1.0, watts=200)
    job.licences |= {"w1": 200, "matlab": 1}
    for write in without_watts(slurm.observe()):
        slurm.apply(write)
    assert (job.licences, slurm.domains_aside) == ({"matlab": 1}, {"w1": 0, GATE: 0})
    assert without_watts(slurm.observe()) == []


@pytest.mark.skipif(library() is None, reason="no liblua")
def test_jobs_are_held_behind_the_gate_whether_or_not_a_controller_is_at_work(tmp_path: Path) -> None:
    settings = Settings(DATA, [1234], tmp_path / "beat", 60, 1000, {"w1": 300})
    assert "Licenses=watts:1000,w1:300,watts_gate:1" in slurm_conf_lines(tmp_path, settings, None)
    lua = Lua(with_data(settings))
    parts = "{ p1 = { total_nodes = 4, flag_default = 1 } }"
    fields = "{ partition = 'p1', min_nodes = 2, max_nodes = 2, num_tasks = 2, licenses = 'w1:5;x:1,watts_gate:1' }"
    made = lua.run(f"jd = {fields}; slurm_job_submit(jd, {parts}, 1000); return jd.licenses .. ' ' .. jd.priority")
    assert made == "x:1,watts:400,watts_gate:1 0"
    change = "return slurm_job_modify({{ req_nodes = 'n1' }}, {{ licenses = 'watts:200', priority = {} }}, {{}}, 1000)"
    assert lua.run(change.format(0)) != "0"
    assert lua.run(change.format(5)) != "0"
    lua.close()
    hetero = fields.replace("num_tasks = 2", "num_tasks = 2, het_job_offset = 0")
    for domains in (settings, settings._replace(domains={}, hres=True)):
        lua = Lua(with_data(domains))
        assert lua.run(f"jd = {hetero}; return slurm_job_submit(jd, {parts}, 1000)") != "0", "it could never start"
        assert lua.run(f"jd = {fields}; slurm_job_submit(jd, {parts}, 1000); return jd.priority") == "0"
        lua.close()
    plain = Lua(with_data(settings._replace(domains={})))
    assert plain.run(change.format(0)) == "0", "without domains a held job's nodes are its user's"
    plain.close()


def test_a_damaged_file_of_domains_is_named(tmp_path: Path) -> None:
    assert read_supply(tmp_path) is None
    (tmp_path / "domains").write_text(FallBack([], {"n1": 200, "n2": 200}, ("w1",)).text())
    found = read_supply(tmp_path)
    assert found is not None
    assert (found.node_w, found.licences) == ({"n1": 200, "n2": 200}, ("w1",))
    (tmp_path / "domains").write_text("[]")
    with pytest.raises(InputError, match="cannot be read"):
        read_supply(tmp_path)
