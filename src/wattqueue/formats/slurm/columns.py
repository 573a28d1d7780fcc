"""Columns of an sacct dump in SI units: times, durations, energies, counts.

Every function takes a polars column of text and returns numpy arrays; what cannot be read is NaN, never a guess.
The forms that occur, over Slurm 17 to 26 and the conversions of sites:

- times: ``2026-09-01T10:00:00``, with a blank or an offset, Unix seconds, ``Unknown``, ``None``;
- durations: ``1-02:03:04``, ``02:03:04``, ``03:04``, ``03:04.123``, a bare number, ``UNLIMITED``, ``INVALID``;
- energies: joules, or rounded with a suffix (``4.58M``); 0 and marks for "no value" where nothing was counted;
- counts: plain, or with a suffix (``1.5K`` CPUs).

Columns have few different values compared with rows (states, limits, elapsed times), so texts are parsed once per
value where that pays.

Invariants: an array has one element per row of the column, in its order; no function raises for a text, whatever it
holds; Slurm's marks for "no value" (``UNSET``, ``NOTHING``) never pass as figures. Units of results are seconds,
joules, GB and counts, all float64.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats.source import shown
from wattqueue.model.bounds import TIME_S
from wattqueue.model.jobs import Floats

if TYPE_CHECKING:
    import polars as pl

Mask = NDArray[np.bool_]

NOTHING = (
    "",
    "unknown",
    "none",
    "n/a",
    "invalid",
    "(null)",
    "none assigned",
    "?",
    "nan",
    "-1",
    "unlimited",
    "infinite",
    "partition_limit",
)
"""Words that stand for no value, in small letters."""
TIME_FORMATS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S%.f", "%Y/%m/%d-%H:%M:%S", "%Y-%m-%dT%H:%M")
"""Times without a zone: Slurm's own format, and what sites set as SLURM_TIME_FORMAT."""
ZONED_FORMATS = ("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S%z", "%Y-%m-%dT%H:%M:%S%.f%z")
EARLIEST_S = 86_400.0 * 365
"""Times in 1970 are an unset field that was printed as a date."""
SUFFIX = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
"""Slurm shortens joules and counts by powers of 1000."""
MOST_J = 1e15
"""More than any job: an unset 64-bit counter (18446744073709551614) lies above.

Joules. A job of 10,000 nodes at 10 kW for 100 days takes 8.6e14 J.
"""
UNSET = (2.0**32 - 2, 2.0**32 - 1, 2.0**64)
"""Slurm's marks for "no value" and "infinite" (NO_VAL, INFINITE) in its 32- and 64-bit integers, as float64.

2**64 - 2 and 2**64 - 1 both round to 2**64. They are removed before any test of plausibility: 4294967294 J over ten
days on ten nodes is a plausible 497 W. The 16-bit marks (65534, 65535) are left, since counts of nodes reach them.
"""
UNSET_ROUNDED = r"^4[.,]29G$"
"""4294967294 J as sacct prints them in the column ConsumedEnergy. A job that really took 4.29 GJ is lost with them."""
MEMORY_GB = {"K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3, "P": 1e6}
"""Gigabytes per unit of ReqMem."""


class Clock:
    """What times without a zone mean: ``UTC``, an offset such as ``+02:00``, or a zone such as ``Europe/Berlin``.

    Attributes: ``stated`` (whether the user gave a zone), ``zone`` (name of a zone with clock changes, else None)
    and ``offset_s`` (seconds ahead of UTC, where there is no such zone).

    Raises: InputError for anything else.
    """

    def __init__(self, zone: str | None) -> None:
        self.stated = zone is not None
        self.zone: str | None = None
        self.offset_s = 0.0
        offset = re.fullmatch(r"(?:UTC)?([+-])([0-9]{1,2}):?([0-9][0-9])?", zone or "")
        if offset and int(offset[2]) <= 14:
            size = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0)).total_seconds()
            self.offset_s = -size if offset[1] == "-" else size
            zone = None
        if zone and zone.upper() not in {"UTC", "Z", "GMT"}:
            try:
                ZoneInfo(zone)
            except (ZoneInfoNotFoundError, ValueError, OSError) as error:
                raise InputError(f"no time zone {shown(zone)}", hint="give UTC, +02:00 or Europe/Berlin") from error
            self.zone = zone


class Energies(NamedTuple):
    """Energies of a column. Shapes (n,).

    ``joules`` is NaN where none were counted: empty, 0, negative, above ``MOST_J`` or ``unset``. ``unread`` marks text
    that is no number, ``unset`` Slurm's marks for "no value".
    """

    joules: Floats
    unread: Mask
    unset: Mask


class Times(NamedTuple):
    """Seconds since 1970 UTC, NaN for none. Shapes (n,).

    ``late_s`` is the same time, read as the second pass of an hour that the clock showed twice. ``bad``: something
    stands there that is no known time; ``naive``: it had no zone.
    """

    time_s: Floats
    late_s: Floats
    bad: Mask
    naive: Mask


