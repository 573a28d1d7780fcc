"""Errors that machine code cannot raise: it ends, the interpreter finds no error, and raises a SystemError instead."""

from __future__ import annotations

from threading import get_ident

_KEPT: dict[int, BaseException] = {}
"""The last error of each thread, by its number."""


def keep(error: BaseException) -> None:
    """Keep the error for which machine code is about to end."""
    _KEPT[get_ident()] = error


def cause_of(error: SystemError) -> BaseException:
    """Return what ended machine code: the error that was kept, else the SystemError itself."""
    return _KEPT.pop(get_ident(), error)
