"""The controller's configuration: one TOML file, checked whole before anything is done; secrets live in files."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from wattqueue.errors import InputError
from wattqueue.formats._schema import Place, first_finding

Mode = Literal["observe", "advise", "control"]
Seconds = Annotated[float, Field(gt=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SlurmSection(_Strict):
    """How Slurm is reached, and what may be done to it."""

    conf: Path | None = None
    """slurm.conf of a Slurm beside the system's own."""
    bin_dir: str = ""
    timeout_s: Seconds = 10.0
    rest: str = ""
    """slurmrestd: ``unix:/path`` or ``http://host:port``; jobs, nodes and licences are then read through it."""
    rest_token_file: Path | None = None
    """JWT of the controller's account, for a slurmrestd that is not on a unix socket; read anew for each request."""
    rest_version: Annotated[str, Field(pattern=r"v\d+\.\d+\.\d+")] = "v0.0.38"
    partitions: dict[str, str] = {}
    """Machine partition of a Slurm partition where their names differ."""
    pool: Literal["reservation", "reconfigure"] = "reservation"
    pool_file: Path | None = None
    pool_line: str = "Licenses=watts:{watts}"
    write_priority: bool = True
    place_nodes: Literal["auto", "always", "never"] = "auto"
    """ReqNodeList: where the policy ranks nodes, on every start, or on none."""
    power_nodes: bool = False
    """Whether nodes may be stopped and woken (needs Slurm's Administrator level)."""


class TelemetrySection(_Strict):
    """Sources of power, in order of trust: powercap, pm_counters, prometheus."""

    powercap: dict[str, Path] = {}
    pm_counters: dict[str, Path] = {}
    prometheus_url: str = ""
    prometheus_query: str = ""
    prometheus_label: str = "instance"
    prometheus_fresh_query: str = ""
    prometheus_token_file: Path | None = None
    slurm_energy: bool = False
    """Learn from Slurm's own accounting (sacct) when jobs end."""
    stale_s: Seconds = 10.0
    other_w: float = 0.0
    track_running: bool = True
    """Lower a running job's licence to what is measured, and raise it again with headroom."""
    margin: Annotated[float, Field(ge=0)] = 0.1
    settle_s: Seconds = 10.0
    """How long a job must have been measured before its licence follows."""

    @property
    def any_node_source(self) -> bool:
        """Whether node power is measured at all."""
        return bool(self.powercap or self.pm_counters or self.prometheus_url)


class ApplicationsSection(_Strict):
    """The application database of a policy with estimator ``ear``; without it the policy has paper 1's Table 1."""

    database: Annotated[str, Field(min_length=1)]
    """SQLite file, or the URL of a PostgreSQL (``wattqueue apps``)."""
    coefficients: Path
    """EAR coefficients by partition (CSV, as ``wattqueue apps`` writes them)."""
    first_run: Literal["estimate", "trial"] = "estimate"


class MetricsSection(_Strict):
    """Where metrics are served; no port: nowhere."""

    address: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    token_file: Path | None = None


