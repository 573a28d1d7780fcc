"""Dataclasses and named tuples, with columns or without, as JSON values and back; and tables of some rows.

A dataclass becomes an object by the names of its fields, a tuple a list, named or not. The way back follows the types
of the fields. What an array becomes is the caller's: the list of its values, or the name of a file that holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


def plain(value: Any, array: Callable[[NDArray[Any]], Any] = np.ndarray.tolist) -> Any:
    """Return a value as JSON values; ``array`` gives those of an array."""
    if isinstance(value, np.ndarray):
        return array(value)
    if isinstance(value, np.generic):
        return value.item()
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name), array) for one in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(inner, array) for name, inner in value.items()}
    return [plain(inner, array) for inner in value] if isinstance(value, list | tuple) else value


def made(kind: type[T], data: Any, array: Callable[[Any, Any], NDArray[Any]] = np.array) -> T:
    """Return the dataclass or named tuple of JSON values; ``array`` makes an array of what it became and its dtype.

    Fields that the values lack have their defaults. Values of a named tuple are a list, or an object by names.

    Raises: KeyError, TypeError, ValueError or IndexError for values that are no such thing.
    """
    described: Any = kind
    kinds = _kinds(described)
    if not isinstance(data, Mapping):
        if len(data) > len(kinds):
            raise ValueError(f"{len(data)} values for {kind.__name__}")
        data = dict(zip(kinds, data, strict=False))  # the last ones may have defaults
    return kind(**{name: _made(kinds[name], value, array) for name, value in data.items()})


@cache
def _kinds(kind: Any) -> dict[str, Any]:
    """Return the types of the fields of a class, None left out."""
    hints = get_type_hints(kind)
    names = [one.name for one in fields(kind)] if is_dataclass(kind) else kind._fields
    return {name: _without_none(hints[name]) for name in names}


def _without_none(kind: Any) -> Any:
    """Return the type in ``X | None``."""
    if get_origin(kind) in (Union, UnionType):
        return next(one for one in get_args(kind) if one is not type(None))
    return kind


def _made(kind: Any, value: Any, array: Callable[[Any, Any], NDArray[Any]]) -> Any:
    """Return a value of one type."""
    if value is None:
        return None
    origin, inner = get_origin(kind), get_args(kind)
    if origin is np.ndarray:
        (dtype,) = get_args(inner[1])
        return array(value, None if dtype is Any else dtype)
    if origin is tuple:
        return tuple(value)
    if origin in (dict, Mapping):
        return {name: _made(inner[1], one, array) for name, one in value.items()}
    composed = isinstance(kind, type) and (is_dataclass(kind) or _is_named_tuple(kind))
    return made(kind, value, array) if composed else value


def _is_named_tuple(kind: type) -> bool:
    """Return whether a type is a tuple whose fields have names."""
    return issubclass(kind, tuple) and kind is not tuple


def take(table: T, index: NDArray[Any] | slice, *whole: str) -> T:
    """Return the rows of ``index`` (a mask, row numbers, or a slice, which copies nothing) of a dataclass of columns.

    The fields in ``whole``, and what is no column, stay as they are.
    """
    columns = {one.name: getattr(table, one.name) for one in fields(table)}  # type: ignore[arg-type]
    return replace(table, **{n: _rows(v, index) for n, v in columns.items() if n not in whole})  # type: ignore[type-var]


def _rows(value: Any, index: NDArray[Any] | slice) -> Any:
    """Return the rows of a column, of a table of columns, or of several columns by name."""
    if isinstance(value, np.ndarray):
        return value[index]
    if isinstance(value, Mapping):
        return {name: _rows(column, index) for name, column in value.items()}
    return value.take(index) if hasattr(value, "take") else value
