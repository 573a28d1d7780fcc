"""What stands in the columns of an sacct dump: times, durations, energies, counts, in SI units.

Every function takes a polars column of text and gives numpy; what cannot be read is NaN, never a guess.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats._source import shown
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
"""Times without a zone: Slurm's own way, and what sites set as SLURM_TIME_FORMAT."""
ZONED_FORMATS = ("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S%z", "%Y-%m-%dT%H:%M:%S%.f%z")
EARLIEST_S = 86_400.0 * 365
"""Times in 1970 are an unset field that somebody printed."""
SUFFIX = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
"""Slurm shortens joules and counts by powers of 1000."""
MOST_J = 1e15
"""More than any job: an unset 64-bit counter (18446744073709551614) lies above."""
MEMORY_GB = {"K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3, "P": 1e6}


class Clock:
    """What times without a zone mean: ``UTC``, an offset such as ``+02:00``, or a zone such as ``Europe/Berlin``.

    Raises: InputError for anything else.
    """

    def __init__(self, zone: str | None) -> None:
        self.stated = zone is not None
        self.zone: str | None = None
        self.offset_s = 0.0
        offset = re.fullmatch(r"(?:UTC)?([+-])(\d{1,2}):?(\d\d)?", zone or "")
        if offset and int(offset[2]) <= 14:
            size = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0)).total_seconds()
            self.offset_s = -size if offset[1] == "-" else size
            zone = None
        if zone and zone.upper() not in {"UTC", "Z", "GMT"}:
            try:
                ZoneInfo(zone)
            except (ZoneInfoNotFoundError, ValueError, OSError) as error:
                raise InputError(f"no time zone {shown(zone)}", mend="give UTC, +02:00 or Europe/Berlin") from error
            self.zone = zone


class Times(NamedTuple):
    """Seconds since 1970 UTC, NaN for none. ``late_s``: the same, read as the second pass of an hour that came twice.

    ``bad``: something stands there that is no known time; ``naive``: it had no zone. Shapes (n,).
    """

    time_s: Floats
    late_s: Floats
    bad: Mask
    naive: Mask


def present(text: pl.Series) -> pl.Series:
    """Whether a value stands there."""
    return ~text.fill_null("").str.strip_chars().str.to_lowercase().is_in(NOTHING)


def times(text: pl.Series, clock: Clock) -> Times:
    """Times, each by the first format that fits."""
    import polars as pl

    n = len(text)
    there = present(text).to_numpy()
    early, late = np.full(n, np.nan), np.full(n, np.nan)
    naive = np.zeros(n, np.bool_)
    rest = np.flatnonzero(there)
    for pattern in TIME_FORMATS:
        if not len(rest):
            break
        part = text if len(rest) == n else text.gather(rest)
        local = part.str.to_datetime(pattern, strict=False, time_unit="ms")
        early[rest], late[rest] = _to_epoch(local, clock)
        hit = local.is_not_null().to_numpy()
        naive[rest[hit]] = True
        rest = rest[~hit]
    if len(rest):
        part = text.gather(rest).str.strip_chars().str.replace(r"[zZ]$", "+00:00")
        part = part.str.replace(r"([+-]\d\d)$", "${1}:00")
        found = pl.coalesce([pl.lit(part).str.to_datetime(f, strict=False, time_unit="ms") for f in ZONED_FORMATS])
        zoned = pl.select(found.dt.epoch("ms") / 1e3).to_series()
        number = pl.select(
            pl.when(pl.lit(part).str.contains(r"^\d{8,11}$")).then(pl.lit(part).cast(pl.Float64, strict=False))
        )
        early[rest] = zoned.fill_null(number.to_series()).cast(pl.Float64).fill_null(np.nan).to_numpy()
        late[rest] = early[rest]
    bad = there & np.isnan(early)
    unset = early < EARLIEST_S
    early[unset], late[unset] = np.nan, np.nan
    return Times(early, late, bad, naive)


def _to_epoch(local: pl.Series, clock: Clock) -> tuple[Floats, Floats]:
    """Seconds since 1970 UTC of times on a local clock, read early and late where an hour came twice."""
    import polars as pl

    if clock.zone is None:
        seconds = (local.dt.epoch("ms") / 1e3 - clock.offset_s).cast(pl.Float64).fill_null(np.nan).to_numpy()
        return seconds, seconds
    both = []
    for which in ("earliest", "latest"):
        there = local.dt.replace_time_zone(clock.zone, ambiguous=which, non_existent="null")
        both.append((there.dt.epoch("ms") / 1e3).cast(pl.Float64).fill_null(np.nan).to_numpy())
    return both[0], both[1]