class LiveConfig(_Strict):
    """The whole file. Paths are as written, relative ones from the file's folder."""

    machine: str
    policy: str = "easy"
    cap: str = "none"
    mode: Mode = "observe"
    user: str = ""
    """The account that the controller runs as, an operator of Slurm; empty: whoever installs."""
    period_s: Seconds = 1.0
    state: str = "wattqueue-live.db"
    """SQLite file, or the URL of a PostgreSQL."""
    run_dir: Path = Path("run")
    """Beat, status, lock and the audit's head."""
    frequency_dir: Path | None = None
    record: Path | None = None
    """Every view and what was decided on it, for replay."""
    audit_key_file: Path | None = None
    away_s: Seconds = 120.0
    """After so long without a controller Slurm schedules alone, under the pool."""
    start_timeout_s: Seconds = 30.0
    starts_a_cycle: Annotated[int, Field(ge=1)] = 200
    slurm: SlurmSection = SlurmSection()
    telemetry: TelemetrySection = TelemetrySection()
    metrics: MetricsSection = MetricsSection()
    applications: ApplicationsSection | None = None

    @field_validator("policy", "machine", "cap", "state")
    @classmethod
    def _not_empty(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must not be empty")
        return value


def load_config(path: Path) -> LiveConfig:
    """Read and check a configuration; relative paths in it start at its folder.

    Raises: InputError naming the key that is wrong.
    """
    try:
        data = tomllib.loads(path.read_text())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not TOML: {error}", where=path) from error
    try:
        data = {"state": "wattqueue-live.db", "run_dir": "run", **data}
        config = LiveConfig.model_validate(_anchored(data, path.resolve().parent))
    except ValidationError as error:
        what, mend = first_finding(error, _known)
        raise InputError(what, where=path, mend=mend) from error
    if not _is_local(config.metrics.address) and config.metrics.token_file is None:
        mend = "name a token_file, or listen on 127.0.0.1"
        raise InputError("metrics.address is open to others without a token", where=path, mend=mend)
    if config.slurm.pool == "reconfigure" and config.slurm.pool_file is None:
        raise InputError("slurm.pool_file is needed to set the pool by reconfigure", where=path)
    _check_rest(config, path)
    return config


def _check_rest(config: LiveConfig, path: Path) -> None:
    rest, token = config.slurm.rest, config.slurm.rest_token_file
    if rest and not rest.startswith(("unix:/", "http://", "https://")):
        raise InputError(f"slurm.rest: {rest!r} is no address", where=path, mend="unix:/path, or http://host:port")
    if token is not None and rest.startswith("http://") and not _is_local(urlsplit(rest).hostname or ""):
        mend = "use https://, or a slurmrestd on this host"
        raise InputError("slurm.rest: the token would cross the network in the clear", where=path, mend=mend)


def _known(place: Place) -> list[str]:
    table: type[BaseModel] = LiveConfig
    for step in place[:-1]:
        inner = table.model_fields[str(step)].annotation if str(step) in table.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            break
        table = inner
    return list(table.model_fields)


_PATHS = {"conf", "rest_token_file", "pool_file", "run_dir", "frequency_dir", "record", "audit_key_file"}
_PATHS |= {"token_file", "prometheus_token_file", "coefficients"}


def _anchored(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict):
            nested = {name: str(folder / root) for name, root in value.items() if isinstance(root, str)}
            out[key] = nested if key in ("powercap", "pm_counters") else _anchored(value, folder)
        else:
            out[key] = str(folder / value) if _is_path(key, value, folder) else value
    return out


def _is_path(key: str, value: Any, folder: Path) -> bool:
    if not isinstance(value, str):
        return False
    if key in ("machine", "cap"):
        return (folder / value).is_file()
    return key in _PATHS or (key in ("state", "database") and "://" not in value)


def _is_local(address: str) -> bool:
    return address in ("localhost", "::1") or address.startswith("127.")


def read_secret(path: Path) -> str:
    """A secret from a file that its owner alone (we, or root) can read.

    Raises: InputError for a file that others can read or that is empty; never with its content.
    """
    try:
        status = path.stat()
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            mode = oct(stat.S_IMODE(status.st_mode))
            raise InputError(f"a secret that others may read (mode {mode})", where=path, mend=f"chmod 600 {path}")
        if status.st_uid not in (os.geteuid(), 0):
            raise InputError(f"a secret that belongs to uid {status.st_uid}", where=path, mend="own it, or let root")
        secret = path.read_text().strip()
    except OSError as error:
        raise InputError(f"the secret cannot be read: {error.strerror}", where=path) from error
    except UnicodeDecodeError as error:
        raise InputError("the secret is no text", where=path) from error
    if not secret:
        raise InputError("the secret is empty", where=path)
    return secret
