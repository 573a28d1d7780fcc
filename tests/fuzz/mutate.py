"""Mutations of files: bytes, words, lines, JSON values, Parquet columns; the same for equal ``random.Random``."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import polars as pl

WORDS = (
    *("", "0", "-1", "1", "2.5", "nan", "NaN", "inf", "-inf", "1e300", "-1e300", "1e400", "1e18", "1e-320", "0x10"),
    *("4294967294", "4294967295", "2147483648", "9223372036854775808", "18446744073709551614", "9" * 400, "1_000"),
    *(
        "true",
        "None",
        "null",
        "[]",
        "{}",
        "[1, 2]",
        '"x"',
        "'",
        '"',
        ",",
        ";",
        "|",
        "#",
        "\\",
        "\x00",
        "\r",
        "\n",
        "\t",
    ),
    *("2024-01-01", "2024-01-01T00:00:00Z", "2026-10-25T02:30:00", "9999-12-31T23:59:59", "25:61:61", "99999-00:00:00"),
    *(
        "é",
        "\u2028",
        "\ufeff",
        "𝟙𝟚",
        "١٢٣",
        "\ud800",
        "x" * 5000,
        "n[1-999999999]",
        "n[1-9][1-9",
        "50%",
        "400kW",
        "4.29G",
    ),
)
"""Words that readers might take for a number, a time, a name or a piece of syntax."""
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2.5, 2**31, 2**32 - 2, 2**63, 2**64 - 2, 10**400, 1e300, -1e300, float("nan")),
    *(float("inf"), "", "x", "1", "1e400", "é\u2028", [], {}, [[]], [None], {"set": True, "number": []}, [1] * 50),
    *({"number": 2**64 - 1, "set": True, "infinite": False}, ["COMPLETED", 3], {"current": {}}, "9" * 400),
)
"""Values of the wrong kind or size for JSON."""
SPLIT = re.compile(r"([\s,;|=\[\]{}:\"']+)")


def mutated(data: bytes, rng: Random) -> bytes:
    """Return a mutation of a file, of one to three steps, fit for its kind."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        ways: list[Callable[[bytes, Random], bytes]] = [_bytes, _bytes]
        if data[:4] == b"PAR1":
            ways += [_parquet] * 6
        elif data[:2] == b"\x1f\x8b":
            ways += [_bytes]
        else:
            ways += [_word] * 4 + [_lines] * 2 + [_wrapped]
            if data[:1] in {b"{", b"["}:
                ways += [_json] * 6
        data = rng.choice(ways)(data, rng)
    return data


def _bytes(data: bytes, rng: Random) -> bytes:
    """Flip, delete, repeat, insert or cut bytes."""
    n = len(data)
    at = rng.randrange(n + 1)
    end = min(n, at + rng.choice((1, 2, 8, 64, 1000)))
    kind = rng.randrange(6)
    if kind == 0 and n:
        flipped = bytearray(data)
        for _ in range(rng.choice((1, 4, 16))):
            flipped[rng.randrange(n)] ^= 1 << rng.randrange(8)
        return bytes(flipped)
    if kind == 1:
        return data[:at] + data[end:]
    if kind == 2:
        return data[:at] + data[at:end] * rng.choice((2, 3, 20)) + data[end:]
    if kind == 3:
        return data[:at] + rng.randbytes(rng.choice((1, 3, 50))) + data[at:]
    return data[:at] if kind == 4 else data[at:]


def _word(data: bytes, rng: Random) -> bytes:
    """Replace one word of a text."""
    parts = SPLIT.split(data.decode("utf-8", "surrogateescape"))
    parts[rng.randrange(len(parts))] = rng.choice(WORDS)
    return "".join(parts).encode("utf-8", "surrogatepass" if "\ud800" in parts else "surrogateescape")


