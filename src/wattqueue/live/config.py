"""Read the controller's configuration: one TOML file, checked as a whole before anything is done.

The file is validated by pydantic models with ``extra="forbid"``: a misspelt key is an error with the nearest known key,
never a default in silence. Relative paths start at the file's folder, so that a configuration means the same whatever
the working directory is; ``machine``, ``policy`` and ``cap`` may be names instead of files, so they are taken as paths
if such a file exists, or by their suffix (``formats.source.in_folder``).

Secrets (tokens, the audit key) are never in this file. It names files that hold them, which their owner alone may read
(``live.files.reading``). The configuration itself can therefore be readable by everybody, and shown in a bug report.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, Field, create_model, field_validator, model_validator

from wattqueue.errors import InputError
from wattqueue.formats.bounded import CountOrNone, Seconds, Share, Watts
from wattqueue.formats.cap import names_file
from wattqueue.formats.checked_toml import Section, read_model
from wattqueue.formats.source import in_folder
from wattqueue.formats.toml import read_toml
from wattqueue.live.agents import BrokerSection
from wattqueue.live.consent_tags import SiteDefaults
from wattqueue.live.entry_points import live_extension
from wattqueue.live.files.energy_records import ENERGY
from wattqueue.live.files.reading import HINT, home_of, is_loopback
from wattqueue.live.watts.lowering import parse_overshoot
from wattqueue.model.app_check import Ladder
from wattqueue.model.power_sensor import IDLE_TOLERANCE
from wattqueue.policy.rows import with_files

Mode = Literal["observe", "advise", "control"]


class SlurmSection(Section):
    """How Slurm is reached, and what the controller may change."""

    conf: Path | None = None
    """slurm.conf of a Slurm beside the system's own."""
    bin_dir: str = ""
    """Folder of Slurm's commands; empty: found on the PATH."""
    timeout_s: Seconds = 10.0
    """After so long a command is given up."""
    partitions: dict[str, str] = Field(default_factory=dict)
    """Machine partition of a Slurm partition where their names differ."""
    only: tuple[str, ...] = ()
    """Machine partitions to manage, by name; empty: all of the machine file. Jobs elsewhere are left alone."""
    shared: tuple[str, ...] = ()
    """Machine partitions whose nodes jobs share: Slurm schedules them, and each node counts its maximum once."""
    domains: dict[str, str] = Field(default_factory=dict)
    """Licence of each power domain of the machine file that Slurm counts, too: ``{ rack1 = "w1" }``."""
    hres: bool = False
    """Whether Slurm (26.05.2 and later) counts the power domains as a hierarchical resource, in place of licences."""
    pool: Literal["reservation", "reconfigure"] = "reservation"
    """How the pool follows the cap: by a licence reservation, or by rewriting a file that slurm.conf includes."""
    pool_file: Path | None = None
    """That file, for ``reconfigure``."""
    pool_line: str = "Licenses=watts:{watts}"
    """Its line, with every licence of the site."""
    write_priority: bool = True
    """Give released jobs descending priorities, so that Slurm starts them in the policy's order."""
    place_nodes: Literal["auto", "always", "never"] = "auto"
    """ReqNodeList: where the policy tells nodes apart (ranks, watts by node), on every start, or on none."""
    power_nodes: bool = False
    """Whether nodes may be stopped and woken (needs Slurm's Administrator level)."""


class GuardSection(Section):
    """The guard that has the rights to write to Slurm; without this section this process has them itself."""

    socket: Path
    """Socket of the guard, as its own file states it."""
    run_dir: Path
    """The guard's run folder: heartbeat, lease, the figure that is withheld."""
    planner: str = "wattqueue"
    """The account of the controller, which has no rights in Slurm then; ``user`` is that of the guard."""
    limits_socket: Path | None = None
    """Socket of the process that alone publishes limits of nodes; without it this process has the right itself."""
    limits_user: str = "wattqueue-limits"
    """The account of that process."""


