"""Fuzz every verb: each command line ends with status 0, 1 or 2 and one line, in time, and leaves no half file.

``make test`` runs a few command lines, ``make test-slow`` tens of thousands (``tests/fuzz/commands.py`` makes them).
``WATTQUEUE_FUZZ_SEED`` repeats a run (the seed is printed), ``WATTQUEUE_FUZZ_CASES`` sets its length,
``WATTQUEUE_FUZZ_VERB`` keeps to one verb.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sys
import traceback
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from sqlalchemy.exc import OperationalError
from typer.testing import CliRunner

from tests.fuzz.commands import OUTLIVES, WEIGHT, command_line, prepare
from tests.fuzz.files import JOBS
from tests.fuzz.options import Words, command_of, commands, names, options
from tests.fuzz.templates import LINES, PARSED, PLAIN, REFUSED, templates
from tests.fuzz.watch import LONGEST_S, START_S, Attempt, at_most, watched
from wattqueue.cli import _app, _words
from wattqueue.errors import EngineError, WattQueueError

QUICK, MANY = 80, 30_000
"""Command lines in all, split over the verbs."""


def expected(error: BaseException | None, folder: Path) -> bool:
    """Whether an error is one of those that are explained in one line, or a part of the folder raised it."""
    if error is None or isinstance(error, SystemExit):
        return True
    if isinstance(error, EngineError):
        return False
    if isinstance(error, WattQueueError) or (isinstance(error, OSError) and bool(error.strerror)):
        return True
    if isinstance(error, OperationalError):
        return _app.explain(error) is not None
    return any(Path(frame.filename).is_relative_to(folder) for frame in traceback.extract_tb(error.__traceback__))


@cache
def command(verb: str) -> Any:
    """The command of one verb: built once, as building takes longer than most lines run.

    Those of ``PARSED`` do nothing.
    """
    return parsing([words for words in PARSED if words[0] == verb], verb)


def parsing(quiet: Iterable[Words], verb: str) -> Any:
    """The command of a verb, of which some commands only parse their words."""
    root: Any = typer.main.get_command(_app.build([verb] if verb else []))
    for words in quiet:
        found = root
        for word in words:
            found = found.commands[word]
        found.callback = _nothing
    return root


def _nothing(**_: object) -> None:
    """Stand for what is not run here."""


def run(words: list[str], seconds: int = LONGEST_S) -> tuple[BaseException | None, str]:
    """Run a command line; return how it ended (None: with status 0) and what it printed.

    No program is on the path, so that nothing reaches a Slurm of this machine.
    """
    ended: BaseException | None = None
    with CliRunner(env={"PATH": "/nonexistent"}).isolation() as (_, _, output):
        try:
            with at_most(seconds):
                _words.refuse_empty(words)
                _words.refuse_foreign_digits(words)
                verb = next((word for word in words if not word.startswith("-")), "")
                command(verb if verb in _app.verbs() else "").main(args=words, prog_name="wattqueue")
        except SystemExit as leave:
            ended = leave if leave.code else None
        except Exception as error:  # noqa: BLE001 - all that is not expected is what this test looks for
            ended = error
        return ended, output.getvalue().decode("utf-8", "replace")


def attempt(words: list[str], folder: Path) -> str | None:
    """Run a command line in a folder; return what is wrong with how it ended, or None."""
    for name in [name for name in sys.modules if name.startswith("wattqueue_user_")]:
        del sys.modules[name]
    ended, output = run(words)
    if not expected(ended, folder):
        assert ended is not None
        own = any("part.py" in word or ".toml" in word for word in words)
        if own and _app.explain(ended) is not None:
            return None  # what a part returned made WattQueue fail, which is reported in one line
        return "".join(traceback.format_exception(ended))
    if isinstance(ended, SystemExit) and ended.code not in (1, 2):
        return f"exit status {ended.code}"
    if "Traceback" in output and not isinstance(ended, WattQueueError):
        return output
    half = [str(path) for path in folder.rglob("*.part")]
    return f"half-written: {half}" if half else None


class Lines:
    """Command lines by number, each run in a folder of its own."""

    def __init__(self, seed: str, folder: Path) -> None:
        self.seed, self.folder = seed, folder
        only = os.environ.get("WATTQUEUE_FUZZ_VERB")
        self.verbs = [only] if only else [verb for verb in templates() for _ in range(WEIGHT.get(verb, 1))]
        self.runs = a_run(folder)
        os.environ["COLUMNS"] = "100"

    def __call__(self, case: int) -> str | None:
        """Run one line; return the words and what went wrong."""
        rng = random.Random(f"{self.seed}/{case}")
        verb = rng.choice(self.verbs)
        words = command_line(verb, rng)
        folder = self.folder / "case"
        prepare(folder, rng, words, self.runs if "run" in words or "run2" in words else None)
        try:
            with contextlib.chdir(folder):
                wrong = attempt(words, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return None if wrong is None else f"{words}\n{wrong}"


def a_run(folder: Path) -> Path:
    """A run directory that reports read."""
    (folder / "jobs.csv").write_text(JOBS)
    line = ["simulate", str(folder / "jobs.csv"), *PLAIN, "--out", str(folder / "run"), "--no-report"]
    ended, output = run(line, int(START_S))  # the first one may have kernels to compile
    assert ended is None, (output, ended)
    return folder / "run"


def kinds(wrong: dict[int, str]) -> str:
    """One failure of each kind: those that end at the same place with the same text are one."""
    first: dict[str, str] = {}
    for case, text in sorted(wrong.items()):
        place = next((line for line in reversed(text.splitlines()) if "/wattqueue/" in line), "") + text[-200:]
        first.setdefault(place, f"case {case}: {text[:300]} ...\n{text[-1500:]}")
    return "\n\n".join(first.values())


def test_every_command_and_every_option_is_in_a_template() -> None:
    """Also those that are added later: a command without a line, or an option without a value, fails here."""
    assert {command_of(line) for line in LINES} == set(commands())
    assert set(templates()) == set(_app.verbs())
    for words in commands():
        lines = [line for line in templates()[words[0]] if command_of(line) == words]
        missing = [name for name, one in options(words).items() if not any({*names(one)} & {*line} for line in lines)]
        assert not missing, f"{' '.join(words)}: {missing}"
    assert {*REFUSED, *PARSED} <= set(commands())
    assert OUTLIVES in options(("agent", "restore"))


@pytest.mark.parametrize("verb", sorted(templates()))
def test_the_templates_can_be_parsed(verb: str) -> None:
    """Each value is one that its option takes, so that mutations reach beyond the first check."""
    root = parsing([words for words in commands() if words[0] == verb], verb)
    for line in templates()[verb]:
        assert root.main(args=[*line], prog_name="wattqueue", standalone_mode=False) is None, line


@pytest.mark.compiled
@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_the_templates_are_valid(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unmutated, they reach the end, so that mutations reach beyond the first check."""
    prepare(tmp_path / "case", None, [], a_run(tmp_path) if "run" in words else None)
    monkeypatch.chdir(tmp_path / "case")
    ended, output = run(list(words))
    if command_of(words) in REFUSED:
        assert isinstance(ended, WattQueueError), (output, ended)
    else:
        assert ended is None, (output, ended)