def present(text: pl.Series) -> pl.Series:
    """Return whether a value stands there.

    ``Unknown``, ``None assigned`` and the like are none (``NOTHING``). Shape (n,), never null.
    """
    return ~text.fill_null("").str.strip_chars().str.to_lowercase().is_in(NOTHING)


def times(text: pl.Series, clock: Clock) -> Times:
    """Return times, each by the first format that fits.

    Formats without a zone are tried first, since nearly all dumps have one of them throughout: after the first
    format, usually no row is left. ``clock`` says what they mean. A text that fits no format is ``bad``; 1970 and
    Slurm's marks count as missing, without being bad.
    """
    import polars as pl

    n = len(text)
    there = present(text).to_numpy()
    early, late = np.full(n, np.nan), np.full(n, np.nan)
    naive = np.zeros(n, np.bool_)
    rest = np.flatnonzero(there)
    for pattern in TIME_FORMATS:
        if not len(rest):
            break
        # The first format usually fits every row, and then nothing is copied.
        part = text if len(rest) == n else text.gather(rest)
        local = part.str.to_datetime(pattern, strict=False, time_unit="ms")
        early[rest], late[rest] = _to_epoch(local, clock)
        hit = local.is_not_null().to_numpy()
        naive[rest[hit]] = True
        rest = rest[~hit]
    if len(rest):
        part = text.gather(rest).str.strip_chars().str.replace(r"[zZ]$", "+00:00")
        part = part.str.replace(r"([+-][0-9][0-9])$", "${1}:00")
        found = pl.coalesce([pl.lit(part).str.to_datetime(f, strict=False, time_unit="ms") for f in ZONED_FORMATS])
        zoned = pl.select(found.dt.epoch("ms") / 1e3).to_series()
        number = pl.select(
            pl.when(pl.lit(part).str.contains(r"^[0-9]{8,11}$")).then(pl.lit(part).cast(pl.Float64, strict=False))
        )
        early[rest] = zoned.fill_null(number.to_series()).cast(pl.Float64).fill_null(np.nan).to_numpy()
        late[rest] = early[rest]
    bad = there & np.isnan(early)
    # After bad was decided: a mark is a known way to say that there is no time, and no unreadable text.
    unset = (early < EARLIEST_S) | (early > TIME_S.high) | is_unset(early)
    early[unset], late[unset] = np.nan, np.nan
    return Times(early, late, bad, naive)


def _to_epoch(local: pl.Series, clock: Clock) -> tuple[Floats, Floats]:
    """Return seconds since 1970 UTC of local times, read early and late where the clock showed an hour twice.

    Local times that a clock change leaves out (02:30 on the day in spring) do not exist and become NaN.

    ``local`` are times without a zone, null where none was read. Returns two arrays of shape (n,), equal where the
    zone has no clock changes.
    """
    import polars as pl

    if clock.zone is None:
        seconds = (local.dt.epoch("ms") / 1e3 - clock.offset_s).cast(pl.Float64).fill_null(np.nan).to_numpy()
        return seconds, seconds
    # When clocks are set back, 02:30 occurs twice; clock_changes decides later, from the other times of the job.
    both = []
    for which in ("earliest", "latest"):
        there = local.dt.replace_time_zone(clock.zone, ambiguous=which, non_existent="null")
        both.append((there.dt.epoch("ms") / 1e3).cast(pl.Float64).fill_null(np.nan).to_numpy())
    return both[0], both[1]


def durations(text: pl.Series, bare_unit_s: float = 1.0) -> Floats:
    """Return ``[days-][hours:]minutes:seconds`` or a bare number of ``bare_unit_s``, in seconds. Shape (n,).

    Slurm prints days with hours (``1-02``, ``1-02:03``), but without days the last field is seconds (``02:03`` is
    two minutes). NaN for text of another form.

    Example: ``1-02:03:04`` is 93,784 s, ``03:04.123`` is 184.123 s, and ``90`` is 90 s, or 5,400 s where
    ``bare_unit_s`` is 60 (limits are minutes).
    """
    import polars as pl

    kinds = text.unique()  # few limits, and few elapsed times, among many rows
    pattern = r"^(?:([0-9]+)-)?(?:([0-9]+):)?(?:([0-9]+):)?([0-9]+(?:[.,][0-9]+)?)$"
    groups = kinds.str.strip_chars().str.extract_groups(pattern).struct.unnest()
    last = groups.to_series(3).str.replace(",", ".", literal=True)
    days, a, b, c = (
        v.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy() for v in (*groups.get_columns()[:3], last)
    )
    with np.errstate(over="ignore"):  # digits without end become inf, which no limit accepts
        value = _seconds(days, a, b, c, bare_unit_s)
    table = pl.DataFrame({"text": kinds, "value": value})
    joined = pl.DataFrame({"text": text}).join(table, "text", how="left", nulls_equal=True, maintain_order="left")
    return np.array(joined["value"].to_numpy())


