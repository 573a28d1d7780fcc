"""Every number that enters has stated bounds: fields of all models, options of the command line, options of parts."""

from __future__ import annotations

import ast
import importlib
import inspect
import math
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel, Field, ValidationError
from pydantic.dataclasses import is_pydantic_dataclass
from typer.testing import CliRunner

from tests.architecture.source import PACKAGE, modules
from tests.fuzz.commands import prepare
from tests.fuzz.options import commands
from tests.fuzz.templates import LINES
from tools.packages import CORE
from wattqueue.campaign.file import CampaignFile
from wattqueue.cli import _app
from wattqueue.errors import PolicyError, WattQueueError
from wattqueue.formats.bounded import Count, Seconds
from wattqueue.live.agents import AgentState
from wattqueue.live.config import LiveConfig
from wattqueue.model.option_bounds import of_option
from wattqueue.policy.interfaces import METHODS
from wattqueue.policy.policy import build_part
from wattqueue.policy.registry import part_class, part_names
from wattqueue_agent.config import AgentConfig
from wattqueue_grid.openadr.objects import ValuesMap, VtnProgram

Leaf = tuple[Any, list[Any]]
IN_FLUX = ("wattqueue_flux.protocol", "wattqueue_flux.scheduler", "wattqueue_flux.wanted")
"""Modules that are imported inside a Flux alone, and have no models."""


def models() -> list[Any]:
    """Everything that pydantic checks: configuration, data files, messages, objects of OpenADR, campaigns."""
    for module in modules():
        if "migrations" not in module.name and not module.name.endswith("__main__") and module.name not in IN_FLUX:
            own = module.path.is_relative_to(PACKAGE)
            importlib.import_module(f"{CORE}.{module.name}".rstrip(".") if own else module.name)
    loaded = [vars(module) for module in list(sys.modules.values())]
    tables = {one for names in loaded for one in names.values() if is_checked_dataclass(one)}
    return sorted(_below(BaseModel) | tables, key=lambda model: (model.__module__, model.__qualname__))


def is_checked_dataclass(one: object) -> bool:
    """Whether something is a dataclass of ours that pydantic checks: a table of a campaign file."""
    return isinstance(one, type) and is_pydantic_dataclass(one) and one.__module__.startswith("wattqueue")


def _below(model: type[BaseModel]) -> set[type[BaseModel]]:
    found = {one for one in model.__subclasses__() if one.__module__.startswith("wattqueue")}
    return found.union(*(_below(one) for one in found)) if found else found