class TelemetrySection(Section):
    """Sources of power, in order of trust: powercap, pm_counters, agents, prometheus."""

    powercap: dict[str, Path] = Field(default_factory=dict)
    """Folder of the powercap tree by node."""
    pm_counters: dict[str, Path] = Field(default_factory=dict)
    """Folder of Cray's counters by node."""
    broker: BrokerSection | None = None
    """Broker to which the agents of nodes send their readings; the user is ``controller`` by default."""
    prometheus_url: str = ""
    prometheus_query: str = ""
    """Watts by node. The unit is not checked by Prometheus: kilowatts show as readings far below idle."""
    prometheus_label: str = "instance"
    """Label that holds the node's name."""
    prometheus_fresh_query: str = ""
    """Time of the newest scrape by node; needed where the query computes."""
    prometheus_token_file: Path | None = None
    prometheus_resolution_w: Watts = 1.0
    """Steps in which these meters read: a busy node's figure that stays the same for longer than these explain lowers
    no licence."""
    slurm_energy: bool = False
    """Learn from Slurm's own accounting (sacct) when jobs end."""
    stale_s: Seconds = 10.0
    """Age from which a sample counts as the node's maximum: several times the scrape interval."""
    other_w: Watts = 0.0
    """Watts of each node that RAPL does not measure."""
    track_running: bool = False
    """Lower a running job's licence to what is measured, and raise it again with headroom. Needs limits of nodes that
    hold the cap, a row that promises a share of time, or ``accepted_overshoot`` (``live.watts.lowering``)."""
    accepted_overshoot: str = ""
    """What the site accepts that running jobs may draw above the cap in force, where ``track_running`` lowers their
    licences: ``500W``, ``2kW``, ``5%`` of the cap."""
    margin: Annotated[float, Field(ge=0, le=10)] = 0.1
    """Share that a licence stays above the measured peak."""
    idle_tolerance: Share = IDLE_TOLERANCE
    """A reading below idle by more than this share counts as the node's maximum, a closer one as idle."""
    licence_floor: Share = 0.2
    """No licence falls below this share of the most that its job's nodes can draw above idle."""
    warm_up_s: Seconds = 10.0
    """How long a job must have been measured before its licence follows."""

    @model_validator(mode="after")
    def _token_is_encrypted(self) -> TelemetrySection:
        parts = urlsplit(self.prometheus_url)
        if parts.username is not None or parts.password is not None:
            raise ValueError("prometheus_url must not contain a user or password: name a prometheus_token_file")
        clear = parts.scheme != "https" and not is_loopback(parts.hostname or "")
        if self.prometheus_url and self.prometheus_token_file is not None and clear:
            raise ValueError(f"prometheus_url must begin with https, since a token is sent to it: {HINT}")
        return self

    @field_validator("accepted_overshoot")
    @classmethod
    def _watts_or_share(cls, value: str) -> str:
        try:
            parse_overshoot(value)
        except InputError as error:
            raise ValueError(str(error)) from error
        return value

    @property
    def any_node_source(self) -> bool:
        """Whether a source of node power is configured."""
        return bool(self.powercap or self.pm_counters or self.broker or self.prometheus_url)


class LimitsSection(Section):
    """How limits are set through the agents of nodes."""

    hold_s: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """A limit expires after so long unless it is renewed, which the controller does four times as often."""
    silence_s: Seconds = 5.0
    """A node whose agent was not heard of for so long counts at its maximum."""

    @model_validator(mode="after")
    def _time_to_lower(self) -> LimitsSection:
        if self.hold_s < 3 * self.silence_s:
            raise ValueError("hold_s must be at least three times silence_s: others are lowered before a limit expires")
        return self


class MisnamedSection(Section):
    """What follows for a user from so many misnamed jobs within a window; 0: never (``live.features.misnamed``)."""

    warning: CountOrNone = 1
    """A line in the status."""
    lower_priority: CountOrNone = 3
    """Jobs rank behind those of all others."""
    no_choice: CountOrNone = 0
    """Names of applications are ignored."""
    window_days: Annotated[float, Field(gt=0, le=3650)] = 30.0

    def ladder(self) -> Ladder:
        """Return it as the application database takes it."""
        return Ladder(self.warning, self.lower_priority, self.no_choice, 86_400.0 * self.window_days)


class ApplicationsSection(Section):
    """The application database of a policy with estimator ``ear``; without it the policy has paper 1's Table 1."""

    database: Annotated[str, Field(min_length=1)]
    """SQLite file, or the URL of a PostgreSQL or MariaDB (``wattqueue apps``)."""
    coefficients: Path
    """EAR coefficients by partition (CSV, as ``wattqueue apps`` writes them)."""
    first_run: Literal["estimate", "trial"] = "estimate"
    misnamed: MisnamedSection | None = None
    """What follows from misnamed jobs; without it nothing but their record."""


class MetricsSection(Section):
    """Where metrics are served; without a port nowhere. Any address but loopback needs a token."""

    address: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    token_file: Path | None = None


class PageSection(Section):
    """Where the operator page is served by ``wattqueue live serve``, a process of its own."""

    address: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8436
    """0: any free port."""
    token_file: Path | None = None
    """Secret of those who may see names of users and jobs. Any address but loopback needs it."""
    hosts: tuple[str, ...] = ()
    """Names under which a proxy asks, beside those of this host: requests to any other name are refused."""
    connections: Annotated[int, Field(ge=4, le=10_000)] = 100
    """Most connections at a time; those beyond are closed."""