def _seconds(days: Floats, a: Floats, b: Floats, c: Floats, bare_unit_s: float) -> Floats:
    """Return the seconds of ``[days-][a:][b:]c``, NaN for parts that are not there. Shapes (n,).

    The regular expression fills the groups from the left, so with one colon the number before it is in ``a`` and
    ``b`` is NaN; with two, ``a`` are hours and ``b`` minutes. ``c`` is always the last number.
    """
    colons = (~np.isnan(a)).astype(int) + ~np.isnan(b)
    hms = np.nan_to_num(a) * 3600 + np.nan_to_num(b) * 60 + c
    # With days, Slurm counts from the hours (D-H, D-H:M); without, from the seconds (M:S).
    dashed = np.select([colons == 2, colons == 1], [hms, a * 3600 + c * 60], c * 3600) + days * 86_400
    plain = np.select([colons == 2, colons == 1], [hms, a * 60 + c], c * bare_unit_s)
    return np.where(np.isnan(days), plain, dashed)


def _numbers(text: pl.Series) -> Floats:
    """Return numbers with Slurm's suffixes (``4.58M``, ``1.5K``), NaN where there is none. Shape (n,).

    A decimal comma is accepted: some sites convert dumps with a spreadsheet. polars casts the plain numbers at
    once; only what is left over goes through the regular expression.
    """
    import polars as pl

    plain = text.cast(pl.Float64, strict=False)
    left = plain.is_null() & text.is_not_null()
    if left.any():
        groups = (
            text.str.strip_chars()
            .str.replace(",", ".", literal=True)
            .str.extract_groups(r"^([0-9]+(?:\.[0-9]*)?)([KMGTP]?)$")
        )
        parts = groups.struct.rename_fields(["number", "suffix"]).struct.unnest()
        scale = parts["suffix"].fill_null("").replace_strict(SUFFIX, default=None, return_dtype=pl.Float64)
        plain = plain.zip_with(~left, parts["number"].cast(pl.Float64, strict=False) * scale)
    value = np.array(plain.fill_null(np.nan).to_numpy())
    value[~np.isfinite(value)] = np.nan
    return value


def is_unset(values: Floats) -> Mask:
    """Return which figures are one of Slurm's marks for "no value". Shape as ``values``."""
    found: Mask = np.isin(values, UNSET)
    return found


def amounts(text: pl.Series) -> Floats:
    """Return numbers as ``_numbers``, NaN also for Slurm's marks for "no value". Shape (n,)."""
    value = _numbers(text)
    value[is_unset(value)] = np.nan
    return value


def energies(text: pl.Series) -> Energies:
    """Return the energies of a column in joules, and why there are none.

    Suffixes are accepted (``4.58M``). Callers count ``unread`` and ``unset`` for their remarks.
    """
    value = _numbers(text)
    unread = np.isnan(value) & present(text).to_numpy()
    unset = is_unset(value) | text.str.contains(UNSET_ROUNDED).fill_null(value=False).to_numpy()
    value[~((value > 0) & (value < MOST_J)) | unset] = np.nan
    return Energies(value, unread, unset)


def tres(text: pl.Series, name: str) -> Floats:
    """Return one figure of a TRES list (``billing=128,cpu=128,energy=181961,mem=480G``); NaN where it is not named."""
    return amounts(tres_text(text, name))


def tres_text(text: pl.Series, name: str) -> pl.Series:
    """Return the text of one figure of a TRES list; null where it is not named.

    The name must begin the text or follow a comma: ``gpu`` must not match within ``gres/gpu``.
    """
    return text.str.extract(rf"(?:^|,){re.escape(name)}=([^,]+)")


def memory_gb(text: pl.Series, nodes: Floats, cpus: Floats) -> Floats:
    """Return the requested memory of the whole job in GB: ``4Gn`` per node, ``2000Mc`` per CPU, ``4G`` in all.

    NaN where none was requested, or where it is per node or CPU and their number is unknown. Shape (n,).

    ``nodes`` and ``cpus`` are those of the jobs, shape (n,), NaN where unknown. A suffix ``n`` or ``c`` is what some
    releases of Slurm print; without one the figure is taken as the total.
    """
    import polars as pl

    groups = text.str.strip_chars().str.extract_groups(r"^([0-9]+(?:\.[0-9]+)?)([KMGTP])([nc]?)$")
    parts = groups.struct.rename_fields(["number", "unit", "per"]).struct.unnest()
    scale = parts["unit"].replace_strict(MEMORY_GB, default=None, return_dtype=pl.Float64)
    number = np.array(parts["number"].cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy())
    number[is_unset(number)] = np.nan
    value = number * scale.fill_null(np.nan).to_numpy()
    per = parts["per"].fill_null("").to_numpy()
    value = np.where(per == "n", value * nodes, np.where(per == "c", value * cpus, value))
    return np.where(value > 0, value, np.nan)
