"""The file that ``flux module load`` takes: it finds WattQueue, and refuses a Python for which it is not installed.

Flux runs it in the Python for which Flux was built, with nothing of WattQueue on the path. So it imports nothing before
it has compared the versions, and its syntax is that of Python 3.6.
"""

import re
import site
import sys
from pathlib import Path
from typing import Any, Sequence  # noqa: UP035

OLDEST = (3, 11)
ERROR = 3  # of syslog


def folder_of(args: Sequence[str]) -> Path:
    """Return the site-packages folder: that of ``site=`` (an editable installation), else the one of this file."""
    stated = [one[len("site=") :] for one in args if one.startswith("site=")]
    return Path(stated[-1]) if stated else Path(__file__).parents[1]


def refusal(folder: Path, version: Sequence[Any]) -> str:
    """Return why a Python of this version cannot run what is installed in a folder; empty where it can."""
    runs = "{}.{}".format(*version[:2])
    found = re.search(r"python([0-9]+\.[0-9]+)/site-packages", folder.as_posix())
    if tuple(version[:2]) < OLDEST:
        return "Flux runs Python {}, WattQueue needs {}.{} or newer".format(runs, *OLDEST)
    if found is not None and found.group(1) != runs:
        return f"Flux runs Python {runs}, WattQueue is installed for {found.group(1)} in {folder}"
    return ""


def mod_main(h: Any, *args: str) -> None:
    """Run the scheduler; why it cannot is logged, since ``flux module load`` prints a number. Raises: ValueError."""
    folder = folder_of(args)
    why = refusal(folder, sys.version_info)
    if why:
        h.log(ERROR, why)
        raise ValueError(why)
    site.addsitedir(str(folder))
    try:
        from wattqueue_flux.scheduler import prepare
    except ImportError as error:
        h.log(ERROR, f"WattQueue cannot be imported from {folder}: {error}")
        raise
    prepare(h, [one for one in args if not one.startswith("site=")]).run()