class EnergySection(Section):
    """Records of the energy of jobs, for their users (``wattqueue job``, ``wattqueue jobs``)."""

    folder: Path | None = None
    """Where they are written; without it ``energy`` in the run folder. Compute nodes print a job's own line from it."""
    prices: Path | None = None
    """CSV of the site's price by time (seconds since the epoch, or dates), read again whenever it changes."""
    price_unit: str | None = None
    """``EUR/MWh`` unless the file states another."""
    carbon: Path | None = None
    """CSV of the carbon intensity by time, likewise."""
    carbon_unit: str | None = None
    """``gCO2/kWh`` unless the file states another."""
    time_zone: str = "UTC"
    """Whose months are meant by ``--month``: ``Europe/Berlin``."""
    keep_months: Annotated[int, Field(ge=1, le=1200)] = 25
    """Records of older months are removed."""

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(f"must be a time zone such as Europe/Berlin, not {value!r}") from error
        return value

    def place(self, run_dir: Path) -> Path:
        """Return the folder of the records."""
        return run_dir / ENERGY if self.folder is None else self.folder


class BudgetsSection(Section):
    """Budgets of energy, money or carbon (``formats.budgets``); needs ``[energy]``."""

    file: Path
    """The TOML file of budgets, read again whenever it changes; ``wattqueue budget set`` writes it."""


class ConsentSection(Section):
    """What holds during a load target for jobs whose comment states no consent (``live.consent_tags``)."""

    others: bool = False
    """For users and accounts that are not listed."""
    users: dict[str, bool] = Field(default_factory=dict)
    accounts: dict[str, bool] = Field(default_factory=dict)
    every_s: Seconds = 5.0
    """How often comments are read again at most: a change of consent is honoured after so long."""

    def defaults(self) -> SiteDefaults:
        """Return them as the controller uses them."""
        return SiteDefaults(self.users, self.accounts, self.others)


class LiveConfig(Section):
    """The whole file. Paths are as written, relative ones from the file's folder."""

    machine: str
    """Machine file, or the name of a built-in machine."""
    policy: str = "easy"
    """Row by name, ``my.toml:row``, ``my.py:Part``, or a name with single choices changed."""
    cap: str = "none"
    """A figure (``80%``, ``350kW``), or a file of ``time_s,cap_w`` that is read again whenever it changes."""
    mode: Mode = "observe"
    """``observe`` writes nothing, ``advise`` writes comments, ``control`` starts jobs."""
    user: str = ""
    """The account that the controller runs as, an operator of Slurm. job_submit.lua lets it change jobs, so it must be
    stated before the installation; empty is enough to observe."""
    period_s: Seconds = 1.0
    """Time between two rounds."""
    state: str = "wattqueue-live.db"
    """SQLite file, or the URL of a PostgreSQL. The default folder is that of ``reading.home_of``."""
    run_dir: Path = Path("run")
    """Heartbeat, status, lock, lease and the audit's head."""
    frequency_dir: Path | None = None
    record: Path | None = None
    """Every view with the decision on it, for ``wattqueue live replay``."""
    record_mb: Annotated[float, Field(gt=0, le=1e6)] = 1000.0
    """Size from which a new file of views begins; the one before is kept as NAME.1, so twice as much is used."""
    audit_days: Annotated[float, Field(gt=0, le=36_525)] = 365.0
    """Age from which rows of the audit log are removed; the chain of the rest stays verifiable."""
    audit_key_file: Path | None = None
    """Secret that seals the audit log against whoever can write the database."""
    takeover_s: Seconds = 15.0
    """Silence after which a standby on the same database takes over; at most ``away_s``."""
    away_s: Seconds = 120.0
    """After so long without a heartbeat Slurm schedules alone, under the pool."""
    start_timeout_s: Seconds = 30.0
    """A released job that does not run within this is held again, and tried later."""
    starts_a_cycle: Annotated[int, Field(ge=1, le=100_000)] = 200
    """Most starts per round: each takes two commands, and the round should stay within its period."""
    slurm: SlurmSection = SlurmSection()
    guard: GuardSection | None = None
    telemetry: TelemetrySection = TelemetrySection()
    limits: LimitsSection = LimitsSection()
    metrics: MetricsSection = MetricsSection()
    page: PageSection = PageSection()
    applications: ApplicationsSection | None = None
    energy: EnergySection | None = None
    budgets: BudgetsSection | None = None
    """Records the energy of each job; without this section nothing of a job is kept for its user."""
    consent: ConsentSection | None = None
    """Reads consent from the comments of jobs; without this section nobody consents."""
    targets: Path | None = None
    """CSV of load targets in seconds since the epoch, read again whenever it changes."""
    openadr: Section | None = None
    """Takes events of a grid operator's VTN as load targets; its fields are those of the package that serves it."""
    flux: Section | None = None
    """The controller runs inside a Flux instance, as its scheduler; fields as for ``openadr``."""

    @property
    def beat_dir(self) -> Path:
        """The folder of heartbeat and lease."""
        return self.run_dir if self.guard is None else self.guard.run_dir

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
    data = read_toml(path)
    _refuse_removed(data, path)
    home = home_of(path.resolve().parent)
    data = {"state": str(home / "wattqueue-live.db"), "run_dir": str(home / "run"), **data}
    model = _with_extensions(LiveConfig, [name for name in ("openadr", "flux") if name in data])
    config = read_model(path, model, _anchored(data, path.resolve().parent, path_names(model)))
    for name, served in (("metrics", config.metrics), ("page", config.page)):
        if not is_loopback(served.address) and served.token_file is None:
            hint = "name a token_file, or listen on 127.0.0.1"
            raise InputError(f"{name}.address is open to others without a token", where=path, hint=hint)
    if config.budgets is not None and config.energy is None:
        hint = "add a section [energy]: what jobs used is booked by their records"
        raise InputError("[budgets] needs [energy]", where=path, hint=hint)
    if config.targets is not None and config.openadr is not None:
        hint = "leave one of them out: targets from two sources may overlap"
        raise InputError("targets and [openadr] both state load targets", where=path, hint=hint)
    if config.guard is not None and config.guard.limits_socket is not None and config.telemetry.broker is None:
        hint = "name the broker in [telemetry.broker], with a user that may read states and write nothing"
        raise InputError("guard.limits_socket: there are no agents without a broker", where=path, hint=hint)
    if config.slurm.pool == "reconfigure" and config.slurm.pool_file is None:
        raise InputError("slurm.pool_file is needed to set the pool by reconfigure", where=path)
    return config


