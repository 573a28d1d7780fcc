"""Mutations of command lines and of the files that they read.

A line is made from a template (``tests/fuzz/templates.py``) by leaving out, repeating and replacing words, and by
adding any option that the command has; values come from a pool of good files, mutated files, folders in place of
files, names that do not exist, and words that look like numbers, times or syntax.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from tests.fuzz.files import FILES
from tests.fuzz.mutate import WORDS, mutated
from tests.fuzz.options import Words, command_of, options
from tests.fuzz.templates import templates
from wattqueue_agent.originals import BOOT

WEIGHT = {"simulate": 12, "policies": 6, "machine": 6, "import": 8, "whatif": 3, "apps": 4, "live": 4, "campaign": 2,
          "pmc": 4, "settle": 4, "incentives": 4, "agent": 3, "openadr": 4}  # fmt: skip
"""How often a verb is drawn; 1 where it is not named: their runs take long, or they read little."""
NUMBERS = ("0", "-1", "1", "3", "2.5", "nan", "inf", "1e300", "9" * 30, "2147483648", "1e-9", "²", "0x10", "١")
TEXTS = (
    *(
        "none",
        "70%",
        "150%",
        "400kW",
        "1e400kW",
        "-5kW",
        "5",
        "90:300",
        "0:1e12",
        "nan:1",
        "24h",
        "2d",
        "1e300h",
        "easy",
    ),
    *("fcfs", "conservative", "maximum", "oracle-mean", "linear", "history-mean:alpha=nan", "easy,fcfs", "marconi100"),
    *(
        "marconi:days=0.01",
        "marconi:days=nan",
        "fugaku:jobs=1e6",
        "cirne:jobs=-5",
        "cirne:jobs=20,load=",
        "nonesuch:x=1",
    ),
    *("60%..100%", "100%..60%", "1kW..2kW:1W", "0%..100%:0.0001%", "2024-01-01", "2024-13-01", "UTC", "Nowhere/X"),
    *("EUR/MWh", "x/y", "sacct", "swf", "csv", "power", "svg,,pdf", "dask://nowhere:1", "sqlite:///x.db", "a://b"),
)
PATHS: tuple[str, ...] = (
    *(
        "folder",
        "missing",
        "missing/deeper",
        "jobs.csv/below",
        "/dev/null",
        "/proc/self/none",
        "link",
        "out",
        "new.csv",
    ),
    *(*FILES, "policy.toml:one", "policy.toml:none", "policy.toml:", "part.py", "part.py:None", "run", "run2", "."),
)


ALONE: dict[Words, Words] = {("campaign",): ("--workers", "1"), ("whatif",): ("--workers", "1")}
"""What keeps a command to one process: others cannot be stopped by an alarm here."""
OUTLIVES = "--when-expired"
"""A flag that starts a process which outlives the command; it is parsed in a test of its own."""


def command_line(verb: str, rng: random.Random) -> list[str]:
    """A mutation of one of the verb's templates."""
    words = list(rng.choice(templates()[verb]))
    head = command_of(words)
    known = sorted(options(head))
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        value = rng.choice(rng.choice((NUMBERS, TEXTS, PATHS, PATHS, WORDS)))
        value = value.replace("\x00", "").encode("utf-8", "replace").decode()  # no process can be given those
        at = rng.randrange(len(head), len(words) + 1)
        step = rng.randrange(4)
        if step == 0 and at < len(words):
            words[at] = value
        elif step == 1 and at < len(words):
            del words[at]
        elif step == 2 and known:
            words += [rng.choice(known), value]
        else:
            words.insert(at, value)
    words = [word for word in words if word != OUTLIVES]
    one = ALONE.get(head, ())
    while one and one[0] in words:
        at = words.index(one[0])
        del words[at : at + 2]
    return [*words, *one]


def read_by(words: list[str]) -> list[str]:
    """Names of the files that a line reads: those that it, or a file of them, names, or whose folder is named."""
    found: list[str] = []
    texts = list(words)
    while texts:
        text = texts.pop()
        for name in FILES:
            folder = name.rpartition("/")[0]
            if name not in found and (name in text or (folder and (text == folder or f'"{folder}"' in text))):
                found.append(name)
                texts.append(FILES[name] if name.endswith(".toml") else "")
    return found


def prepare(folder: Path, rng: random.Random | None, words: list[str], runs: Path | None) -> None:
    """Files for one command line, one of them mutated, mostly one that it reads; runs, a folder, a dangling link.

    Without ``rng`` nothing is mutated.
    """
    folder.mkdir()
    chosen = rng.choice(read_by(words) or [*FILES]) if rng is not None and rng.random() < 0.7 else ""
    for name, text in FILES.items():
        data = text.replace("BOOT", BOOT.read_text().strip()).encode()
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(mutated(data, rng) if rng is not None and name == chosen and data else data)
    (folder / "secret").chmod(0o600)
    (folder / "folder").mkdir()
    (folder / "link").symlink_to("nowhere")
    if runs is not None:
        for name in ("run", "run2"):
            shutil.copytree(runs, folder / name)
        if rng is not None and rng.random() < 0.5:
            file = rng.choice(sorted((folder / "run").iterdir()))
            file.write_bytes(mutated(file.read_bytes(), rng))
