"""Pages that list names: what a view offers, actions, public names, estimators and policies."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import wattqueue
from wattqueue import parts
from wattqueue.campaign.file import CampaignFile, SlurmTable, WindowsTable, WorkloadTable
from wattqueue.options import options_of
from wattqueue.policy.interfaces import CORRECTIONS
from wattqueue.policy.registry import part_names
from wattqueue.policy.rows import published_rows

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def named(text: str) -> list[str]:
    """The first column of all tables."""
    return re.findall(r"^\| `([^`]*)` \|", text, re.MULTILINE)


def test_the_page_of_the_view_lists_what_there_is(pages: ModuleType) -> None:
    kept = (DOCS / "guide" / "view.md").read_text(encoding="utf-8")
    assert named(kept) == named(pages.view_page()), "python docs/generate.py renews it"
    names = {name.partition("(")[0] for name in named(kept)}
    fields = {"jobs", "machine", "kernel", "refusals"}
    assert names >= fields | {name for name in vars(parts.View) if not name.startswith("_") and name != "unit_state"}
    assert names >= {"SetFrequency", "SetDeviceLimits", "StopNode", "WakeNode", "Requeue", "StartJob", "Refusal"}


def test_every_action_is_listed(pages: ModuleType) -> None:
    assert sorted(pages.ACTIONS) == sorted(kind.__name__ for kind in parts.Action.__args__)


def test_the_page_of_campaign_keys_lists_every_field_of_the_reader(pages: ModuleType) -> None:
    tables = (CampaignFile, WorkloadTable, WindowsTable, SlurmTable)
    keys = [(one.name, what.help) for described in tables for one, what in options_of(described)]
    page = pages.campaign_page()
    assert named(page) == [name for name, _ in keys]
    assert all(text.removesuffix(".") in page for _, text in keys)
    assert "| `busy` | number, 0.0 to 1,000,000.0 | `1.0` |" in page


@pytest.mark.parametrize("package", [wattqueue, parts], ids=lambda package: package.__name__)
def test_the_api_page_has_every_public_name(pages: ModuleType, package: ModuleType) -> None:
    entries = re.findall(r"^\.\. auto\w+:: (\S+)$", pages.public_page(), re.MULTILINE)
    found = [entry.rpartition(".")[2] for entry in entries if entry.rpartition(".")[0] == package.__name__]
    assert found == list(package.__all__)


def test_the_guide_says_for_whom_each_estimator_and_policy_is() -> None:
    text = (DOCS / "guide" / "choose.md").read_text(encoding="utf-8")
    sections = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
    known = {
        "Estimators": part_names("estimator"),
        "Corrections": part_names(CORRECTIONS),
        "Policies": published_rows(),
    }
    for section, names in known.items():
        listed = [
            name for row in re.findall(r"^\| (`[^|]*) \|", sections[section], re.MULTILINE) for name in row.split(", ")
        ]
        assert sorted(name.strip("`") for name in listed) == sorted(names)
