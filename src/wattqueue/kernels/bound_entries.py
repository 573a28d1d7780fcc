"""``bind`` for those who call kernels: an entry kernel with its tuples prepared, for many calls with the same ones."""

from __future__ import annotations

from wattqueue.kernels._numba import bind

__all__ = ["bind"]
