"""Generated sacct dumps of any size: no site's data, but its shape (steps, shared nodes, cancelled jobs)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

HEADER = (
    "JobID|JobName|User|Account|Partition|Submit|Start|End|Elapsed|Timelimit|State|NNodes|AllocCPUS|ReqMem|NodeList"
    "|ConsumedEnergyRaw"
)
NODES = 980
BEGIN_S = 1_750_000_000
BATCH = 100_000
"""Jobs made at a time."""


def write_dump(path: Path, rows: int, *, steps: bool, seed: int = 1) -> int:
    """Write a dump of at least ``rows`` rows, four a job with ``steps``, else one; returns how many jobs."""
    rng = np.random.default_rng(seed)
    jobs, clock = 0, float(BEGIN_S)
    with path.open("wb") as out:
        out.write(HEADER.encode() + b"\n")
        while jobs * (4 if steps else 1) < rows:
            count = min(BATCH, -(-rows // (4 if steps else 1)) - jobs)
            frame, clock = _jobs(rng, 1_000 + jobs, count, clock)
            (_with_steps(frame) if steps else frame).write_csv(
                out, separator="|", include_header=False, quote_style="never", null_value=""
            )
            jobs += count
    return jobs


def _jobs(rng: np.random.Generator, first: int, count: int, clock: float) -> tuple[pl.DataFrame, float]:
    submit = clock + np.cumsum(rng.exponential(60.0, count))
    wait, elapsed = rng.exponential(600.0, count), np.ceil(np.minimum(rng.lognormal(7.0, 1.5, count), 86_399.0))
    wide = rng.choice([1, 1, 1, 2, 4, 8, 16], count)
    low = rng.integers(1, NODES - wide + 1)
    watts = rng.uniform(300.0, 900.0, count)
    frame = pl.DataFrame(
        {
            "id": np.arange(first, first + count),
            "app": rng.integers(0, 400, count),
            "user": rng.integers(0, 600, count),
            "submit": submit.astype(np.int64),
            "start": (submit + wait).astype(np.int64),
            "elapsed": elapsed.astype(np.int64),
            "cancelled": rng.random(count) < 0.1,
            "wide": wide,
            "low": low,
            "joules": (watts * wide * elapsed).astype(np.int64),
        }
    )
    return frame.select(*_columns()), float(submit[-1])


def _time(seconds: pl.Expr) -> pl.Expr:
    return pl.from_epoch(seconds, time_unit="s").dt.to_string("%Y-%m-%dT%H:%M:%S")


def _two(number: pl.Expr) -> pl.Expr:
    return number.cast(pl.String).str.zfill(2)


def _columns() -> list[pl.Expr]:
    elapsed, low, wide = pl.col("elapsed"), pl.col("low"), pl.col("wide")
    last = (low + wide - 1).cast(pl.String).str.zfill(4)
    first = low.cast(pl.String).str.zfill(4)
    hosts = pl.when(wide > 1).then(pl.format("n[{}-{}]", first, last)).otherwise(pl.format("n{}", first))
    clock = pl.format("{}:{}:{}", _two(elapsed // 3600), _two(elapsed // 60 % 60), _two(elapsed % 60))
    return [
        pl.col("id").cast(pl.String),
        pl.format("app{}", "app"),
        pl.format("u{}", "user").alias("user"),
        pl.format("acc{}", pl.col("user") % 50).alias("account"),
        pl.lit("batch").alias("partition"),
        _time(pl.col("submit")).alias("submit"),
        _time(pl.col("start")).alias("start"),
        _time(pl.col("start") + elapsed).alias("end"),
        clock.alias("elapsed"),
        pl.lit("1-00:00:00").alias("limit"),
        pl.when("cancelled").then(pl.lit("CANCELLED by 1234")).otherwise(pl.lit("COMPLETED")).alias("state"),
        wide.cast(pl.String).alias("nodes"),
        (wide * 32).cast(pl.String).alias("cpus"),
        pl.lit("240Gn").alias("memory"),
        hosts.alias("hosts"),
        pl.col("joules").cast(pl.String),
    ]


def _with_steps(jobs: pl.DataFrame) -> pl.DataFrame:
    """Each job with an empty energy, then its batch, extern and first step, which carries it."""
    jobs = jobs.with_row_index("at")
    none, zero = pl.lit(None, dtype=pl.String), pl.lit("0")
    rows = [jobs.with_columns(joules=none, part=pl.lit(0))]
    for part, (name, nodes, energy) in enumerate(
        (("batch", pl.lit("1"), zero), ("extern", pl.col("nodes"), zero), ("0", pl.col("nodes"), pl.col("joules"))), 1
    ):
        rows.append(
            jobs.with_columns(
                pl.format("{}.{}", "id", pl.lit(name)).alias("id"),
                pl.lit(name).alias("app"),
                nodes.alias("nodes"),
                energy.alias("joules"),
                user=none,
                partition=none,
                limit=none,
                memory=none,
                part=pl.lit(part),
            )
        )
    return pl.concat(rows).sort("at", "part").drop("at", "part")
