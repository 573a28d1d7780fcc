"""Whoever reads the output of a command has gone: no traceback, and the status says whether the command failed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from wattqueue.live.reports.metrics import LiveMetrics, serve

MAIN = "from wattqueue.cli import main; main()"
ENDLESS = """
from wattqueue.terminal import say
for number in range(3):
    say(f"line {number}")
open(FILE, "w").write("went on")
"""


def closed_pipe() -> int:
    """The end to write to of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("--help",), 0),
        (("policies",), 0),
        (("machine", "list"), 0),
        (("machine", "show", "quartz"), 0),
        (("live", "--help"), 0),
        (("--version",), 0),
        (("nonsense",), 2),
        (("machine", "show", "no-such-machine"), 2),
    ],
)
@pytest.mark.parametrize("both", [False, True])
def test_every_verb_ends_without_a_traceback(arguments: tuple[str, ...], status: int, both: bool) -> None:
    writer = closed_pipe()
    errors = writer if both else subprocess.PIPE
    done = subprocess.run([sys.executable, "-c", MAIN, *arguments], stdout=writer, stderr=errors, check=False)
    os.close(writer)
    assert done.returncode == status
    assert b"Traceback" not in (done.stderr or b"")
    assert b"Broken" not in (done.stderr or b"")


def test_a_service_goes_on_without_a_reader_of_its_log(tmp_path: Path) -> None:
    writer = closed_pipe()
    text = ENDLESS.replace("FILE", repr(str(tmp_path / "end")))
    subprocess.run([sys.executable, "-c", text], stdout=writer, stderr=writer, check=False)
    os.close(writer)
    assert (tmp_path / "end").read_text() == "went on"


def test_a_scraper_that_goes_away_leaves_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    metrics = LiveMetrics("control")
    asked, gone = threading.Event(), threading.Event()

    def status() -> str:
        asked.set()
        gone.wait(180.0)
        return "x" * 50_000_000  # more than the kernel takes for a client that has gone

    server = serve(metrics, "127.0.0.1", 0, "", status)
    with socket.create_connection(server.server_address[:2]) as client:
        client.sendall(b"GET /status HTTP/1.0\r\n\r\n")
        assert asked.wait(180.0)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    gone.set()
    server.shutdown()
    server.server_close()
    for thread in threading.enumerate():
        if "process_request" in thread.name:
            thread.join(180.0)
    said = capfd.readouterr()
    assert "Traceback" not in said.err + said.out
