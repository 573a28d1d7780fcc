"""Start the guard: ``python -m wattqueue.live.guard -c guard.toml``. It has its own command line to stay small."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from wattqueue.errors import InputError, WattQueueError
from wattqueue.live.guard.accounting import MOST_S, BriefAccounting
from wattqueue.live.guard.audit import AuditFile
from wattqueue.live.guard.serve import WriteGuard
from wattqueue.live.guard.settings import GuardSettings, read_settings
from wattqueue.live.guard.sockets import run
from wattqueue.live.slurm.commands import Commands
from wattqueue.live.slurm.writer import Frequencies, PoolMethod, ReconfigurePool, ReservationPool, SlurmWriter


def guard_of(settings: GuardSettings) -> WriteGuard:
    """Return the guard of these settings. Raises: InputError for a key of ``[slurm]`` that is none; OutputError."""
    known = {"conf": "", "bin_dir": "", "timeout_s": 10.0, "pool_file": "", "pool_line": "", "frequency_dir": ""}
    given: dict[str, Any] = {**known, **settings.slurm}
    if unknown := given.keys() - known.keys():
        raise InputError(f"unknown key slurm.{min(unknown)}", where="guard.toml")
    environment = {"SLURM_CONF": given["conf"]} if given["conf"] else {}
    commands = Commands(float(given["timeout_s"]), environment, given["bin_dir"])
    slurm = BriefAccounting(commands, replace(commands, timeout_s=min(MOST_S, commands.timeout_s)))
    pool: PoolMethod = ReservationPool()
    if given["pool_file"]:
        line = given["pool_line"] or ReconfigurePool.line
        pool = ReconfigurePool(Path(given["pool_file"]), line)
    frequencies = Frequencies(Path(given["frequency_dir"]) if given["frequency_dir"] else None)
    try:
        settings.run_dir.mkdir(parents=True, exist_ok=True)
        settings.run_dir.chmod(0o711)  # Slurm's account opens the heartbeat by its name, nobody lists the rest
    except OSError as error:
        raise InputError(f"the run folder cannot be used: {error.strerror}", where=settings.run_dir) from error
    return WriteGuard(
        settings,
        slurm,
        SlurmWriter(commands, pool, frequencies),
        AuditFile(settings.run_dir),
    )


def main() -> int:
    """Serve until SIGTERM; the exit status is 1 where the right to write was lost, or the settings are wrong."""
    parser = argparse.ArgumentParser(prog="python -m wattqueue.live.guard", description=__doc__)
    parser.add_argument("-c", "--config", type=Path, required=True, help="The guard's own configuration, a TOML file.")
    arguments = parser.parse_args()
    try:
        guard = guard_of(read_settings(arguments.config))
        guard.journal.note("start", f"cap {guard.settings.cap}")
        run(guard, guard.settings.socket, _say)
    except WattQueueError as error:
        _say(str(error))
        return 1
    return 0


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} guard: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
