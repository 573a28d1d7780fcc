"""The verb, the configuration and the metrics: what is wrong is said in one line, and no secret is ever shown."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from tests.live.drive import make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.site import MACHINE
from tests.program import wattqueue
from wattqueue.errors import InputError, WattQueueError
from wattqueue.live.assemble import assemble
from wattqueue.live.config import LiveConfig, load_config
from wattqueue.live.files.reading import read_secret
from wattqueue.live.files.status import RunDir, compiling_since, read_status
from wattqueue.live.reports.metrics import LiveMetrics, serve
from wattqueue.live.reports.report import describe
from wattqueue.live.slurm.guard import whole_pool
from wattqueue.live.warm_up import warm_up
from wattqueue.model.signals import Cap

PLAIN = 'machine = "m.toml"\ncap = "1800W"\n'


def write(folder: Path, text: str = PLAIN) -> Path:
    (folder / "m.toml").write_text(MACHINE)
    file = folder / "live.toml"
    file.write_text(text)
    return file


def make_slurm() -> FakeSlurm:
    return FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)


def test_the_default_writes_nothing(tmp_path: Path) -> None:
    config = load_config(write(tmp_path))
    assert config.mode == "observe"
    assert config.metrics.address == "127.0.0.1"
    assert Path(config.state) == tmp_path / "wattqueue-live.db"
    assert Path(config.machine) == tmp_path / "m.toml"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('cap = "1W"', "machine"),
        (PLAIN + "perod_s = 2\n", "perod_s"),
        (PLAIN + "[slurm]\npol = 1\n", "slurm.pol"),
        (PLAIN + "period_s = 0\n", "period_s"),
        (PLAIN + 'mode = "drive"\n', "mode"),
        (PLAIN + '[metrics]\nport = 9188\naddress = "0.0.0.0"\n', "token"),
        (PLAIN + '[slurm]\npool = "reconfigure"\n', "pool_file"),
        ("machine = [", "TOML"),
    ],
)
def test_a_wrong_configuration_names_its_key(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        load_config(write(tmp_path, text))
    assert caught.value.where == tmp_path / "live.toml"
    assert says in str(caught.value)


def test_a_token_is_not_sent_in_clear_text(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x\n")
    lines = '[telemetry]\nprometheus_query = "w"\n'
    named = 'prometheus_token_file = "token"\n'
    for url, fine in (
        ("http://mon:9090", False), ("https://mon:9090", True), ("http://127.0.0.1:9090", True),
    ):  # fmt: skip
        text = f'{PLAIN}{lines}prometheus_url = "{url}"\n'
        load_config(write(tmp_path, text))
        if fine:
            load_config(write(tmp_path, text + named))
            continue
        with pytest.raises(InputError, match="https"):
            load_config(write(tmp_path, text + named))
    with pytest.raises(InputError, match="password"):
        load_config(write(tmp_path, f'{PLAIN}{lines}prometheus_url = "https://me:hunter2@mon"\n'))
    with pytest.raises(InputError, match="ca_file"):
        load_config(write(tmp_path, f'{PLAIN}[telemetry.broker]\nhost = "broker.example"\n'))


def test_the_status_during_the_first_compile(tmp_path: Path) -> None:
    """The status of an earlier controller, or none, and no heartbeat: readers took it for no controller."""
    file = write(tmp_path)
    run_dir = RunDir(load_config(file).run_dir)
    run_dir.claim()
    begin, asked = threading.Event(), list[subprocess.CompletedProcess[str]]()

    def compile_it() -> None:
        begin.wait(180.0)

    def ask() -> None:
        asked.extend([wattqueue("live", "status", "--config", str(file), *more) for more in ((), ("--json",))])
        begin.set()

    def alive() -> None:
        run_dir.compiling(time.time() - 5.0, time.time())
        threading.Thread(target=ask).start()

    assert warm_up(threading.Event(), lambda _: None, compile_it, alive)
    assert [one.returncode for one in asked] == [0, 0]
    assert "compiling since" in asked[0].stdout
    assert json.loads(asked[1].stdout)["compiling_for_s"] >= 5.0
    run_dir.compiled()
    assert wattqueue("live", "status", "--config", str(file)).returncode == 2
    run_dir.compiling(1.0, time.time() - 60.0)
    assert compiling_since(run_dir.folder, time.time()) is None, "killed while it compiled"
    run_dir.release()


def test_a_misspelt_key_gets_the_nearest_known_one_as_a_hint(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_config(write(tmp_path, PLAIN + "perod_s = 2\n"))
    assert "period_s" in str(caught.value.hint)


@pytest.mark.parametrize("line", ['rest = "unix:/run/sock"', 'rest_token_file = "t"', 'rest_version = "v0.0.38"'])
def test_a_key_of_an_earlier_release_is_named_and_can_be_deleted(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputError) as caught:
        load_config(write(tmp_path, f"{PLAIN}[slurm]\n{line}\n"))
    assert line.partition(" ")[0] in caught.value.what
    assert "delete" in str(caught.value.hint)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_secret_that_others_may_read_is_refused_without_showing_it(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "token"
    file.write_text("hunter2\n")
    file.chmod(mode)
    with pytest.raises(InputError) as error:
        read_secret(file)
    assert error.value.where == file
    assert "chmod" in str(error.value.hint)
    assert "hunter2" not in str(error.value)
    file.chmod(0o600)
    assert read_secret(file) == "hunter2"


def test_an_empty_or_missing_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").touch(mode=0o600)
    for name in ("token", "gone"):
        with pytest.raises(InputError):
            read_secret(tmp_path / name)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, LiveMetrics]]:
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1800.0))
    metrics = controller.meter
    assert isinstance(metrics, LiveMetrics)
    for _ in range(3):
        slurm.submit(1, 50.0, watts=200)
    for _ in range(3):
        controller.round()
        slurm.step()
    slurm.fault = lambda _: "fail"
    controller.round()
    held = serve(metrics, "127.0.0.1", 0, "hunter2", lambda: '{"mode": "control"}')
    yield f"http://127.0.0.1:{held.server_address[1]}", metrics
    held.shutdown()
    held.server_close()


def get(url: str, token: str | None) -> tuple[int, str]:
    request = urllib.request.Request(url, headers={} if token is None else {"Authorization": f"Bearer {token}"})  # noqa: S310
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=180.0) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_metrics_behind_a_token(server: tuple[str, LiveMetrics]) -> None:
    url, _ = server
    for token in (None, "", "hunter", "hunter22"):
        for path in ("/metrics", "/status", "/"):
            code, body = get(url + path, token)
            assert code == 401
            assert "wattqueue_" not in body
            assert "hunter2" not in body
    code, body = get(url + "/metrics", "hunter2")
    assert code == 200
    for line in (
        "wattqueue_cluster_power_cap_watts 1800.0",
        'wattqueue_actuations_total{kind="release",result="done"} 3.0',
        'wattqueue_pool_watts{part="open"} 1000.0',
        'wattqueue_actuator_mode{mode="control"} 1.0',
        "wattqueue_observe_failures_total 1.0",
        "wattqueue_reconcile_duration_seconds_count 3.0",
    ):
        assert line in body
    assert get(url + "/status", "hunter2") == (200, '{"mode": "control"}')
    assert get(url + "/other", "hunter2")[0] == 404


def test_the_dashboard_and_the_rules_name_metrics_that_exist(server: tuple[str, LiveMetrics]) -> None:
    _, metrics = server
    known = {sample.name for family in metrics.registry.collect() for sample in family.samples}
    known |= {family.name for family in metrics.registry.collect()}
    known.add("wattqueue_cluster_power_watts")  # there while a node is measured
    share = files("wattqueue.live") / "share"
    for name in ("grafana-dashboard.json", "alerts.yml"):
        text = (share / name).read_text()
        used = set(re.findall(r"wattqueue_[a-z_]+", text))
        assert used
        assert used <= known, used - known
    board = json.loads((share / "grafana-dashboard.json").read_text())
    assert len(board["panels"]) >= 6
    assert all(panel["targets"] for panel in board["panels"])


def test_status_says_what_was_seen(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1800.0))
    slurm.submit(1, 50.0, watts=200)
    report = controller.round()
    assert report is not None
    values = describe(report, "control", controller.telemetry)
    assert values["jobs"]["waiting"] == 1
    assert read_status(tmp_path / "run")["cap_w"] == 1800.0
    config = write(tmp_path, PLAIN)
    shown = wattqueue("live", "status", "--config", str(config))
    assert shown.returncode == 0, shown.stderr
    assert "1.80 kW" in shown.stdout
    raw = wattqueue("live", "status", "--json", "--config", str(config))
    values = json.loads(raw.stdout)
    assert (values["cap_w"], values["jobs"]["waiting"]) == (1800.0, 1)
    assert values["heartbeat_age_s"] > 0
    assert any("heartbeat" in text for text in values["problems"]), "the fake's time is long ago"
    checked = wattqueue("live", "audit", "--verify", "--config", str(write(tmp_path, PLAIN + 'state = "live.db"\n')))
    assert "none changed" in checked.stdout, checked.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("live",), "--config"),
        (("live", "--config", "/no/such/file"), "/no/such/file"),
        (("live", "--config", "{config}", "--mode", "drive"), "drive"),
        (("live", "--config", "{config}", "--rounds", "-3"), "--rounds"),
        (("live", "status", "--config", "{config}"), "is the controller running"),
        (("live", "replay", "/no/such/file"), "cannot be read"),
        (("live", "replay", sys.executable), "line 1 is no recorded view"),
        (("live", "audit", "--config", "{config}"), "no such database"),
    ],
)
def test_errors_are_one_line_and_status_2(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    config = write(tmp_path)
    done = wattqueue(*(a.replace("{config}", str(config)) for a in arguments))
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ('cap = "80 bananas"', "bananas"),
        ('frequency_dir = "nope"', "nope"),
        ('policy = "easyy"', "easyy"),
        ('[applications]\ndatabase = "a.db"\ncoefficients = "no.csv"', "no.csv"),
        ('[telemetry]\nprometheus_url = "http://x"\nprometheus_token_file = "t"', "/t"),
    ],
)
def test_what_the_files_say_wrong_is_told_before_slurm_is_asked(tmp_path: Path, lines: str, says: str) -> None:
    text = 'machine = "m.toml"\n' + ("" if lines.startswith("cap") else 'cap = "1800W"\n') + lines
    (tmp_path / "t").write_text("hunter2")
    (tmp_path / "t").chmod(0o644)
    with pytest.raises(WattQueueError, match=re.escape(says)):
        assemble(load_config(write(tmp_path, f"{text}\n")))


def test_where_no_slurm_answers_the_line_says_what_live_needs(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    config = write(tmp_path, PLAIN + f'[slurm]\nbin_dir = "{tmp_path / "bin"}"\n')
    done = wattqueue("live", "--config", str(config), "--rounds", "1")
    assert done.returncode == 2
    said = done.stderr.splitlines()
    assert len(said) == 1, done.stderr
    assert "live needs a machine where sinfo answers" in said[0]


def test_two_controllers_never_share_a_run_folder(tmp_path: Path) -> None:
    first, second = RunDir(tmp_path / "run"), RunDir(tmp_path / "run")
    first.claim()
    with pytest.raises(InputError) as caught:
        second.claim()
    assert caught.value.where == tmp_path / "run"
    first.release()
    second.claim()
    second.release()


def test_the_whole_pool_is_the_highest_cap_less_idle_watts(tmp_path: Path) -> None:
    from wattqueue.formats.machine.file import load_machine

    machine = load_machine(str(write(tmp_path).parent / "m.toml"))
    assert whole_pool(LiveConfig(machine="x", cap="1800W"), machine) == 1000
    assert whole_pool(LiveConfig(machine="x", cap="none"), machine) == 1600
    assert whole_pool(LiveConfig(machine="x", cap="50%"), machine) == 400


def test_the_unit_file_gives_no_more_rights_than_needed() -> None:
    text = (files("wattqueue.live") / "share/wattqueue-live.service").read_text()
    for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "User=wattqueue", "Restart=always"):
        assert line in text
    timer = (files("wattqueue.live") / "share/wattqueue-live-release.timer").read_text()
    assert "OnUnitActiveSec=" in timer
