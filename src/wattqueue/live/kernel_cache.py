"""Compile the scheduling pass as the planner's account, so that its first round does not: ``live install --units``.

Each account has compiled kernels of its own, since machine code is loaded from there. An installation with a library of
compiled kernels needs none. What the parts of a policy need besides is compiled when the controller first starts.
"""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

from wattqueue.kernels.mode import COMPILES
from wattqueue.live.config import LiveConfig
from wattqueue.live.units import run_as

FOLDER = Path("/var/lib/wattqueue/cache")
"""Where the unit of the controller has them."""
_PATIENCE_S = 600.0


def prepared_for(units: Path, config: LiveConfig) -> list[str]:
    """Prepare the account of a controller whose units were written to where systemd reads them; return lines."""
    if not units.resolve().is_relative_to("/etc/systemd"):
        return []  # somebody wants to see the units
    return [prepare_cache(config.user if config.guard is None else config.guard.planner)]


def prepare_cache(user: str, folder: Path = FOLDER) -> str:
    """Compile into ``folder`` as an account, unless that was done; return a line that says what was done or why not."""
    if not COMPILES:
        return "this installation compiles no kernels"
    later = "the first start of the controller compiles, for about 10 seconds"
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        return f"kernels: no account {user} yet; {later}"
    if os.geteuid() not in (0, account.pw_uid):
        return f"kernels: only root and {user} can prepare them for {user}; {later}"
    try:
        for place in (folder.parent, folder):
            if not place.exists():
                place.mkdir(mode=0o711, parents=True)
                os.chown(place, account.pw_uid, account.pw_gid)
    except OSError as error:
        return f"kernels: {folder}: {error.strerror}; {later}"
    command = [sys.executable, "-m", "wattqueue.live.warm_up"]
    problem = run_as(user, command, {"WATTQUEUE_CACHE_DIR": str(folder)}, _PATIENCE_S)
    return f"kernels: {problem}; {later}" if problem else f"compiled the scheduling pass for {user} into {folder}"
