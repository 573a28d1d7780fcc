"""Events reach the live session: the pool of an emulated Slurm follows, and the cap holds whatever the VTN does."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.slurmlab import wait_for
from tests.live.test_live_targets import fake_slurm
from tests.wattqueue_grid.openadr.grid import SECRET, Grid, limit, section, soon
from wattqueue.errors import InputError
from wattqueue.live.config import load_config
from wattqueue.live.features.configured import targets_of
from wattqueue.live.reports.metrics import LiveMetrics
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.signals import Cap
from wattqueue_grid.openadr.memory import alone
from wattqueue_grid.openadr.section import OpenADRSection
from wattqueue_grid.openadr.service import VenService, rules_of, same_targets, ven_of

IDLE_W = 800.0
"""Eight nodes of 100 W."""


def test_an_event_reaches_the_pool_and_holds_while_the_vtn_fails(grid: Grid, tmp_path: Path) -> None:
    event = grid.event(grid.program(), **limit("IMPORT_CAPACITY_LIMIT", 1.5, start_s=soon(-60)))
    wanted = section(grid.url, other_kw=0.4, poll_s=1.0)
    (tmp_path / "ven").mkdir()
    service = VenService(ven_of(wanted, SECRET, lab_machine(), tmp_path / "ven"))
    lines: list[str] = []
    service.start(lines.append)
    try:
        wait_for("the target", lambda: len(service.targets()) == 1, 20.0)
        assert list(service.targets().correlation_id) == [event]
        slurm = fake_slurm()
        slurm.now_s = time.time()
        controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(2000.0), targets=service)
        controller.round()
        assert slurm.open_w == 1500 - 400 - IDLE_W
        grid.fault(status=500, count=10_000)
        wait_for("the problem", lambda: any("500" in text for text in service.problems()), 20.0)
        report = controller.round()
        assert report is not None
        assert any(text.startswith("OpenADR:") for text in report.problems)
        assert slurm.open_w == 1500 - 400 - IDLE_W
        grid.fault()
        grid.delete(event)
        wait_for("the end of the target", lambda: not any(t > time.time() for t in service.targets().end_s), 20.0)
        slurm.now_s = time.time() + 1.0
        controller.round()
        assert slurm.open_w == 2000 - IDLE_W
        assert f"OpenADR: event {event}: cancelled" in lines
    finally:
        service.close()


def test_an_event_that_cannot_be_used_is_in_the_status_the_log_and_the_metrics(grid: Grid, tmp_path: Path) -> None:
    program, bad = grid.program(), list[str]()
    bad.append(grid.event(program, **limit("IMPORT_CAPACITY_LIMIT", 1.5, units="KWH", start_s=soon(600))))
    bad.append(grid.event(program))
    bad.append(grid.event(program, **limit("IMPORT_CAPACITY_LIMIT", "NaN", start_s=soon(600))))
    over = grid.event(program, **limit("IMPORT_CAPACITY_LIMIT", 1.5, start_s=1e9))
    (tmp_path / "ven").mkdir()
    service = VenService(ven_of(section(grid.url, poll_s=1.0), SECRET, lab_machine(), tmp_path / "ven"))
    lines: list[str] = []
    service.start(lines.append)
    try:
        wait_for("the events", lambda: service.unusable() == len(bad), 20.0)
        slurm = fake_slurm()
        slurm.now_s = time.time()
        controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(2000.0), targets=service)
        report = controller.round()
        assert report is not None
        for event in bad:
            assert sum(event in text for text in report.problems) == 1
            assert sum(event in text and "cannot be used" in text for text in lines) == 1
        assert not [text for text in (*report.problems, *lines) if over in text and "cannot" in text]
        assert "units KWH" in " ".join(report.problems)
        assert isinstance(controller.meter, LiveMetrics)
        assert controller.meter.registry.get_sample_value("wattqueue_unusable_targets") == len(bad)
        for event in bad:
            grid.delete(event)
        wait_for("their end", lambda: service.unusable() == 0, 20.0)
        assert not service.problems()
    finally:
        service.close()


def test_one_process_runs_a_ven(grid: Grid, tmp_path: Path) -> None:
    service = VenService(ven_of(section(grid.url), SECRET, lab_machine(), tmp_path))
    with alone(tmp_path), pytest.raises(InputError, match="another process"):
        service.start(lambda _: None)
    service.start(lambda _: None)
    service.close()
    service.ven.client.close()


CONFIG = """
machine = "osaka"
mode = "observe"
run_dir = "run"

[openadr]
vtn = "https://vtn.example/openadr3"
client_id = "hpc"
client_secret_file = "secret"
ven_name = "hpc-centre"
emergency_kw = 20
baseline = "baseline.csv"
"""


def test_the_section_of_the_configuration_makes_a_source(tmp_path: Path) -> None:
    (tmp_path / "live.toml").write_text(CONFIG)
    (tmp_path / "secret").write_text("s3cret\n")
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "baseline.csv").write_text("time_s,power_w\n0,50000\n")
    config = load_config(tmp_path / "live.toml")
    assert isinstance(config.openadr, OpenADRSection)
    assert config.openadr.client_secret_file == tmp_path / "secret"
    machine = lab_machine()
    source = targets_of(config, machine)
    assert isinstance(source, VenService)
    assert not source.ven.section.reports, "a controller that only looks reports nothing"
    assert source.ven.baseline_w is not None
    assert not len(source.targets())
    (tmp_path / "secret").chmod(0o644)
    with pytest.raises(InputError, match="readable by others"):
        targets_of(config, machine)


def test_limits_of_the_site_are_those_of_the_cap_s_scope() -> None:
    from dataclasses import replace

    whole = rules_of(section("https://x.example", other_kw=1.0), lab_machine())
    assert (whole.beside_w, whole.idle_w, whole.maximum_w) == (1000.0, IDLE_W, 2400.0)
    above = rules_of(section("https://x.example", other_kw=1.0), replace(lab_machine(), cap_scope="dynamic"))
    assert (above.beside_w, above.idle_w, above.maximum_w) == (1000.0 + IDLE_W, 0.0, 1600.0)


def test_tables_of_targets_are_compared_by_value() -> None:
    one, other = (LoadTargets.of(LoadTarget(0.0, 1.0, 5.0)) for _ in range(2))
    assert same_targets(one, other)
    assert not same_targets(one, LoadTargets.none())
    assert not same_targets(one, LoadTargets.of(LoadTarget(0.0, 1.0, 6.0)))
    assert np.isfinite(one.limit).all()
