"""A slurmdbd that hangs: the guard waits for it now and then for some seconds, and writes and heartbeats go on."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.live.guard.test_checks import guard_of, pool, settings, write
from tests.live.guard.test_data_file import HONEST
from tests.live.guard.world import NaiveSlurm
from wattqueue.live.guard.__main__ import guard_of as guard_of_settings
from wattqueue.live.guard.accounting import MOST_S, QUIET_S, BriefAccounting
from wattqueue.live.guard.wire import Packet
from wattqueue.live.slurm.commands import CommandResult, Commands, SlurmError


@dataclass
class Hanging:
    """Commands of which those of the accounting take so long that they are killed."""

    slurm: NaiveSlurm
    hangs: bool = True
    asked: list[float] = field(default_factory=list)

    def run(self, argv: Sequence[str]) -> CommandResult:
        """Raise after the longest wait."""
        self.asked.append(self.slurm.now_s)
        if self.hangs:
            self.slurm.now_s += MOST_S
            raise SlurmError(f"{argv[0]} gave no answer")
        return CommandResult(0, "root|Administrator\n", "", 0.0)


def test_a_hanging_accounting_takes_a_few_seconds_a_minute(tmp_path: Path) -> None:
    slurm = NaiveSlurm(open_w=100)
    hanging = Hanging(slurm)
    guard = guard_of(slurm, tmp_path)
    guard.slurm = BriefAccounting(slurm, hanging, lambda: slurm.now_s)
    begin_s, rounds = slurm.now_s, 0
    while slurm.now_s < begin_s + 600.0:
        for argv in (["sacctmgr", "show", "user"], ["sacct", "-a"]):
            assert "error" in guard.answer(Packet({"do": "read", "argv": argv})).header
        assert "error" not in guard.answer(Packet({"do": "submit-data"}, HONEST)).header
        assert write(guard, pool(100 + rounds % 2)) == [""]
        assert guard.answer(Packet({"do": "alive"})).header == {"problem": ""}
        rounds += 1
        slurm.now_s += 1.0
    assert rounds > 500, "of 600 s no more than 5 s a minute were waited"
    assert min(b - a for a, b in zip(hanging.asked, hanging.asked[1:], strict=False)) >= QUIET_S
    assert len(hanging.asked) >= 9, "it is tried again"
    hanging.hangs = False
    slurm.now_s += QUIET_S
    assert guard.answer(Packet({"do": "read", "argv": ["sacct", "-a"]})).header["code"] == 0
    assert "staff 0\n" in slurm_file(guard.settings.run_dir, guard.answer(Packet({"do": "submit-data"}, "staff 0\n")))


def slurm_file(run_dir: Path, answer: Packet) -> str:
    assert answer.header == {"told": []}
    return (run_dir / "submit.data").read_text()


def test_a_command_whose_helper_outlives_it_is_not_waited_for(tmp_path: Path) -> None:
    """A helper in a session of its own is not killed with the command, and holds the other end of its output."""
    script, helper, ended = (tmp_path / name for name in ("sacctmgr", "helper", "ended"))
    script.write_text(f"#!/bin/sh\nsetsid sh -c 'echo $$ > {helper}; sleep 15; touch {ended}' &\nsleep 600\n")
    script.chmod(0o755)
    try:
        with pytest.raises(SlurmError, match="no answer in 1 s"):
            Commands(1.0, bin_dir=str(tmp_path)).run(["sacctmgr"])
        assert not ended.exists()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(helper.read_text()), signal.SIGKILL)


def test_the_process_waits_no_longer_for_the_accounting(tmp_path: Path) -> None:
    for timeout_s, most_s in ((10.0, MOST_S), (2.0, 2.0)):
        guard = guard_of_settings(settings(tmp_path, slurm={"timeout_s": timeout_s}))
        assert isinstance(guard.slurm, BriefAccounting)
        found = [one for one in (guard.slurm.slurm, guard.slurm.brief) if isinstance(one, Commands)]
        assert [one.timeout_s for one in found] == [timeout_s, most_s]
