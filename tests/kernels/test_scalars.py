"""Named scalars: what Python reads and writes is what kernels do."""

from __future__ import annotations

import copy
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest

from wattqueue.kernels._numba import Scalars, as_int64, entry, kernel, referenced


class Account(Scalars):
    rate: float
    watts: int
    jobs: int


@referenced
class Books(NamedTuple):
    price: Any
    now: Account


@kernel
def book(books: Books, watts: int) -> None:
    books.now.watts += as_int64(watts)
    books.now.jobs += 1


@entry
def book_all(books: Books, watts: Any) -> float:
    for k in range(len(watts)):
        book(books, watts[k])
    books.now.rate = books.now.watts * books.price[0]
    return books.now.rate


def test_kernels_and_python_share_the_memory() -> None:
    books = Books(np.array([0.5]), Account())
    books.now.watts = 1 << 61
    books.now.watts -= (1 << 61) - 7
    assert book_all(books, np.array([10, -3], np.int64)) == 7.0
    assert (books.now.rate, books.now.watts, books.now.jobs) == (7.0, 14, 2)
    assert repr(books.now) == "Account(rate=7.0, watts=14, jobs=2)"


def test_a_copy_has_memory_of_its_own() -> None:
    account = Account()
    account.watts = 5
    for other in (copy.deepcopy(account), pickle.loads(pickle.dumps(account))):  # noqa: S301  our own
        other.watts += 1
        assert (account.watts, other.watts) == (5, 6)


def test_a_field_that_is_none_cannot_be_set() -> None:
    account: Any = Account()
    with pytest.raises(AttributeError):
        account.wats = 1


@pytest.mark.parametrize("value", [1.5, "1", 1 << 63])
def test_what_is_no_whole_number_of_64_bits_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Account().watts = value


def test_a_field_of_another_kind_is_refused() -> None:
    with pytest.raises(KeyError):

        class Named(Scalars):
            name: str


def test_read_only_memory_stays_as_it_is() -> None:
    memory = np.zeros(3, np.int64)
    account = Account(np.asarray(memory.data.toreadonly()))
    memory[1] = 4
    assert account.watts == 4
    with pytest.raises(TypeError):
        account.watts = 5