def energy_folder(config: LiveConfig, path: Path) -> tuple[Path, str]:
    """Return the folder of the records of jobs and the time zone of its months.

    Raises: InputError where the site keeps none.
    """
    if config.energy is None:
        hint = "the site's administrators add a section [energy]"
        raise InputError("no energies of jobs are recorded", where=path, hint=hint)
    return config.energy.place(config.run_dir), config.energy.time_zone


def _refuse_removed(data: dict[str, Any], path: Path) -> None:
    """Refuse keys of earlier releases that no longer exist, with what replaces them.

    Raises: InputError naming the first of them.
    """
    section = data.get("slurm")
    for key in ("rest", "rest_token_file", "rest_version"):
        if isinstance(section, dict) and key in section:
            hint = "delete the slurm.rest keys: jobs, nodes and licences are read by squeue, sinfo and scontrol"
            raise InputError(f"slurm.{key}: lists are no longer read through slurmrestd", where=path, hint=hint)


def _with_extensions(model: type[LiveConfig], names: Sequence[str]) -> type[LiveConfig]:
    """Return the model with the fields of these sections. Raises: InputError where no package serves one."""
    fields: dict[str, Any] = {name: (live_extension(name).section | None, None) for name in names}
    return create_model(model.__name__, __base__=model, **fields) if fields else model


def path_names(model: type[BaseModel]) -> set[str]:
    """Return the names of the fields that are paths, those of sections included."""
    found: set[str] = set()
    for name, field in model.model_fields.items():
        kinds = get_args(field.annotation) or (field.annotation,)
        if get_origin(field.annotation) is not dict and Path in kinds:
            found.add(name)
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                found |= path_names(kind)
    return found


def _anchored(data: dict[str, Any], folder: Path, paths: set[str]) -> dict[str, Any]:
    """Return the data with relative paths made absolute from the file's folder, sections included.

    ``paths`` are the names of fields that are paths.
    """
    out: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict):
            nested = {name: str(folder / root) for name, root in value.items() if isinstance(root, str)}
            out[key] = nested if key in ("powercap", "pm_counters") else _anchored(value, folder, paths)
        else:
            out[key] = _with_folder(key, value, folder, paths) if isinstance(value, str) else value
    return out


def _with_folder(key: str, value: str, folder: Path, paths: set[str]) -> str:
    """Return a value with its folder if it is a path: by its key, or where a name may also be one of a file."""
    if key == "policy":
        return with_files(value, lambda name: in_folder(name, folder))
    if key == "machine" or (key == "cap" and not names_file(value)):
        return in_folder(value, folder)
    named = key in ("state", "database") and "://" not in value
    # a file of caps that is missing now may come: its place is the folder's all the same
    return str(folder / value) if named or key in paths or key == "cap" or (key == "bin_dir" and value) else value