def leaves(annotation: Any, metadata: tuple[Any, ...] = ()) -> Iterator[Leaf]:
    """The plain types in an annotation, each with its constraints: those of lists and mappings are of their items."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from leaves(inner[0], (*metadata, *inner[1:]))
    elif origin is Literal or not inner:
        yield annotation, list(flat(metadata))
    else:
        passed = metadata if origin in (Union, types.UnionType) else ()
        for each in inner:
            yield from leaves(each, passed)


def flat(metadata: tuple[Any, ...]) -> Iterator[Any]:
    for one in metadata:
        yield from one.metadata if hasattr(one, "metadata") else (one,)


def bounded(constraints: list[Any]) -> bool:
    """Whether both ends are stated and finite."""
    low = [one.ge if isinstance(one, Ge) else one.gt for one in constraints if isinstance(one, Ge | Gt)]
    high = [one.le if isinstance(one, Le) else one.lt for one in constraints if isinstance(one, Le | Lt)]
    return all(any(isinstance(end, int | float) and math.isfinite(end) for end in ends) for ends in (low, high))


def open_fields(model: Any) -> list[str]:
    """The numeric fields of a model without bounds, and required ids and names that may be empty."""
    found = []
    for name, field in model.__pydantic_fields__.items():
        for leaf, constraints in leaves(field.annotation, tuple(field.metadata)):
            if leaf in (int, float) and not bounded(constraints):
                found.append(name)
            named = name in ("id", "node", "name") or name.endswith("_id")
            named &= field.is_required()
            patterned = any(isinstance(one, MinLen) or getattr(one, "pattern", None) for one in constraints)
            if leaf is str and named and not patterned:
                found.append(name)
    return found


class _Example(BaseModel):
    good: Seconds
    lists: dict[str, list[Count | None]] = {}
    half: Annotated[int, Field(ge=1)]
    plain: dict[str, tuple[float, ...]]
    node: str


def test_the_walk_finds_fields_without_bounds() -> None:
    assert open_fields(_Example) == ["half", "plain", "node"]


def test_every_number_of_every_model_has_bounds() -> None:
    every = models()
    assert len(every) > 40
    assert CampaignFile in every
    found = {f"{model.__module__}.{model.__qualname__}": open_fields(model) for model in every}
    assert {name: fields for name, fields in found.items() if fields} == {}


NONSENSE: tuple[tuple[type[BaseModel], dict[str, Any], str], ...] = (
    (AgentConfig, {"timeout_s": 9e18}, "timeout_s"),
    (LiveConfig, {"starts_a_cycle": 10**18}, "starts_a_cycle"),
    (LiveConfig, {"period_s": math.inf}, "period_s"),
    (ValuesMap, {"type": "PRICE", "values": [math.inf]}, "values"),
    (ValuesMap, {"type": "PRICE", "values": [10**18]}, "values"),
    (AgentState, {"power_w": {"package-0": math.inf}}, "power_w"),
    (AgentState, {"node": ""}, "node"),
    (VtnProgram, {"id": "", "programName": "p"}, "id"),
    (VtnProgram, {"id": "٣", "programName": "p"}, "id"),
    (VtnProgram, {"id": "3", "programName": ""}, "programName"),
)


@pytest.mark.parametrize(("model", "data", "key"), NONSENSE)
def test_nonsense_is_refused_by_its_key(model: type[BaseModel], data: dict[str, Any], key: str) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(data)
    assert key in {error["loc"][0] for error in caught.value.errors() if error["type"] != "missing"}


CHECKED = ("--nodes", "--interval")
"""Options whose bounds are those of a table of the model, which the Python interface states in the same words."""
BEYOND = [
    (*line[:at], option, wrong, *line[at + 2 :])
    for line in LINES
    for option in CHECKED
    if option in line
    for at in (line.index(option),)
    for wrong in ("0", "-1", "9" * 12)
]


@pytest.mark.parametrize("words", BEYOND, ids=" ".join)
def test_numbers_that_the_model_bounds_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    prepare(tmp_path / "case", None, [], None)
    monkeypatch.chdir(tmp_path / "case")
    done = CliRunner().invoke(_app.build(list(words)), words)
    assert isinstance(done.exception, WattQueueError), (done.output, done.exception)


def test_every_number_of_the_command_line_has_bounds() -> None:
    found, numbers = [], 0
    for words, parameters in commands().items():
        for one in parameters:
            kinds = {leaf for leaf, _ in leaves(one.type_descriptor.annotation)}
            if kinds & {int, float} and not one.is_flag:
                numbers += 1
                if (one.min is None or one.max is None) and one.opts[0] not in CHECKED:
                    found.append(f"{' '.join(words)} {one.opts[0]}")
    assert numbers > 50
    assert found == []


OPTIONS = [
    (axis, name, parameter)
    for axis in METHODS
    for name in part_names(axis)
    for parameter in inspect.signature(part_class(axis, name)).parameters.values()
    if parameter.annotation in ("int", "float", "int | None", "float | None")
]


@pytest.mark.parametrize(("axis", "name", "option"), OPTIONS, ids=lambda one: getattr(one, "name", one))
def test_every_option_of_a_part_has_bounds(axis: str, name: str, option: inspect.Parameter) -> None:
    kinds = (int,) if isinstance(option.default, int) else (int, float)
    for kind in kinds:
        for value in (kind(9e18), kind(-9e18)):
            with pytest.raises(PolicyError):
                build_part("policy", axis, {"part": name, option.name: value})
    if option.default != math.inf:
        with pytest.raises(PolicyError):
            build_part("policy", axis, {"part": name, option.name: math.inf})


@pytest.mark.parametrize("name", ["period_s", "seed", "lowest_hz", "minimum_w", "window_days", "other", "most"])
@pytest.mark.parametrize("whole", [True, False])
def test_options_by_unit(name: str, whole: bool) -> None:
    bound = of_option(name, whole=whole)
    assert math.isfinite(bound.low)
    assert math.isfinite(bound.high)


def test_patterns_take_ascii_digits_only() -> None:
    r"""``\d`` also matches digits of other scripts, which ``int`` reads: a table is not written with them."""
    found = [
        module.at(node)
        for module in modules()
        for node in module.nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\\d" in node.value
    ]
    assert found == []
