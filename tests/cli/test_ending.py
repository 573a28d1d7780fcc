"""How a command ends: by a signal, by a reader that has gone, by an error near a part of the user's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wattqueue.cli import _app

RUN = [sys.executable, "-c", "from wattqueue.cli import main; main()"]


pytestmark = pytest.mark.usefixtures("signals_heard")

SLOW = '''"""Write slowly."""

import time
from pathlib import Path

from wattqueue.formats.atomic_write import atomic_write


def run(out: Path) -> None:
    """Write slowly."""
    with atomic_write(out) as temporary:
        temporary.write_text("half")
        print("writing", flush=True)
        time.sleep(60)
'''


def slow_verb(folder: Path) -> list[str]:
    """A command line whose only verb is writing a file when the signal comes."""
    folder.mkdir()
    (folder / "slow.py").write_text(SLOW)
    code = (
        "import sys, wattqueue.cli as cli; from wattqueue.cli import _app\n"
        f"sys.path.insert(0, {str(folder)!r}); _app.VERBS = {{'slow': ('slow', 'Write slowly.')}}; cli.main()"
    )
    return [sys.executable, "-c", code, "slow", str(folder / "out.txt")]


SWALLOWED = """
import signal, time
import wattqueue.cli as cli

class Held:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)
        time.sleep(0)

def run(arguments, received):
    del arguments
    held = Held()
    del held
    try:
        time.sleep(20)
        print("to its end")
    except KeyboardInterrupt:
        return 130
    return 0

cli._run = run
cli.main()
"""


def test_a_signal_that_a_destructor_swallows_comes_again() -> None:
    """Python cannot raise from ``__del__``: the run went on to its end, for an hour if it took one."""
    done = subprocess.run([sys.executable, "-c", SWALLOWED], capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stderr == ""
    assert done.stdout == "", "the run ended before its own end"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_half_file_and_no_words(tmp_path: Path, number: signal.Signals) -> None:
    """A batch system's time limit is SIGTERM: it ends a command as Ctrl-C does."""
    folder = tmp_path / "verbs"
    with subprocess.Popen(slow_verb(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "writing\n"
        assert list(folder.glob(".out.txt.*.part"))
        running.send_signal(number)
        _, err = running.communicate(timeout=180)
    assert running.returncode == 128 + number
    assert err == ""
    assert [p.name for p in folder.iterdir() if p.name != "__pycache__"] == ["slow.py"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8])
def test_a_signal_in_the_first_moments_prints_no_traceback(
    tmp_path: Path, number: signal.Signals, after_s: float
) -> None:
    """From the first statement of main() on: numpy, numba and polars are imported under its handlers.

    Before, the interpreter itself is starting, which no program can change.
    """
    trace = tmp_path / "trace.csv"
    trace.write_text("submit_s,nodes,runtime_s\n0,1,10\n")
    ready = (
        "import wattqueue.cli as cli; install = cli._raise_on_signals\n"
        "cli._raise_on_signals = lambda received: (install(received), print('up', flush=True))\n"
        "cli.main()"
    )
    call = [sys.executable, "-c", ready, "simulate", str(trace), "--nodes", "4"]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        running.stdout.readline()
        time.sleep(after_s)
        running.send_signal(number)
        _, err = running.communicate(timeout=180)
    assert "Traceback" not in err
    assert "Exception ignored" not in err
    assert running.returncode in (0, 128 + number, -number)


@pytest.mark.parametrize("closed", ["stdout", "stderr", "both"])
def test_closed_streams(closed: str) -> None:
    """``>&-``: there is nothing to print to, and no file of the run takes the free descriptor."""
    shell = {"stdout": ">&-", "stderr": "2>&-", "both": ">&- 2>&-"}[closed]
    call = f"{sys.executable} -c 'from wattqueue.cli import main; main()' machine list {shell}"
    done = subprocess.run(["/bin/sh", "-c", call], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr


@pytest.mark.parametrize("verb", ["policies", "machine list", "--help", "machine show marconi100"])
def test_a_reader_that_takes_one_line(verb: str) -> None:
    """``| head -1``: no traceback, and no complaint of the interpreter when it exits."""
    call = f"{sys.executable} -c 'from wattqueue.cli import main; main()' {verb} | head -1"
    done = subprocess.run(["/bin/sh", "-c", call], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""


PARTS = '''
class Mine:
    """Highest first."""

    def entries(self, jobs, prediction, machine):
        """One entry per job."""
        return 1 / 0
'''


def test_only_errors_of_a_part_are_laid_to_its_file(tmp_path: Path) -> None:
    """One that is raised elsewhere is reported from there, with the part named as loaded only."""
    own = tmp_path / "mine.py"
    own.write_text(PARTS)
    from wattqueue.policy.registry import class_from_file

    part = class_from_file(f"{own}:Mine")
    try:
        part().entries(None, None, None)
    except ZeroDivisionError as error:
        line = _app.explain(error)
    assert line is not None
    assert line.startswith(f"{own}:7: ZeroDivisionError")
    try:
        int("not a number")
    except ValueError as error:
        line = _app.explain(error)
    assert line is not None
    assert line.startswith(__file__)


def test_nohup_is_respected(tmp_path: Path) -> None:
    """A signal that the parent ignores stays ignored."""
    folder = tmp_path / "verbs"
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with subprocess.Popen(slow_verb(folder), stdout=subprocess.PIPE, env=os.environ) as running:
            assert running.stdout is not None
            running.stdout.readline()
            running.send_signal(signal.SIGHUP)
            with pytest.raises(subprocess.TimeoutExpired):
                running.wait(0.5)
            running.send_signal(signal.SIGTERM)
            assert running.wait(180) == 128 + signal.SIGTERM
    finally:
        signal.signal(signal.SIGHUP, before)
