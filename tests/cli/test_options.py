"""One description of each option: flags and arguments of the Python API are made from the same fields."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import wattqueue as wq
from wattqueue.api.whatif import whatif
from wattqueue.cli import _app
from wattqueue.evaluation.options import PredictOptions
from wattqueue.options import about, is_required, option, options_of
from wattqueue.runs.options import ReplayOptions, SimulateOptions
from wattqueue.verbs import Printed, verb_of
from wattqueue.whatif.options import WhatifOptions

VERBS: dict[str, type] = {
    "simulate": SimulateOptions,
    "replay": ReplayOptions,
    "whatif": WhatifOptions,
    "predict eval": PredictOptions,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "simulate": wq.simulate,
    "replay": wq.replay,
    "whatif": whatif,  # wq.whatif is a package of the same name, which can be called
    "predict eval": wq.predict,
}
JOBS = "submit_s,nodes,runtime_s,user,mean_power_w\n" + "".join(f"{60 * i},2,600,ada,{150 + i}\n" for i in range(30))


def commands(package: str) -> Iterator[tuple[str, Any]]:
    """Every command of a package with its words."""
    for name, known in _app.verbs().items():
        if known.module.partition(".")[0] == package:
            found: Any = typer.main.get_command(_app.build([name]))
            verb = found.commands[name]
            for word, command in getattr(verb, "commands", {"": verb}).items():
                yield f"{name} {word}".strip(), command


def check_flags(command: Any, described: type) -> None:
    """Each field is a flag with its text and default."""
    shown = {parameter.name: parameter for parameter in command.params}
    for one, what in options_of(described):
        parameter = shown[one.name]
        assert parameter.required == is_required(one), one.name
        assert parameter.help == what.help
        assert getattr(parameter, "multiple", False) == what.many
        if not (is_required(one) or what.many):
            assert parameter.default == one.default


def check_arguments(function: Callable[..., Any], described: type) -> None:
    """Each field is an argument of Python, and in the docstring."""
    arguments = inspect.signature(function).parameters
    fields = {one.name: (one, what) for one, what in options_of(described)}
    assert set(arguments) - {"progress"} == set(fields)  # a terminal shows progress unasked
    document = inspect.getdoc(function) or ""
    for name, (one, what) in fields.items():
        assert (arguments[name].default is inspect.Parameter.empty) == is_required(one)
        assert f"{name}: {what.sentence}" in document


@pytest.mark.parametrize("verb", VERBS)
def test_each_field_is_a_flag_with_its_text_and_default(verb: str) -> None:
    check_flags(dict(commands("wattqueue"))[verb], VERBS[verb])


@pytest.mark.parametrize("verb", FUNCTIONS)
def test_each_field_is_an_argument_of_python(verb: str) -> None:
    check_arguments(FUNCTIONS[verb], VERBS[verb])


@dataclass(frozen=True)
class Given(Printed):
    name: str = field(metadata=about("A name."))
    _: KW_ONLY
    count: int = option(2, "How many.", kind=int, unit="s", least=1)
    each: tuple[str, ...] = option((), "Some.", many=True)


@verb_of(Given)
def run(options: Given) -> None:
    """A verb."""
    options.show(lambda: {"name": options.name}, lambda: options.say([f"{options.name} {options.count}"]))
    options.say([*options.each])


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        (("a",), "a 2\n"),
        (("a", "--count", "3", "--each", "x", "--each", "y"), "a 3\nx\ny\n"),
        (("a", "--json", "--each", "x"), '{\n "name": "a"\n}\n'),
        (("a", "-q"), ""),
    ],
)
def test_a_verb_is_made_of_fields(given: tuple[str, ...], printed: str) -> None:
    app = typer.Typer()
    app.command()(run)
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    assert done.stdout == printed
    assert CliRunner().invoke(app, ["a", "--count", "0"]).exit_code == 2


def test_results_are_json_or_nothing_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from wattqueue.cli.simulate import run as simulate

    (tmp_path / "jobs.csv").write_text(JOBS, encoding="utf-8")
    plain: dict[str, Any] = {"nodes": 4, "node_watts": "90:350"}
    simulate(str(tmp_path / "jobs.csv"), **plain, as_json=True)
    assert json.loads(capsys.readouterr().out)["jobs_completed"] == 30
    simulate(str(tmp_path / "jobs.csv"), **plain, quiet=True, out=tmp_path / "run", report=False)
    assert capsys.readouterr().out == ""
    assert (tmp_path / "run" / "metrics.json").is_file()


def test_python_reads_a_trace_as_the_command_line_does(tmp_path: Path) -> None:
    (tmp_path / "consent.toml").write_text("others = true\n", encoding="utf-8")
    call = "marconi:days=1,load=0.05"
    first, again, other = (wq.simulate(call, "marconi100", seed=seed) for seed in (3, 3, 4))
    assert first.jobs.equals(again.jobs)
    assert not first.jobs.equals(other.jobs)
    run = wq.simulate(call, "marconi100", consent=tmp_path / "consent.toml", settings=["backfill=conservative"])
    assert run.record.facts["task"]["consent"] == str(tmp_path / "consent.toml")
    assert run.record.facts["task"]["policy"] == "easy+backfill=conservative"
    with pytest.raises(wq.InputError) as error:
        wq.simulate(call, "marconi100", policy=wq.load_policy("easy"), settings=["backfill=conservative"])
    assert error.value.where == "settings"
