"""Notifications by webhook and by a real MQTT broker, over TLS; secrets are in no log and no file."""

from __future__ import annotations

import logging
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.live.procs import end_all
from tests.live.slurmlab import free_ports, wait_for
from tests.wattqueue_grid.openadr.grid import KW, SECRET, Grid, client, limit, soon, ven
from wattqueue.errors import InputError
from wattqueue_grid.openadr.client import Secrets, VtnError
from wattqueue_grid.openadr.notifier import address, offered
from wattqueue_grid.openadr.objects import parse
from wattqueue_grid.openadr.section import OpenADRSection
from wattqueue_grid.openadr.service import VenService
from wattqueue_grid.openadr.webhook import Webhook

SUBJECT = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]


@contextmanager
def running(service: VenService) -> Iterator[VenService]:
    service.start(lambda _: None)
    try:
        yield service
    finally:
        service.close()


def limits(service: VenService) -> list[float]:
    return list(service.outcome().targets.limit)


def test_a_webhook_is_notified_at_once(grid: Grid, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    callback = {"url": f"http://localhost:{port}/openadr", "port": port}
    program = grid.program()
    with running(VenService(ven(grid.url, tmp_path, poll_s=3600.0, callback=callback))) as service:
        hook = service.webhook
        assert hook is not None
        wait_for("the subscription", lambda: bool(hook.subscription_id), 20.0)
        event = grid.event(program, **limit("IMPORT_CAPACITY_LIMIT", 50, start_s=soon()))
        wait_for("the target", lambda: limits(service) == [50 * KW], 20.0)
        grid.delete(event)
        wait_for("its end", lambda: limits(service) == [], 20.0)
        assert {one["status"] for one in grid.delivered()} == {200}
        assert not service.problems()
    assert not [one for one in grid.objects() if one["objectType"] == "SUBSCRIPTION"]


def test_a_forged_call_of_the_webhook_is_refused(grid: Grid, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    woken: list[int] = []
    section = ven(grid.url, tmp_path, callback={"url": f"http://localhost:{port}/openadr", "port": port}).section
    assert section.callback is not None
    hook = Webhook(section.callback, lambda: woken.append(1))
    hook.open()
    try:
        url, ours = f"http://127.0.0.1:{port}", {"Authorization": f"Bearer {hook.token}"}
        note = {"objectType": "EVENT", "operation": "CREATE", "object": {}}

        def status(path: str, headers: dict[str, str], **content: object) -> int:
            return httpx.post(f"{url}{path}", headers=headers, timeout=180.0, **content).status_code  # type: ignore[arg-type]

        assert status("/openadr", {}, json=note) == 401
        assert status("/openadr", {"Authorization": "Bearer x"}, json=note) == 401
        assert status("/other", ours, json=note) == 404
        assert status("/openadr", ours, content=b"{") == 400
        assert status("/openadr", ours, json=["EVENT"]) == 400
        assert status("/openadr", ours, content=b" " * (1 << 21)) == 413
        assert httpx.get(f"{url}/openadr", timeout=180.0).status_code == 501
        assert woken == []
        assert status("/openadr", ours, json={**note, "objectType": "REPORT"}) == 200
        assert woken == []
        assert status("/openadr", ours, json=note) == 200
        assert woken == [1]
    finally:
        hook.close()


def test_a_webhook_that_cannot_listen_is_a_clear_error(grid: Grid, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    section = ven(grid.url, tmp_path, callback={"url": f"http://localhost:{port}/", "port": port}).section
    assert section.callback is not None
    first, second = (Webhook(section.callback, lambda: None) for _ in range(2))
    first.open()
    try:
        with pytest.raises(InputError, match="cannot listen"):
            second.open()
    finally:
        first.close()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("localhost", port), 1.0).close()
    except OSError:
        return False
    return True


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    """A real mosquitto on loopback."""
    if shutil.which("mosquitto", path="/usr/sbin:/usr/bin:/bin") is None:
        pytest.skip("needs mosquitto (apt-get install mosquitto)")
    (port,) = free_ports(1)
    conf = tmp_path / "broker.conf"
    conf.write_text(f"listener {port} localhost\nallow_anonymous true\nuser root\n")
    with (tmp_path / "broker.log").open("wb") as log:
        process = subprocess.Popen(
            ["mosquitto", "-c", str(conf)], stdout=log, stderr=log, env={"PATH": "/usr/sbin:/usr/bin"}
        )
    wait_for("mosquitto", lambda: listens(port), 180.0)
    yield f"mqtt://localhost:{port}"
    process.terminate()
    process.wait(180)


def test_mqtt_is_used_where_the_vtn_offers_it(document: Path, broker: str, tmp_path: Path) -> None:
    (tmp_path / "vtn").mkdir()
    grid = Grid(tmp_path / "vtn", document, "--mqtt", broker)
    try:
        program = grid.program()
        with running(VenService(ven(grid.url, tmp_path, poll_s=3600.0))) as service:
            wait_for("MQTT", lambda: service.notifier is not None and not service.notifier.problem, 20.0)
            assert service.notifier is not None
            assert f"openadr/programs/{program}/events/create" in service.notifier.topics
            time.sleep(0.3)  # the broker's answer to the subscription
            event = grid.event(program, **limit("IMPORT_CAPACITY_LIMIT", 50, start_s=soon()))
            wait_for("the target", lambda: limits(service) == [50 * KW], 20.0)
            grid.delete(event)
            wait_for("its end", lambda: limits(service) == [], 20.0)
        assert grid.violations() == []
    finally:
        grid.close()
        end_all(str(tmp_path / "vtn"))


def test_no_mqtt_where_the_vtn_offers_none(grid: Grid) -> None:
    assert offered(client(grid.url)) is None


@pytest.mark.parametrize(
    ("uris", "expected"),
    [
        (("mqtts://b.example",), ("b.example", 8883, True)),
        (("mqtt://b.example", "mqtts://b.example:1"), ("b.example", 1, True)),
        (("tcp://b.example",), ("b.example", 1883, False)),
    ],
)
def test_the_address_of_a_broker(uris: tuple[str, ...], expected: tuple[str, int, bool]) -> None:
    assert address(uris) == expected


@pytest.mark.parametrize("uri", ["wss://b.example", "mqtt://", "mqtts://b.example:many", ""])
def test_a_broker_that_cannot_be_used_is_refused(uri: str) -> None:
    with pytest.raises(InputError):
        address((uri,))


@pytest.mark.parametrize(
    "wrong",
    [
        {"vtn": "http://vtn.example"},
        {"vtn": "ftp://localhost"},
        {"vtn": "https://user:password@vtn.example"},
        {"token_url": "http://auth.example/token"},
        {"callback": {"url": "http://hpc.example/openadr"}},
        {"setpoint": "relative"},
        {"poll_s": 0.1},
        {"currency": "euro"},
        {"secret": "in the file itself"},
    ],
)
def test_a_configuration_that_is_not_safe_or_not_complete_is_refused(wrong: dict[str, object]) -> None:
    from pydantic import ValidationError

    known = {"vtn": "https://vtn.example", "client_id": "x", "client_secret_file": "s", "ven_name": "v"}
    OpenADRSection.model_validate(known)
    with pytest.raises(ValidationError):
        OpenADRSection.model_validate({**known, **wrong})


def test_tls_is_checked_and_no_secret_is_shown(
    document: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    caplog.set_level(logging.DEBUG)
    folder = tmp_path / "vtn"
    folder.mkdir()
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *SUBJECT]
    for name in ("vtn", "other"):
        files = ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.crt")]
        subprocess.run([*make, *files], check=True, capture_output=True)
    grid = Grid(folder, document, "--cert", f"{folder}/vtn.crt", "--key", f"{folder}/vtn.key", scheme="https")
    try:
        grid.event(grid.program(), **limit("IMPORT_CAPACITY_LIMIT", 50, start_s=soon()))
        stranger = client(grid.url, ca_file=folder / "other.crt")
        with pytest.raises(VtnError, match="CERTIFICATE_VERIFY_FAILED"):
            stranger.get("/programs")
        with pytest.raises(VtnError, match="CERTIFICATE_VERIFY_FAILED"):
            client(grid.url).get("/programs")
        caplog.clear()  # the lines of the certificates above are of a client without secrets in them
        state = tmp_path / "state"
        state.mkdir()
        one = ven(grid.url, state, ca_file=folder / "vtn.crt")
        one.step(time.time())
        assert list(one.outcome(time.time()).targets.limit) == [50 * KW]
        token = one.client.token()
        grid.forget_tokens()
        grid.start_token()
        grid.fault(path="/events", status=400, body=f'{{"detail": "you sent {token} and {SECRET}"}}')
        one.step(time.time(), notified=True)
        assert "you sent *** and ***" in one.problems["vtn"]
        shown = "\n".join([caplog.text, repr(one), repr(one.client), *one.log, *one.problems.values()])
        kept = b"".join(path.read_bytes() for path in state.rglob("*") if path.is_file())
        for secret in (SECRET, token, one.client.token()):
            assert secret not in shown
            assert secret.encode() not in kept
        assert caplog.records  # httpx does log, and no secret is in it
    finally:
        grid.close()


def test_secrets_are_hidden_in_texts() -> None:
    secrets = Secrets()
    for text in ("abc", "abcdef", ""):
        secrets.add(text)
    assert secrets.hide("x abcdef y abc\n\x1b[2J z") == "x *** y ***  [2J z"
    assert "abc" not in repr(secrets)
    assert len(secrets.hide("z" * 1000)) == 200


@pytest.mark.parametrize("answer", ['{"token_type": "Bearer"}', '{"access_token": 5, "token_type": "Bearer"}', "[]"])
def test_an_answer_without_a_token_is_a_clear_error(grid: Grid, answer: str) -> None:
    grid.fault(path="/auth/token", status=200, body=answer)
    with pytest.raises(VtnError, match=r"access_token|object|dictionary"):
        client(grid.url).get("/programs")


@pytest.mark.parametrize("stated", ["http://elsewhere.example/token", "", 7])
def test_the_secret_goes_to_no_token_server_without_tls(grid: Grid, stated: object) -> None:
    import json

    grid.fault(path="/auth/server", status=200, body=json.dumps({"tokenURL": stated}))
    with pytest.raises(VtnError, match="tokenURL"):
        client(grid.url).get("/programs")


def test_a_token_is_renewed_before_it_ends(grid: Grid) -> None:
    now = [1000.0]
    asked = client(grid.url)
    asked.clock = lambda: now[0]
    first = asked.token()
    now[0] += 0.5 * 3600
    assert asked.token() == first
    now[0] += 0.4 * 3600
    assert asked.token() != first


def test_an_object_that_cannot_be_read_is_named_without_its_values() -> None:
    from wattqueue_grid.openadr.objects import VtnEvent

    with pytest.raises(InputError) as caught:
        parse(VtnEvent, {"id": "e7", "programID": "a/../b", "createdDateTime": "x", "modificationDateTime": "y"})
    assert caught.value.where == "VtnEvent e7"
    assert "a/../b" not in str(caught.value)