def durations(text: pl.Series, bare_unit_s: float = 1.0) -> Floats:
    """``[days-][hours:]minutes:seconds`` or a bare number of ``bare_unit_s``, in seconds. Shape (n,)."""
    import polars as pl

    kinds = text.unique()  # few limits, and few elapsed times, among many rows
    pattern = r"^(?:(\d+)-)?(?:(\d+):)?(?:(\d+):)?(\d+(?:[.,]\d+)?)$"
    groups = kinds.str.strip_chars().str.extract_groups(pattern).struct.unnest()
    last = groups.to_series(3).str.replace(",", ".", literal=True)
    days, a, b, c = (
        v.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy() for v in (*groups.get_columns()[:3], last)
    )
    colons = (~np.isnan(a)).astype(int) + ~np.isnan(b)
    hms = np.nan_to_num(a) * 3600 + np.nan_to_num(b) * 60 + c
    # With days, Slurm counts from the hours (D-H, D-H:M); without, from the seconds (M:S).
    dashed = np.select([colons == 2, colons == 1], [hms, a * 3600 + c * 60], c * 3600) + days * 86_400
    plain = np.select([colons == 2, colons == 1], [hms, a * 60 + c], c * bare_unit_s)
    value = np.where(np.isnan(days), plain, dashed)
    table = pl.DataFrame({"text": kinds, "value": value})
    joined = pl.DataFrame({"text": text}).join(table, "text", how="left", nulls_equal=True, maintain_order="left")
    return np.array(joined["value"].to_numpy())


def amounts(text: pl.Series) -> Floats:
    """Numbers with Slurm's suffixes (``4.58M``, ``1.5K``; a decimal comma is read too); NaN where there is none."""
    import polars as pl

    plain = text.cast(pl.Float64, strict=False)
    left = plain.is_null() & text.is_not_null()
    if left.any():
        groups = (
            text.str.strip_chars()
            .str.replace(",", ".", literal=True)
            .str.extract_groups(r"^(\d+(?:\.\d*)?)([KMGTP]?)$")
        )
        parts = groups.struct.rename_fields(["number", "suffix"]).struct.unnest()
        scale = parts["suffix"].fill_null("").replace_strict(SUFFIX, default=None, return_dtype=pl.Float64)
        plain = plain.zip_with(~left, parts["number"].cast(pl.Float64, strict=False) * scale)
    value = np.array(plain.fill_null(np.nan).to_numpy())
    value[~np.isfinite(value)] = np.nan
    return value


def energies(text: pl.Series) -> tuple[Floats, Mask]:
    """Joules, NaN where none were counted (also 0, negative and unset ones), and whether the text is no figure."""
    value = amounts(text)
    bad = np.isnan(value) & present(text).to_numpy()
    value[~((value > 0) & (value < MOST_J))] = np.nan
    return value, bad


def tres(text: pl.Series, name: str) -> Floats:
    """One figure of a TRES list (``billing=128,cpu=128,energy=181961,mem=480G,node=2``); NaN where it is not named."""
    return amounts(text.str.extract(rf"(?:^|,){re.escape(name)}=([^,]+)"))


def memory_gb(text: pl.Series, nodes: Floats, cpus: Floats) -> Floats:
    """Requested memory of the whole job in GB: ``4Gn`` a node, ``2000Mc`` a CPU, ``4G`` in all; NaN for none."""
    import polars as pl

    groups = text.str.strip_chars().str.extract_groups(r"^(\d+(?:\.\d+)?)([KMGTP])([nc]?)$")
    parts = groups.struct.rename_fields(["number", "unit", "per"]).struct.unnest()
    scale = parts["unit"].replace_strict(MEMORY_GB, default=None, return_dtype=pl.Float64)
    value = (parts["number"].cast(pl.Float64, strict=False) * scale).fill_null(np.nan).to_numpy()
    per = parts["per"].fill_null("").to_numpy()
    value = np.where(per == "n", value * nodes, np.where(per == "c", value * cpus, value))
    return np.where(value > 0, value, np.nan)
