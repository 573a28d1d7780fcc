"""Rows that extend others, and names that change single choices of a row."""

from __future__ import annotations

from pathlib import Path

import pytest

from wattqueue.errors import PolicyError
from wattqueue.policy import rows
from wattqueue.policy.capabilities import parts_of
from wattqueue.policy.interfaces import AXES
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import part_name
from wattqueue.policy.rows import ROW_DEFAULTS, composed, find_row, published_rows
from wattqueue.runs.task import Task, policy_row, task_files


def write(folder: Path, text: str) -> str:
    (folder / "my.toml").write_text(text)
    return str(folder / "my.toml")


def test_a_row_states_what_differs_from_the_one_that_it_extends(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """
        [first]
        source = "ours"
        extends = "dr-easy"
        ledger = { part = "chance", epsilon = 0.02 }
        [second]
        extends = "first"
        controls = []
        [dr-easy]
        extends = "dr-easy"
        order = "fcfs"
        """,
    )
    published = find_row("dr-easy")
    own = {"order": "fcfs"}
    assert find_row(f"{file}:dr-easy") == {**published, **own}, "a row may have the name of the one that it extends"
    assert find_row(f"{file}:first") == {
        **published, **own, "source": "ours", "ledger": {"part": "chance", "epsilon": 0.02},
    }  # fmt: skip
    assert find_row(f"{file}:second") == {**find_row(f"{file}:first"), "controls": []}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[a]\nextends = "b"\n[b]\nextends = "a"', "rows extend each other: a -> b -> a"),
        ('[a]\nextends = "esay"', "extends 'esay', which is no row"),
        ("[a]\nextends = 3", "extends = 3 is not a name"),
        ('[a]\nextends = "a"', "extends 'a', which is no row"),
    ],
)
def test_a_row_that_cannot_be_completed_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        find_row(f"{write(tmp_path, text)}:a")


def test_published_rows_have_all_choices_and_no_other_key() -> None:
    published = published_rows()
    assert {frozenset(row) for row in published.values()} == {frozenset(ROW_DEFAULTS)}
    assert all(row["source"] for row in published.values())
    assert {axis: published["easy"][axis] for axis in AXES} == {axis: ROW_DEFAULTS[axis] for axis in AXES}