def _lines(data: bytes, rng: Random) -> bytes:
    """Delete, repeat or exchange lines, or all fields of one column."""
    lines = data.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(5)
    if kind == 0:
        del lines[i]
    elif kind == 1:
        lines.insert(j, lines[i])
    elif kind == 2:
        lines[i], lines[j] = lines[j], lines[i]
    else:
        mark = rng.choice((b",", b"|", b";", b" "))
        rows = [line.split(mark) for line in lines]
        column = rng.randrange(max(map(len, rows)))
        word = rng.choice(WORDS).encode("utf-8", "surrogatepass")
        for row in rows[1:] if kind == 3 else rows:
            if column < len(row):
                row[column : column + 1] = [word] if kind == 3 else []
        lines = [mark.join(row) for row in rows]
    return b"\n".join(lines)


def _wrapped(data: bytes, rng: Random) -> bytes:
    """Compress or encode otherwise."""
    text = data.decode("utf-8", "replace")
    return rng.choice(
        (
            lambda: gzip.compress(data, mtime=0),
            lambda: gzip.compress(data, mtime=0)[: rng.randrange(1, 60)],
            lambda: b"\xef\xbb\xbf" + data,
            lambda: text.encode("utf-16"),
            lambda: text.encode("utf-32"),
            lambda: data.replace(b"\n", b"\r\n"),
            lambda: data.replace(b"\n", b"\r"),
            lambda: data.replace(b"\n", b""),
        )
    )()


def _json(data: bytes, rng: Random) -> bytes:
    """Replace, delete or repeat one value of a JSON document; text that is none is returned as it is."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return data
    spots: list[tuple[Any, Any]] = []
    todo = [document]
    while todo:
        node = todo.pop()
        pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in pairs:
            spots.append((node, key))
            todo.append(value)
    if not spots:
        return json.dumps(rng.choice(VALUES)).encode()
    node, key = rng.choice(spots)
    kind = rng.randrange(4)
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(node, list):
        node.append(node[key])
    else:
        node[key] = rng.choice(VALUES)
    return json.dumps(document).encode()


def _parquet(data: bytes, rng: Random) -> bytes:
    """Change the type or values of one column, its name, or the rows; a file that is none is returned as it is."""
    try:
        frame = pl.read_parquet(io.BytesIO(data))
        facts = pl.read_parquet_metadata(io.BytesIO(data))
    except BaseException:  # noqa: BLE001 - polars panics on some mutations of earlier steps, by an exception of its own
        return data
    if not frame.columns:
        return data
    name = rng.choice(frame.columns)
    kind = rng.randrange(10)
    if kind == 0:
        frame = frame.drop(name)
    elif kind == 1:
        other = rng.choice(("x", "é", "", "submit_s_", "job_id_"))
        frame = frame if other in frame.columns else frame.rename({name: other})
    elif kind == 2:
        frame = frame[: rng.randrange(2)]
    elif kind == 3:
        facts = {key: rng.choice(WORDS).replace("\ud800", "?") for key in facts}
    else:
        frame = frame.with_columns(pl.Series(name, _column(len(frame), rng), strict=False))
    out = io.BytesIO()
    facts = {key: value for key, value in facts.items() if "\x00" not in value}
    frame.write_parquet(out, metadata={k: v for k, v in facts.items() if k != "ARROW:schema"})
    return out.getvalue()


def _column(n: int, rng: Random) -> Any:
    """A column of another type."""
    kinds: tuple[Any, ...] = (
        [[1.0, 2.0]] * n,
        [[]] * n,
        [[[1.0]]] * n,
        [["a", None]] * n,
        [{"a": 1}] * n,
        [date(2024, 1, 1)] * n,
        [time(1, 2)] * n,
        [timedelta(days=1)] * n,
        [datetime(2024, 1, 1, tzinfo=UTC)] * n,
        [b"\xff\x00"] * n,
        [None] * n,
        [True] * n,
        [Decimal("1.5")] * n,
        [rng.choice((float("nan"), float("inf"), 1e300, -1e300, -1.0, 0.0, 1e18))] * n,
        [rng.choice((2**63 - 1, -(2**63), 2**32 - 2, 2**31, -1, 0))] * n,
        [rng.choice(WORDS).replace("\ud800", "?")] * n,
        pl.Series([2**64 - 2] * n, dtype=pl.UInt64),
        pl.Series(["a"] * n, dtype=pl.Categorical),
        pl.Series([1] * n, dtype=pl.Datetime("ns")),
    )
    return rng.choice(kinds)
