"""Run Slurm's commands: argument lists only, a timeout on each, bounded retry of reads, never a shell.

Slurm is driven through its command-line tools and not through its library: the tools' text has been stable over ten
years of releases, the library's interface changes with each one and would tie the controller to it.

Rules that hold for every command:

* **No shell.** Arguments are passed as a list, and what comes from outside (job names, node names) must match
  :data:`JOB`, :data:`WORD` or :data:`HOSTS` before it becomes one (``writes.check``). Nothing can add an option.
* **A timeout.** Slurm's tools wait for minutes where slurmctld does not answer. A command that exceeds ``timeout_s``
  is killed with its whole process group, since some tools start helpers.
* **A clean environment.** ``SQUEUE_FORMAT``, ``SLURM_CLUSTERS`` and a dozen other variables change what the tools
  print. Only the configuration's path and a token pass; times come as seconds since the epoch in UTC.
* **Reads are repeated, writes are not.** A read that failed has no effect. A write whose answer was lost may have been
  carried out; the next round sees what Slurm shows and decides again.
"""

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

from wattqueue.live.cluster import UNANSWERED, ClusterError

# What may become part of a command. JOB: a job, a task of an array, or a component. WORD: a node, partition or licence.
# HOSTS: a comma-separated list of nodes in Slurm's bracket notation.
JOB = re.compile(r"[0-9]+(?:[_+][0-9]+)?")
WORD = re.compile(r"[A-Za-z0-9_.\-]+")
HOSTS = re.compile(r"[A-Za-z0-9_.\-\[\],]+")
LICENCE = "watts"
"""Name of the licence that counts watts; one licence is one watt in the cap's scope."""
END_S = 1.0
"""Longest wait for the end of a command that was killed."""


class SlurmError(ClusterError):
    """A command of Slurm failed, did not answer in time, or printed what cannot be parsed."""


class CommandResult(NamedTuple):
    """The outcome of a command: exit status, both outputs, and the seconds it took."""

    code: int
    out: str
    err: str
    took_s: float


class Slurm(Protocol):
    """Anything that runs Slurm's commands: a real Slurm, or recorded outputs of one."""

    def run(self, argv: Sequence[str]) -> CommandResult:
        """Run one command to its end. Raises SlurmError if it does not answer in time."""
        ...


@dataclass
class Commands:
    """The commands of a real Slurm. Times are printed as seconds since the epoch, in UTC.

    ``environment`` is added to a clean one (SLURM_CONF for a Slurm beside the system's own); ``bin_dir`` is the folder
    of the tools, empty for the PATH. Safe for use from several threads: it keeps no state.
    """

    timeout_s: float = 10.0
    environment: Mapping[str, str] = field(default_factory=dict)
    bin_dir: str = ""

    def run(self, argv: Sequence[str]) -> CommandResult:
        """Run one command to its end; one that hangs is killed with everything it started.

        Raises: SlurmError where it cannot be started or does not end within ``timeout_s``. An exit status other than 0
        is a result, not an error: the caller decides what it means.
        """
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
                start_new_session=True,  # a process group of its own, so that helpers can be killed with it
            )
        except OSError as error:
            hint = "install slurm-client, or name its folder as slurm.bin_dir"
            raise SlurmError(f"{argv[0]} cannot be started: {error.strerror}", hint=hint) from error
        try:
            out, err = child.communicate(timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            _end(child)
            raise SlurmError(
                f"{' '.join(argv[:3])}: {UNANSWERED} in {self.timeout_s:g} s", hint="is slurmctld up?"
            ) from None
        except BaseException:  # Ctrl-C, SIGTERM turned into an exception: leave no child behind
            _end(child)
            raise
        return CommandResult(child.returncode, out, err, time.monotonic() - begin)


def _end(child: subprocess.Popen[str]) -> None:
    """Kill a command's process group, and collect it so that no zombie is left.

    Nobody else is waited for: a helper that left the group may hold the other end of the output for as long as it
    likes, and a process that waits for a file system that hangs ends when that answers.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(END_S)


def read(slurm: Slurm, argv: Sequence[str], tries: int = 2, wait: Callable[[float], None] = time.sleep) -> str:
    """Return the output of a command that only reads; a failure is tried again after 0.1, 0.2, ... s.

    Two tries by default: slurmctld refuses connections for a moment while it reconfigures. A longer outage is the
    round's business, which backs off as a whole. Raises: SlurmError with the last failure.
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


def must(slurm: Slurm, argv: Sequence[str]) -> None:
    """Run a command that has to succeed. Raises SlurmError with the first line of its message."""
    answer = slurm.run(argv)
    said = first_line(answer.err or answer.out)
    if answer.code != 0:
        raise SlurmError(f"{' '.join(argv[:3])}: exit {answer.code}: {said}")


def first_line(text: str) -> str:
    """Return the first line of an error's text, shortened: it ends up in one line of a log and in the audit."""
    lines = text.strip().splitlines()
    return lines[0][:200] if lines else "no message"
