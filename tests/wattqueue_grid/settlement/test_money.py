"""Money in whole micro-units: exact, rounded once, the same sum in any order."""

from decimal import Decimal

import pytest

from wattqueue.errors import InputError
from wattqueue_grid.money import decimal_of, micro, plain, words


def test_a_product_is_rounded_once_halves_to_even() -> None:
    # 125 kJ at 94.64 EUR/MWh: 0.125 / 3600 MWh x 94.64 = 0.0032861 EUR
    assert micro(Decimal("94.64"), 125_000, 3_600_000_000) == 3_286
    assert micro(Decimal("0.0000005")) == 0
    assert micro(Decimal("0.0000015")) == 2
    assert micro(Decimal("-0.0000015")) == -2


def test_a_float_of_a_file_is_the_decimal_that_was_written() -> None:
    assert decimal_of(0.1, "x") == Decimal("0.1")
    assert decimal_of("12.50", "x") == Decimal("12.50")


@pytest.mark.parametrize("value", ["", "ten", "nan", "inf", 1e10, "1e400"])
def test_what_is_no_amount_is_refused_with_its_place(value: str | float) -> None:
    with pytest.raises(InputError) as error:
        decimal_of(value, "contract.toml: fee")
    assert error.value.where == "contract.toml: fee"


def test_amounts_as_text() -> None:
    assert [plain(a) for a in (1_250_000, -1, 3_000_000, 0)] == ["1.25", "-0.000001", "3", "0"]
    assert words(1_234_500_000, "EUR") == "1,234.50 EUR"
    assert words(-5_000, "EUR") == "0.00 EUR"
    assert words(-15_000, "EUR") == "−0.02 EUR"
