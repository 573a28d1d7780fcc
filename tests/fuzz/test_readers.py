"""Fuzz every reader: a mutated file is read, or refused with a WattQueueError that names the place; nothing else.

``make test`` runs a few hundred inputs, ``make test-slow`` tens of thousands. The seed is printed with every failure;
``WATTQUEUE_FUZZ_SEED`` repeats a run, ``WATTQUEUE_FUZZ_CASES`` sets its length.
"""

from __future__ import annotations

import os
import random
import shutil
import traceback
from pathlib import Path

import pytest

from tests.fuzz.mutate import mutated
from tests.fuzz.readers import Target, survives, targets
from tests.fuzz.watch import LONGEST_S, Attempt, at_most, watched
from wattqueue.errors import WattQueueError

QUICK, MANY = 18, 3_200
"""Inputs per reader."""


def attempt(target: Target, folder: Path, rng: random.Random) -> str | None:
    """Read one mutated file; returns what went wrong, None where all is well."""
    folder.mkdir()
    chosen, _ = rng.choice(target.files)
    for name, data in target.files:
        (folder / name).write_bytes(mutated(data, rng) if name == chosen else data)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    try:
        with at_most(LONGEST_S):
            found = target.read(folder / chosen, rng.randrange(1000))
            if target.workload:
                (folder / "out").mkdir()
                survives(getattr(found, "jobs", found), folder / "out")
                shutil.rmtree(folder / "out")
    except WattQueueError as error:
        if not (folder / "out").exists():
            return None if error.where is not None else f"an error without a place: {error}"
        return f"was read, but cannot be written and read back: {error}"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "wattqueue/" in f.filename]
        at = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        return f"{type(error).__name__} at {at}: {str(error)[:200]}"
    after = {file.name: file.read_bytes() for file in folder.iterdir()}
    return None if after == before else f"left or changed files: {sorted(set(after) ^ set(before))}"


NAMES = (
    *("table", "table alone", "swf", "sacct", "sacct energies", "slurm json", "batsim", "pm100", "fdata", "eurora"),
    *(
        "archer2",
        "machine",
        "policy",
        "campaign",
        "live",
        "cap",
        "series",
        "series repaired",
        "epoch",
        "run",
        "unusable",
        "eacct",
    ),
    *("ear coefficients", "ear binary", "ear apps"),
    *("cwm", "perf stat", "mpstat", "counter readings", "activity", "unit factors", "chip runs", "node series"),
)


def test_every_reader_is_fuzzed(tmp_path: Path) -> None:
    """The unmutated files are readable, so that mutations reach beyond the first check."""
    found = targets(tmp_path)
    assert tuple(target.name for target in found) == NAMES
    for target in found:
        folder = tmp_path / f"files of {target.name}"
        folder.mkdir()
        for name, data in target.files:
            (folder / name).write_bytes(data)
        for name, _ in target.files:
            assert target.read(folder / name, 1) is not None


def ready(seed: str, names: tuple[str, ...], folder: Path) -> Attempt:
    """Mutated files by number, one reader after the other."""
    (folder / "files").mkdir()
    readers = [target for target in targets(folder / "files") if target.name in names]

    def run(case: int) -> str | None:
        target, place = readers[case % len(readers)], folder / "case"
        try:
            wrong = attempt(target, place, random.Random(f"{seed} {target.name} {case // len(readers)}"))
        finally:
            shutil.rmtree(place)
        return None if wrong is None else f"{target.name}: {wrong}"

    return run


@pytest.mark.parametrize("name", NAMES)
def test_a_few_mutated_files(tmp_path: Path, name: str) -> None:
    one = ready("quick", (name,), tmp_path)
    assert {case: wrong for case in range(QUICK) if (wrong := one(case)) is not None} == {}


@pytest.mark.slow
def test_many_mutated_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seed = os.environ.get("WATTQUEUE_FUZZ_SEED", str(random.randrange(10**9)))
    cases = int(os.environ.get("WATTQUEUE_FUZZ_CASES", str(MANY))) * len(NAMES)
    with capsys.disabled():
        print(f"\nfuzz of readers: {cases:,} files, WATTQUEUE_FUZZ_SEED={seed}")  # noqa: T201
    wrong = watched(ready, (seed, NAMES), tmp_path, cases, os.cpu_count() or 1)
    first: dict[str, str] = {}
    for case, text in sorted(wrong.items()):
        first.setdefault(text, f"case {case}")
    assert not first, f"WATTQUEUE_FUZZ_SEED={seed}: {first}"
