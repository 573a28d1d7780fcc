"""Amounts of money as whole micro-units of a currency: 1.25 EUR is 1,250,000.

Integers add without rounding, so a sum does not depend on its order, and a database and a page show the same figure.
A rate enters as a ``Decimal`` with the digits that its file has, never as a binary fraction. A product of a rate and a
quantity is rounded once, to the nearest micro-unit, halves to the even one; sums are of rounded products, so that
every total can be checked against the rows of its statement.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from wattqueue.errors import InputError

MICRO = 1_000_000
"""Micro-units of one unit of a currency."""
MOST = Decimal(10) ** 9
"""Largest rate or amount of a file. Sums of some million such amounts fit 64 bits (2**63 micro-units are 9.2e12)."""


def decimal_of(value: float | str | Decimal, where: str) -> Decimal:
    """Return a figure of a file as the decimal number that was written there.

    A float becomes the shortest decimal number that reads back as the same float, which is the one that was typed.

    Raises: InputError naming ``where`` for text that is no number, and for figures beyond ``MOST``.
    """
    try:
        number = Decimal(repr(value) if isinstance(value, float) else str(value).strip())
    except ArithmeticError as error:
        raise InputError(f"{str(value)[:40]!r} is not a number", where=where, hint="for example 12.50") from error
    if not number.is_finite() or abs(number) > MOST:
        raise InputError(f"{str(value)[:40]} is outside -1e9 to 1e9", where=where, hint="check the unit of the amount")
    return number


def micro(rate: Decimal, quantity: int = 1, per: int = 1) -> int:
    """Return ``rate * quantity / per`` in whole micro-units; exact up to the one rounding, halves to even.

    Example: ``micro(Decimal("94.64"), 125_000, 3_600_000_000)`` is 125 kJ at 94.64 EUR/MWh: 3,286 micro-euros.
    """
    return round(Fraction(rate) * quantity * MICRO / per)


def plain(amount: int) -> str:
    """Return an amount exactly, as CSV holds it: ``1.25``, ``-0.000001``, ``3``."""
    whole, rest = divmod(abs(amount), MICRO)
    text = f"{whole}.{rest:06d}".rstrip("0").rstrip(".")
    return f"-{text}" if amount < 0 else text


def words(amount: int, currency: str) -> str:
    """Return an amount for people: ``1,234.50 EUR``, rounded to hundredths, halves to even."""
    hundredths = round(Fraction(amount, MICRO // 100))
    whole, rest = divmod(abs(hundredths), 100)
    return f"{'−' if hundredths < 0 else ''}{whole:,}.{rest:02d} {currency}"