@pytest.mark.parametrize(
    ("name", "settings", "wanted"),
    [
        ("easy", (), "easy"),
        ("easy", ("backfill=none", "estimator=app-mean"), "easy+estimator=app-mean+backfill=none"),
        ("easy", ("backfill=easy", "ledger=predicted"), "easy"),
        ("easy", ("backfill=none", "backfill = first-fit"), "easy+backfill=first-fit"),
        ("easy+pc-mean", ("order=reorder",), "easy+pc-mean+order=reorder"),
        ("easy+backfill=none", ("estimator=app-mean",), "easy+estimator=app-mean+backfill=none"),
        ("easy+backfill=none", ("backfill=easy",), "easy"),
        ("pas", ("controls=none",), "pas+controls=none"),
        ("easy", ("controls=a", "controls=b"), "easy+controls=a+controls=b"),
        ("pas", ("controls=idle-off",), "pas"),
        ("pas", ("frequency=frequency-window,least-energy",), "pas+frequency=frequency-window,least-energy"),
        ("pas", ("frequency=highest , fastest", "frequency=frequency-window"), "pas"),
    ],
)  # fmt: skip
def test_a_composed_row_has_one_name(name: str, settings: tuple[str, ...], wanted: str) -> None:
    found = composed(name, settings)
    assert (found, composed(found)) == (wanted, wanted)
    named = (setting.replace(" ", "").split("=") for setting in (*name.split("+"), *settings) if "=" in setting)
    changed = {axis: part.split(",") if "," in part else part for axis, part in named}
    listed = [part.split("=")[1] for part in settings if part.startswith("controls=") and part != "controls=none"]
    row = find_row(found)
    assert all(row[axis] == part for axis, part in changed.items() if axis != "controls")
    assert "controls" not in changed or row["controls"] == listed
    base = find_row(name.partition("+backfill=")[0])
    assert all(row[key] == base[key] for key in row if key not in changed)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("backfil=easy", "no choice 'backfil'"),
        ("backfill", "names no part"),
        ("backfill=", "names no part"),
        ("frequency=highest,,fastest", "names no part between two commas"),
        ('order={part = "reorder", t_weight = 1.5}', "names no part"),
    ],
)
def test_a_setting_that_is_none_is_refused(setting: str, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        composed("easy", (setting,))


def test_a_choice_may_be_a_list_of_parts_with_options(tmp_path: Path) -> None:
    windows = '[{ part = "frequency-window", lowest_hz = 1e9 }, "least-energy"]'
    file = write(tmp_path, f'[mine]\nfrequency = {windows}\n[one]\nfrequency = ["fastest"]\n')
    policy = load_policy(f"{file}:mine")
    assert [part_name(type(part)) for axis, part in parts_of(policy) if axis == "frequency"] == [
        "frequency-window", "least-energy",
    ]  # fmt: skip
    assert policy.row["frequency"][0] == {"part": "frequency-window", "lowest_hz": 1e9}, "as a run records it"
    assert part_name(type(load_policy(f"{file}:one").frequency)) == "fastest", "a list of one is that part"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ('frequency = ["highest", "nosuch"]', "no frequency part 'nosuch'"),
        ("frequency = []", "frequency is an empty list"),
        ('order = ["fcfs", "reorder"]', "order takes one part, not 2"),
    ],
)
def test_a_list_that_cannot_be_made_one_part_is_refused(tmp_path: Path, row: str, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        load_policy(f"{write(tmp_path, f'[a]{chr(10)}{row}')}:a")


def test_a_part_that_does_not_exist_is_named() -> None:
    with pytest.raises(PolicyError, match="no backfill part 'conservativ'"):
        load_policy("easy+backfill=conservativ")


def test_a_composed_row_of_a_file_and_one_with_options(tmp_path: Path) -> None:
    file = write(tmp_path, '[mine]\nestimator = "app-mean"')
    assert load_policy(f"{file}:mine+backfill=none").row["backfill"] == "none"
    policy = load_policy("easy+estimator=history-mean", ledger={"part": "chance", "epsilon": 0.02})
    assert (policy.name, policy.row["ledger"]) == ("easy+estimator=history-mean", {"part": "chance", "epsilon": 0.02})


def test_the_files_of_a_composed_row_are_known(tmp_path: Path) -> None:
    file = write(tmp_path, '[mine]\nestimator = "app-mean"')
    (tmp_path / "my.py").write_text("")
    task = Task("marconi:days=1", policy=f"{file}+estimator={tmp_path}/my.py:Mine")
    found = task_files(task, policy_row(task))
    assert set(found.values()) == {tmp_path / "my.toml", tmp_path / "my.py"}
    assert found["policy"] == tmp_path / "my.toml"


def test_other_packages_add_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[wattqueue.policies]\ntheirs = their_rows:FILE\n")
    (tmp_path / "their_rows.py").write_text("from pathlib import Path\nFILE = Path(__file__).with_name('rows.toml')\n")
    (tmp_path / "rows.toml").write_text('[theirs]\nextends = "pas"\nbackfill = "none"\n[easy]\nbackfill = "none"\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    rows._installed_rows.cache_clear()
    try:
        assert find_row("theirs+order=reorder") == {**find_row("pas"), "backfill": "none", "order": "reorder"}
        assert published_rows()["theirs"]["controls"] == ["idle-off"]
        assert find_row("easy") == published_rows()["easy"], "none takes the place of a row of the core"
        assert find_row("easy")["backfill"] == "easy"
    finally:
        rows._installed_rows.cache_clear()
