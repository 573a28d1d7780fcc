"""Read a TOML file into a pydantic model: one reader for every file whose tables are such models.

A misspelt key is an error with the nearest known key, never a default in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from wattqueue.errors import InputError
from wattqueue.formats.schema import Place, first_finding
from wattqueue.formats.toml import read_toml

Model = TypeVar("Model", bound=BaseModel)


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
        return model.model_validate(read_toml(path) if data is None else dict(data))
    except ValidationError as error:
        what, hint = first_finding(error, lambda place: known_keys(model, place))
        raise InputError(what, where=path, hint=hint) from error


def known_keys(model: type[BaseModel], place: Place) -> list[str]:
    """Return the keys of the table in which a finding lies, to suggest the nearest one for a misspelt key.

    Steps of a place that are no field (numbers of an array, names that the user chose) lead nowhere.
    """
    for step in place[:-1]:
        field = model.model_fields.get(str(step))
        model = (_model_in(field.annotation) if field is not None else None) or model
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model in an annotation such as ``list[Table] | None``; None where there is none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for a in get_args(annotation) if (found := _model_in(a)) is not None), None)