PRINTED = {
    command_of(line): line
    for line in reversed(LINES)
    if command_of(line) not in {*REFUSED, *PARSED} and "--json" in options(command_of(line)) and "--json" not in line
}
"""A line of each command that prints a result."""


@pytest.mark.compiled
@pytest.mark.parametrize("words", PRINTED.values(), ids=" ".join)
def test_a_result_is_json_or_nothing(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path / "case", None, [], a_run(tmp_path) if "run" in words else None)
    monkeypatch.chdir(tmp_path / "case")
    shown, quiet = (CliRunner().invoke(_app.build([words[0]]), [*words, flag]) for flag in ("--json", "--quiet"))
    assert (shown.exit_code, quiet.exit_code) == (0, 0), (shown.output, quiet.output)
    assert isinstance(json.loads(shown.stdout, parse_constant=float), dict)
    assert quiet.stdout == ""


@pytest.mark.compiled
def test_verbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few of each."""
    monkeypatch.setenv("COLUMNS", "100")
    lines = Lines("0", tmp_path)
    wrong = {case: text for case in range(QUICK) if (text := lines(case)) is not None}
    assert not wrong, kinds(wrong)


def ready(seed: str, folder: Path) -> Attempt:
    """Make the lines in a process of their own."""
    return Lines(seed, folder)


@pytest.mark.slow
@pytest.mark.compiled
def test_verbs_at_length(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tens of thousands."""
    seed = os.environ.get("WATTQUEUE_FUZZ_SEED", str(random.randrange(10**9)))
    cases = int(os.environ.get("WATTQUEUE_FUZZ_CASES", str(MANY)))
    with capsys.disabled():
        print(f"\nfuzz of verbs: {cases:,} command lines, WATTQUEUE_FUZZ_SEED={seed}")  # noqa: T201
    wrong = watched(ready, (seed,), tmp_path, cases, os.cpu_count() or 1)
    assert not wrong, f"WATTQUEUE_FUZZ_SEED={seed}, {len(wrong)} failures:\n{kinds(wrong)}"
