"""The section ``[openadr]`` of the controller's configuration: which VTN, as whom, and what an event means here.

``SiteRules`` is what this site does with an event: the figures that the documents of OpenADR leave to a contract.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from wattqueue.formats.bounded import Kilowatts, Seconds
from wattqueue.formats.checked_toml import Section
from wattqueue.live.files.reading import is_loopback

Setpoint = Literal["refuse", "absolute", "relative"]


@dataclass(frozen=True)
class SiteRules:
    """How values of events become watts of the machine's cap scope.

    Attributes:
        ven_name: Name of the VEN; draws the shift of ``randomizeStart``.
        maximum_w: Watts that a share (units ``PERCENT``) is of; None refuses shares.
        idle_w: Watts that the idle machine draws in that scope; a limit below is taken as this, and reported.
        uncounted_w: Idle watts that the scope of the cap leaves out; 0 where it is the whole machine.
        other_w: Watts of the site beside the machine: an import limit is of the whole site.
        emergency_w: Load of the machine while ``ALERT_GRID_EMERGENCY`` holds; None reports the alert and limits
            nothing.
        setpoint: Whether a ``CONTROL_SETPOINT`` is the load itself, or a change of ``reference_w``. The documents leave
            this to the program; the examples of the user guide (8.9.3) are changes.
        reference_w: Load of the site that a relative setpoint changes.
        currency: Currency of prices; another one is refused.
        ramp_w_per_s: Watts by which the limit may rise in a second after a target; inf for at once.
    """

    ven_name: str
    maximum_w: float | None = None
    idle_w: float = 0.0
    uncounted_w: float = 0.0
    other_w: float = 0.0
    emergency_w: float | None = None
    setpoint: Setpoint = "refuse"
    reference_w: float | None = None
    currency: str = "EUR"
    ramp_w_per_s: float = math.inf

    @property
    def beside_w(self) -> float:
        """Return the watts of the site that a limit of the site contains, and the scope of the cap does not."""
        return self.other_w + self.uncounted_w


Name = Annotated[str, Field(min_length=1, max_length=128)]


class CallbackSection(Section):
    """A webhook: where this VEN listens, and the URL under which the VTN reaches it."""

    url: str
    """What the VTN calls; usually a reverse proxy that ends TLS."""
    address: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 0

    @field_validator("url")
    @classmethod
    def _encrypted(cls, value: str) -> str:
        return require_encrypted(value)


class OpenADRSection(Section):
    """A VEN beside the controller. Watts are in kilowatts here, as in events."""

    vtn: str
    """Base URL of the VTN. Without TLS only this host."""
    client_id: Name
    client_secret_file: Path
    """Readable by its owner alone."""
    token_url: str | None = None
    """Where tokens are issued; without it the VTN is asked (``/auth/server``)."""
    scope: str = ""
    """Scopes to ask for, separated by spaces; empty leaves them to the server."""
    ca_file: Path | None = None
    """Certificate of the authority that signed the VTN's; without it the system's authorities."""
    ven_name: Name
    resource_name: Name = "cluster"
    programs: tuple[Name, ...] = ()
    """Names of the programs whose events are taken; empty: of all."""
    targets: tuple[Name, ...] = ()
    """Asks for objects with these targets only."""
    poll_s: Annotated[Seconds, Field(ge=1.0)] = 60.0
    """Time between two looks at the events."""
    timeout_s: Seconds = 10.0
    """After so long a request is given up."""
    clock_tolerance_s: Seconds = 5.0
    """Difference from the VTN's clock that is reported."""
    callback: CallbackSection | None = None
    mqtt: bool = True
    """Use the VTN's MQTT broker where it offers one."""
    reports: bool = True
    """Send the reports that events ask for."""
    other_kw: Kilowatts = 0.0
    """Load of the site beside the cluster; import limits are of the site."""
    emergency_kw: Kilowatts | None = None
    """Load of the cluster while there is a grid emergency."""
    setpoint: Setpoint = "refuse"
    """Whether CONTROL_SETPOINT is the load of the site (absolute), or changes ``reference_kw`` (relative)."""
    reference_kw: Kilowatts | None = None
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] = "EUR"
    ramp_kw_per_s: Annotated[Kilowatts, Field(gt=0)] | None = None
    """Most kilowatts a second by which the limit rises after a target."""
    baseline: Path | None = None
    """Power in the absence of load control, for BASELINE reports: a CSV of ``time_s,power_w``."""

    @field_validator("vtn", "token_url")
    @classmethod
    def _encrypted(cls, value: str | None) -> str | None:
        return None if value is None else require_encrypted(value)

    @field_validator("client_id")
    @classmethod
    def _plain(cls, value: str) -> str:
        if not value.isprintable():
            raise ValueError("must be printable")
        return value

    @model_validator(mode="after")
    def _complete(self) -> OpenADRSection:
        if self.setpoint == "relative" and self.reference_kw is None:
            raise ValueError('setpoint = "relative" needs reference_kw')
        return self


def require_encrypted(url: str) -> str:
    """Return a URL without its last slash. Raises: ValueError for one over which a secret must not be sent."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be a URL such as https://vtn.example/openadr3/3.1.0")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not contain a user or password")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ValueError("must begin with https: only this host may be asked without TLS")
    return url.rstrip("/")
