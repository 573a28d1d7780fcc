"""Dataclasses and named tuples as JSON values and back, and tables of some rows."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from wattqueue.model.codec import made, plain, take


class Key(NamedTuple):
    name: str
    submit_s: float


class Request(NamedTuple):
    key: Key
    nodes: int
    limit_s: float = math.inf


@dataclass(frozen=True, eq=False)
class Names:
    codes: NDArray[np.int32]
    names: tuple[str, ...] = ()

    def take(self, index: NDArray[Any] | slice) -> Names:
        return take(self, index)


@dataclass(frozen=True, eq=False)
class Table:
    job: NDArray[Any]
    watts: NDArray[np.float64]
    user: Names
    start_s: NDArray[np.float64] | None = None
    origin: str = "measured"
    extra: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    key: Key | None = None


def table(n: int) -> Table:
    flags = {"flag": np.arange(n) % 2 == 0}
    return Table(np.arange(n), np.linspace(0, 1, n), Names(np.arange(n, dtype=np.int32) % 2, ("a", "b")), extra=flags)


def test_json_values_of_a_table_worked_out_by_hand() -> None:
    found = plain(Table(np.array([1, 2]), np.array([0.5, 1.5]), Names(np.array([0, -1], np.int32), ("ada",))))
    assert found == {
        "job": [1, 2], "watts": [0.5, 1.5], "user": {"codes": [0, -1], "names": ["ada"]},
        "start_s": None, "origin": "measured", "extra": {}, "key": None,
    }  # fmt: skip
    assert plain((np.float32(0.5), np.bool_(True), np.int64(3), None)) == [0.5, True, 3, None]
    assert plain(Request(Key("7", 1.0), 2)) == [["7", 1.0], 2, math.inf]


@given(st.integers(0, 5))
def test_a_table_comes_back_with_its_types(n: int) -> None:
    before = table(n)
    after = made(Table, json.loads(json.dumps(plain(before))))
    assert plain(after) == plain(before)
    arrays = (after.watts, after.user.codes, after.extra["flag"])
    assert [array.dtype.name for array in arrays] == ["float64", "int32", "bool"]
    assert isinstance(after.user, Names)
    assert isinstance(after.user.names, tuple)


@given(st.text(), st.floats(allow_nan=False), st.integers())
def test_named_tuples_come_back_from_lists_and_objects(name: str, submit_s: float, nodes: int) -> None:
    request = Request(Key(name, submit_s), nodes, 60.0)
    assert made(Request, plain(request)) == request
    assert made(Request, request._asdict()) == request
    assert made(Request, [[name, submit_s], nodes]) == Request(Key(name, submit_s), nodes)


def test_arrays_become_what_the_caller_says() -> None:
    kept: list[NDArray[Any]] = []

    def put(array: NDArray[Any]) -> int:
        kept.append(array)
        return len(kept) - 1

    found = plain(table(3), put)
    assert (found["job"], found["user"]["codes"], found["extra"]) == (0, 2, {"flag": 3})
    back = made(Table, found, lambda number, _: kept[number])
    assert back.user.codes is kept[2]
    assert back.extra["flag"] is kept[3]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ([["7", 1.0], 2, 3.0, 4], ValueError),
        ([["7"]], TypeError),
        ({"key": ["7", 1.0], "node": 2}, KeyError),
        (3, TypeError),
    ],
)
def test_other_values_are_refused(data: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        made(Request, data)


def test_rows_of_a_table() -> None:
    mask = np.array([True, False, True])
    for index in (mask, np.array([0, 2]), slice(0, 3, 2)):
        found = take(table(3), index)
        assert found.job.tolist() == [0, 2]
        assert found.user.codes.tolist() == [0, 0]
        assert found.user.names == ("a", "b")
        assert found.extra["flag"].tolist() == [True, True]
        assert found.start_s is None
    assert take(table(3), mask, "job").job.tolist() == [0, 1, 2]
    whole = table(3)
    assert np.shares_memory(take(whole, slice(0, 2)).watts, whole.watts), "a slice copies nothing"
