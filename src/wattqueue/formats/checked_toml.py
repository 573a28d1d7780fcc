"""Read a TOML file into a model of pydantic, a class or a dataclass: one reader for such files, findings in words.

A misspelt key is an error with the nearest known key, never a default in silence.

pydantic lists all findings in its own terms. A user corrects one at a time, and an unknown key explains a missing
one, so the first finding is reported, unknown keys before all others (``first_finding``). The words (``in_words``) are
those of the command line and of messages, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import is_pydantic_dataclass
from pydantic_core import ErrorDetails

from wattqueue.errors import InputError, nearest
from wattqueue.formats.toml import read_toml

Model = TypeVar("Model")
Place = tuple[int | str, ...]
UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
"""Kinds of the finding that a key is unknown, in a class and in a dataclass."""
REQUIREMENTS = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "must be a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "must be true or false"),
    **dict.fromkeys(("model_type", "dict_type", "dataclass_type"), "must be a table"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list"),
    "finite_number": "must be finite",
    "string_type": "must be a text",
    "greater_than_equal": "must be {ge} or more",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be {le} or less",
    "less_than": "must be below {lt}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
}
"""What a value must be, by the kind of pydantic's finding; others keep pydantic's words."""


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
    if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or is_pydantic_dataclass(annotation)):
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
    problem = in_words(first)
    return (f"{place} = {repr(first['input'])[:40]}: {problem}" if place else problem), "correct the value"


def in_words(finding: ErrorDetails) -> str:
    """Return what a finding asks of a value, in plain words."""
    if finding["type"] in REQUIREMENTS:
        return REQUIREMENTS[finding["type"]].format(**finding.get("ctx", {}))
    problem = finding["msg"].removeprefix("Value error, ")
    return problem[:1].lower() + problem[1:]
