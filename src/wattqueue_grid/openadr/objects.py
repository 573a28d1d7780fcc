"""Objects of OpenADR 3.1 as this VEN reads them: the attributes that it uses, checked, everything else left out.

A VTN may send more than is known here (the documents ask for that tolerance), so unknown attributes are no error. What
is wrong in one object concerns that object alone: ``parse`` says which, and the others of its list are read.

Reference: OpenADR 3.1.0, OpenAPI document, ``components.schemas``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Strict, StrictBool, StrictStr, ValidationError
from pydantic.alias_generators import to_camel

from wattqueue.errors import InputError
from wattqueue.formats.bounded import Number, WholeNumber
from wattqueue.formats.checked_toml import in_words

ObjectId = Annotated[str, Field(pattern=r"^[-a-z_A-Z0-9]+$", max_length=128)]
"""An id that the VTN gave: it may stand in a path as it is."""
Name = Annotated[str, Field(min_length=1)]
Whole = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
"""An integer of the OpenAPI document (``int32``)."""
Kind = TypeVar("Kind", bound=BaseModel)


class _Object(BaseModel):
    """Base: names in camel case outside, and nothing changes after it was read."""

    model_config = ConfigDict(extra="ignore", frozen=True, alias_generator=to_camel, validate_by_name=True)


class Point(_Object):
    """A point of a curve."""

    x: Number
    y: Number


Value = StrictBool | Annotated[WholeNumber, Strict()] | Annotated[Number, Strict()] | StrictStr | Point


class ValuesMap(_Object):
    """Values of one type."""

    type: str
    values: tuple[Value, ...]


class IntervalPeriod(_Object):
    """When an interval begins and how long it takes, as written."""

    start: str | None = None
    duration: str | None = None
    randomize_start: str | None = None


class EventInterval(_Object):
    """One interval of an event."""

    id: Whole
    period: IntervalPeriod | None = Field(None, alias="intervalPeriod")
    payloads: tuple[ValuesMap, ...]


class PayloadDescriptor(_Object):
    """What the values of a payload mean."""

    payload_type: str
    units: str | None = None
    currency: str | None = None


class ReportRequest(_Object):
    """A report that an event asks for (``reportDescriptor``)."""

    payload_type: str
    reading_type: str | None = None
    units: str | None = None
    aggregate: bool = False
    start_interval: Whole = -1
    num_intervals: Whole = -1
    historical: bool = True
    frequency: Whole = -1
    repeat: Whole = 1


class VtnProgram(_Object):
    """A program; events without descriptors of their own have the program's."""

    id: ObjectId
    name: Name = Field(alias="programName")
    descriptors: tuple[PayloadDescriptor, ...] | None = Field(None, alias="payloadDescriptors")


class VtnEvent(_Object):
    """An event. ``created`` and ``modified`` are dates as the VTN wrote them."""

    id: ObjectId
    created: str = Field(alias="createdDateTime")
    modified: str = Field(alias="modificationDateTime")
    program_id: ObjectId = Field(alias="programID")
    name: str | None = Field(None, alias="eventName")
    duration: str | None = None
    priority: Annotated[Whole, Field(ge=0)] | None = None
    descriptors: tuple[PayloadDescriptor, ...] | None = Field(None, alias="payloadDescriptors")
    requests: tuple[ReportRequest, ...] | None = Field(None, alias="reportDescriptors")
    period: IntervalPeriod | None = Field(None, alias="intervalPeriod")
    intervals: tuple[EventInterval, ...] | None = None


class VenObject(_Object):
    """What a VTN keeps of a VEN, or of a resource of it."""

    id: ObjectId
    name: Name = Field(alias="venName")


class ResourceObject(_Object):
    """What a VTN keeps of a resource of a VEN."""

    id: ObjectId
    ven_id: ObjectId = Field(alias="venID")
    name: Name = Field(alias="resourceName")


class CallbackOperation(_Object):
    """Objects and operations of which a webhook is notified."""

    objects: tuple[str, ...]
    callback_url: str


class SubscriptionObject(_Object):
    """A subscription at the VTN."""

    id: ObjectId
    client_name: str
    operations: tuple[CallbackOperation, ...] = Field(alias="objectOperations")


class TokenAnswer(_Object):
    """The answer to a request for a token (RFC 6749)."""

    model_config = ConfigDict(alias_generator=None, hide_input_in_errors=True)

    access_token: Annotated[str, Field(min_length=1, max_length=4096, repr=False)]
    token_type: str
    expires_in: Annotated[float, Field(ge=0, le=2**32)] | None = None


def parse(kind: type[Kind], data: Any) -> Kind:
    """Return an object of what JSON gave. Raises: InputError naming the object by its id and the wrong attribute."""
    named = data.get("id") if isinstance(data, Mapping) else None
    return parse_as(kind, data, f"{kind.__name__} {str(named)[:40]}" if named is not None else kind.__name__)


def parse_as(kind: type[Kind], data: Any, where: str) -> Kind:
    """Return an object of what JSON gave. Raises: InputError naming ``where`` and the wrong attribute, no value."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step) for step in found["loc"]) or "object"
        raise InputError(f"{place}: {in_words(found)}", where=where) from None
