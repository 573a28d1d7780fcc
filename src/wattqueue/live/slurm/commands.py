"""Run Slurm's commands: argument lists only, a timeout on each, bounded retry of reads, never a shell."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from wattqueue.errors import WattQueueError

JOB = re.compile(r"\d+(?:_\d+)?")
WORD = re.compile(r"[A-Za-z0-9_.\-]+")
HOSTS = re.compile(r"[A-Za-z0-9_.\-\[\],]+")


class SlurmError(WattQueueError):
    """A command of Slurm failed, did not answer in time, or printed what cannot be read."""


class Answer(NamedTuple):
    """What a command said, and how long it took."""

    code: int
    out: str
    err: str
    took_s: float


class Slurm(Protocol):
    """Whoever speaks the commands' text: a real Slurm, or the fake one of the tests."""

    def run(self, argv: Sequence[str]) -> Answer:
        """Run one command to its end. Raises SlurmError if it does not answer in time."""
        ...


@dataclass
class Commands:
    """The commands of a real Slurm. Times come back as seconds since the epoch, in UTC.

    ``environment`` is added to a clean one (SLURM_CONF for a Slurm beside the system's own).
    """

    timeout_s: float = 10.0
    environment: Mapping[str, str] = field(default_factory=dict)
    bin_dir: str = ""

    def run(self, argv: Sequence[str]) -> Answer:
        """Run one command to its end; one that hangs is killed with all it started."""
        path = f"{self.bin_dir}/{argv[0]}" if self.bin_dir else argv[0]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C", "TZ": "UTC", "SLURM_TIME_FORMAT": "%s"}
        environment |= {k: v for k, v in os.environ.items() if k in ("SLURM_CONF", "SLURM_JWT")}
        begin = time.monotonic()
        try:
            child = subprocess.Popen(
                [path, *argv[1:]],
                env={**environment, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            mend = "install slurm-client, or name its folder as slurm.bin_dir"
            raise SlurmError(f"{argv[0]} cannot be started: {error.strerror}", mend=mend) from error
        try:
            out, err = child.communicate(timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            _end(child)
            raise SlurmError(
                f"{' '.join(argv[:3])}: no answer in {self.timeout_s:g} s", mend="is slurmctld up?"
            ) from None
        except BaseException:
            _end(child)
            raise
        return Answer(child.returncode, out, err, time.monotonic() - begin)


def _end(child: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


def read(slurm: Slurm, argv: Sequence[str], tries: int = 2, wait: Callable[[float], None] = time.sleep) -> str:
    """Output of a command that only reads, tried again after 0.1, 0.2, ... s.

    Raises: SlurmError with the last failure.
    """
    last = SlurmError(f"{argv[0]} was never tried")
    for attempt in range(tries):
        if attempt:
            wait(0.1 * 2 ** (attempt - 1))
        try:
            answer = slurm.run(argv)
        except SlurmError as error:
            last = error
            continue
        if answer.code == 0:
            return answer.out
        last = SlurmError(f"{' '.join(argv[:3])}: exit {answer.code}: {first_line(answer.err or answer.out)}")
    raise last


def first_line(text: str) -> str:
    """The first line of an error's text, shortened."""
    lines = text.strip().splitlines()
    return lines[0][:200] if lines else "no message"
