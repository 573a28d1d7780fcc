"""The watch over fuzzed cases: a crash and a hang fail their own case, and all others are run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.fuzz import watch

CRASHES, RAISES, HANGS, PASSES_LAST = 2, 3, 5, 9


def ready(word: str, folder: Path) -> watch.Attempt:
    """Cases of which three go wrong, each in its own way."""

    def run(case: int) -> str | None:
        (folder.parent / f"ran {case}").touch()
        if case == CRASHES:
            os._exit(7)
        if case == RAISES:
            raise ValueError(word)
        if case == HANGS:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF])  # as compiled code, which hears no alarm
            while True:
                pass
        return None

    return run


def test_a_crash_and_a_hang_fail_their_case_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LONGEST_S", 1)
    wrong = watch.watched(ready, ("a word",), tmp_path, PASSES_LAST + 1, 2)
    assert wrong.keys() == {CRASHES, RAISES, HANGS}
    assert "ended with 7" in wrong[CRASHES]
    assert "ValueError: a word" in wrong[RAISES]
    assert "2 s of processor time" in wrong[HANGS]
    assert sorted(path.name for path in tmp_path.glob("ran *")) == [f"ran {case}" for case in range(PASSES_LAST + 1)]
    assert "ValueError: a word" in (tmp_path / "found.txt").read_text()


def endless(seconds: int) -> None:
    with watch.at_most(seconds):
        while True:
            pass


def test_an_alarm_ends_what_hears_it() -> None:
    with pytest.raises(watch.TookTooLongError):
        endless(1)
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
