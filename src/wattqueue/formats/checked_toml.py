"""Read a TOML file into a model of pydantic, a class or a dataclass: one reader for such files, findings in words.

A misspelt key is an error with the nearest known key, never a default in silence.

The first finding of pydantic in a TOML file, in words, with a hint.

pydantic lists all findings in its own terms. A user corrects one at a time, and an unknown key explains a missing
one, so the first finding is reported, unknown keys before all others.

Used by ``checked_toml``, by the reader of machines, which has errors of its own kind, and for messages of agents.
The caller raises the error, since it knows the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from wattqueue.errors import InputError, nearest
from wattqueue.formats.toml import read_toml

Model = TypeVar("Model")
Place = tuple[int | str, ...]
UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
"""Kinds of the finding that a key is unknown, in a class and in a dataclass."""


class Section(BaseModel):
    """Base of tables in configuration: unknown keys are errors, and nothing changes after the file was read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StrictTable(BaseModel):
    """Base of tables in data: besides, values of another type, nan and inf are errors; nothing is converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def read_model(path: Path, model: type[Model], data: Mapping[str, Any] | None = None) -> Model:
    """Return a file as a model. ``data`` is its content where the caller has read it, and perhaps completed it.

    Raises: InputError naming file and key.
    """
    try:
        return TypeAdapter(model).validate_python(read_toml(path) if data is None else dict(data))
    except ValidationError as error:
        what, hint = first_finding(error, lambda place: known_keys(model, place))
        raise InputError(what, where=path, hint=hint) from error


def known_keys(model: Any, place: Place) -> list[str]:
    """Return the keys of the table in which a finding lies, to suggest the nearest one for a misspelt key.

    Steps of a place that are no field (numbers of an array, names that the user chose) lead nowhere.
    """
    for step in place[:-1]:
        field = model.__pydantic_fields__.get(str(step))
        model = (_model_in(field.annotation) if field is not None else None) or model
    return list(model.__pydantic_fields__)


def _model_in(annotation: Any) -> Any:
    """Return the model in an annotation such as ``list[Table] | None``; None where there is none."""
    if isinstance(annotation, type) and hasattr(annotation, "__pydantic_fields__"):
        return annotation
    return next((found for a in get_args(annotation) if (found := _model_in(a)) is not None), None)


def first_finding(error: ValidationError, known: Callable[[Place], Sequence[str]]) -> tuple[str, str]:
    """Return what is wrong, and the hint.

    ``known`` returns the keys that may stand in the table of a place; the nearest one is suggested for a misspelt
    key. Places are written as people count: ``partitions[1]`` is the first partition. Values are shown in at most
    40 letters.
    """
    found = error.errors(include_url=False)
    first = next((f for f in found if f["type"] in UNKNOWN), found[0])
    place = "".join(f"[{step + 1}]" if isinstance(step, int) else f".{step}" for step in first["loc"]).lstrip(".")
    if first["type"] in UNKNOWN:
        keys = known(first["loc"])
        return f"unknown key {place}", nearest(str(first["loc"][-1]), keys).rstrip() or f"known: {', '.join(keys)}"
    if first["type"] == "missing":
        return f"no {place}", "add the key"
    problem = first["msg"].removeprefix("Value error, ")
    problem = problem[:1].lower() + problem[1:]
    return (f"{place} = {repr(first['input'])[:40]}: {problem}" if place else problem), "correct the value"
