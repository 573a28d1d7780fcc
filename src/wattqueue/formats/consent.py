"""TOML of consent defaults: which users' jobs may be slowed down or held back where a job states nothing.

An example::

    others = false      # users who are not listed; false if left out

    [users]
    ada = true
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from wattqueue.errors import InputError, one_of
from wattqueue.formats.toml import read_toml
from wattqueue.model.jobs import Jobs

if TYPE_CHECKING:
    from wattqueue.model.consent import ConsentDefaults

KEYS = ("others", "users")


def read_consent_defaults(path: Path) -> ConsentDefaults:
    """Return the defaults of a file. Raises: InputError naming file and key."""
    from wattqueue.model.consent import ConsentDefaults

    data = read_toml(path)
    for key in data:
        if key not in KEYS:
            raise InputError(f"unknown key {key}", where=path, hint=one_of(key, KEYS))
    users = data.get("users", {})
    if not isinstance(users, dict):
        raise InputError("users is no table", where=path, hint="write [users], and ada = true below it")
    for name, value in {"others": data.get("others", False), **{f"users.{k}": v for k, v in users.items()}}.items():
        if not isinstance(value, bool):
            raise InputError(f"{name} = {value!r:.40}", where=path, hint="true or false")
    return ConsentDefaults(users, data.get("others", False))


def with_defaults(jobs: Jobs, defaults: ConsentDefaults) -> Jobs:
    """Return the jobs with a flag for each: its own, its user's default, or the default of all others."""
    return replace(jobs, consent=defaults.filled(jobs.consent, jobs.user.codes, jobs.user.names))
