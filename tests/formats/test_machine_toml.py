"""Machines in TOML: the catalogue's figures, both ways, one clear error for each mistake."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formats.refusal import refused
from wattqueue.errors import InputError, MachineError, WattQueueError
from wattqueue.formats.machine.file import (
    CONFIRM,
    catalogue,
    load_machine,
    machine_data,
    machine_of,
    machine_toml,
    read_machine,
    write_machine,
)
from wattqueue.formats.toml import dumps, read_toml
from wattqueue.model.machine import Machine, Partition, plain_machine

GOOD = 'name = "m"\n[[partitions]]\nname = "a"\nnodes = 4\n'


@pytest.mark.parametrize(
    ("name", "units", "scope", "most_w", "cap_w"),
    [
        ("kth-sp2", [100], "machine", None, None),
        ("marconi100", [980], "dynamic", 980 * (2100 - 208), None),
        ("eamc-p1", [512], "machine", 512 * 491, None),
        ("eamc-p2", [512], "machine", 512 * 497, None),
        ("eamc-p3", [512], "machine", 512 * 375.47, None),
        ("eamc-p1p2", [512, 512], "machine", 512 * (491 + 497), None),
        ("eamc-p1p3", [512, 512], "machine", 512 * (491 + 375.47), None),
        ("quartz", [256], "jobs", 256 * 115, None),
        ("montblanc", [520], "machine", 3120, 2500),
        ("bull", [520], "machine", 5200, 4200),
        ("osaka", [151], "machine", 507_360, None),
    ],
)
def test_the_machines_of_the_papers(
    name: str, units: list[int], scope: str, most_w: float | None, cap_w: float | None
) -> None:
    machine = load_machine(name)
    assert machine.name == name
    assert machine.source
    assert [p.units for p in machine.partitions] == units
    assert machine.cap_scope == scope
    assert machine.cap_w == cap_w
    assert machine.scope_max_w() == (most_w if most_w is None else pytest.approx(most_w, rel=1e-12))


def test_the_catalogue_is_all_of_them() -> None:
    assert len(catalogue()) == 11
    bull, montblanc = load_machine("bull"), load_machine("montblanc")
    assert (bull.nodes, bull.devices) == (26, 52)  # a device is a socket of ten cores
    assert (montblanc.nodes, montblanc.devices) == (260, 260)
    assert load_machine("osaka").idle_w == 151 * 14 * 66
    p1, p3 = load_machine("eamc-p1p3").partitions
    assert (p1.frequencies_hz[0], p1.frequencies_hz[-1], len(p1.frequencies_hz)) == (2.7e9, 1.2e9, 15)
    assert (p3.frequencies_hz[0], p3.frequencies_hz[-1], len(p3.frequencies_hz)) == (2.4e9, 1.0e9, 15)


def test_frequencies_are_those_with_coefficients(data_dir: Path) -> None:
    import csv

    with (data_dir / "eamc" / "eamc_coefficients_tidy.csv").open() as rows:
        known = {(r["module"], float(r["f_target_ghz"])) for r in csv.DictReader(rows) if r["available"] == "1"}
    for name in ("p1", "p2"):
        stated = load_machine(f"eamc-{name}").partitions[0].frequencies_hz
        assert {(name, f / 1e9) for f in stated} == {k for k in known if k[0] == name}


def test_a_file_or_a_name(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text(GOOD)
    assert load_machine(path) == load_machine(str(path)) == Machine("m", (Partition("a", 4),))
    with refused("machine", "marconi100", kind=MachineError):
        load_machine("marconi")
    with refused("marconi.toml"):
        load_machine("marconi.toml")
    with refused(tmp_path):
        load_machine(tmp_path)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (GOOD + "idel_w = 3\n", "unknown key partitions[1].idel_w (did you mean idle_w?)"),
        ("capscope = 'jobs'\n" + GOOD, "unknown key capscope (did you mean cap_scope?)"),
        (GOOD + "zzz = 3\n", "unknown key partitions[1].zzz (known: name, nodes"),
        ('name = "m"\n', "no partitions"),
        ('name = "m"\npartitions = []\n', "partitions = []"),
        ('[[partitions]]\nname = "a"\nnodes = 4\n', "no name"),
        ('name = "m"\n[[partitions]]\nname = "a"\n', "no partitions[1].nodes"),
        (GOOD.replace("4", '"4"'), "partitions[1].nodes = '4'"),
        (GOOD.replace("4", "0"), "partitions[1].nodes = 0"),
        (GOOD.replace("4", "4.5"), "partitions[1].nodes = 4.5"),
        (GOOD.replace("4", "true"), "partitions[1].nodes = True"),
        (GOOD + "idle_w = nan\n", "partitions[1].idle_w = nan"),
        (GOOD + "idle_w = -1\n", "partitions[1].idle_w = -1"),
        (GOOD + 'unit = "rack"\n', "partitions[1].unit = 'rack'"),
        (GOOD + "idle_w = 3\nmax_w = 2\n", "need idle_w <= max_w"),
        (GOOD + "frequencies_hz = [1e9, 2e9]\n", "the highest first"),
        (GOOD + '[[partitions]]\nname = "a"\nnodes = 1\n', "two partitions of one name"),
        ('cap_scope = "rack"\n' + GOOD, "cap_scope = 'rack'"),
        ("schema_version = 99\n" + GOOD, "schema version 99"),
        (GOOD + "dvfs_alpha = 1e300\n", "partitions[1].dvfs_alpha = 1e+300"),
        (GOOD + "dvfs_beta = 1e300\n", "partitions[1].dvfs_beta = 1e+300"),
        (GOOD + "shutdown_s = 1e300\n", "partitions[1].shutdown_s = 1e+300"),
        (GOOD + "idle_w = 1e12\n", "partitions[1].idle_w = 1000000000000.0"),
        (GOOD + "frequencies_hz = [2.4]\n", "partitions[1].frequencies_hz[1] = 2.4"),
        (GOOD.replace("4", "2147483647"), "partitions[1].nodes = 2147483647"),
        (GOOD + "nodes_per_rack = 2024-01-01\n", "unknown key"),
        (GOOD + "idle_w = 2024-01-01\n", "partitions[1].idle_w"),
        ("source = nan\n" + GOOD, "source = nan"),
        ("cap_w = 1e300\n" + GOOD, "cap_w = 1e+300"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "m.toml"
    path.write_text(text)
    with pytest.raises(MachineError) as caught:
        read_machine(path)
    assert str(caught.value).startswith(str(path))
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [b"name = ", b"\xff\xfe", b"a" * 5_000_000, b"[" * 5000])
def test_no_toml(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "m.toml"
    path.write_bytes(text)
    with pytest.raises(InputError) as caught:
        read_machine(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("name", [*catalogue(), "plain"])
def test_round_trip(tmp_path: Path, name: str) -> None:
    machine = plain_machine(7, 95, 190.738) if name == "plain" else load_machine(name)
    write_machine(tmp_path / "m.toml", machine, {"partitions.0.idle_w": CONFIRM})
    assert read_machine(tmp_path / "m.toml") == machine
    assert f"# {CONFIRM}" in machine_toml(machine, {"partitions.0.idle_w": CONFIRM})
    assert CONFIRM not in machine_toml(machine)
    data = tomllib.loads(dumps({"machine": machine_data(machine)}))
    assert machine_of(data["machine"], "run.toml") == machine


key = st.text(max_size=8)
scalar = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.floats(allow_nan=False),
)
value: st.SearchStrategy[Any] = st.recursive(
    st.one_of(scalar, st.lists(scalar, max_size=3)),
    lambda inner: st.one_of(
        st.dictionaries(key, inner, max_size=3),
        st.lists(st.dictionaries(key, inner, max_size=3), min_size=1, max_size=2),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), value, max_size=5))
def test_toml_reads_back(data: dict[str, Any]) -> None:
    try:
        text = dumps(data)
        text.encode()
    except UnicodeEncodeError:
        return
    assert tomllib.loads(text) == data


@given(st.one_of(st.binary(max_size=50), st.text(max_size=50).map(lambda t: (GOOD + t).encode("utf-8", "replace"))))
def test_any_bytes_give_a_machine_or_our_error(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "m.toml"
    path.write_bytes(text)
    try:
        machine = read_machine(path)
    except WattQueueError:
        return
    assert machine.units == sum(p["nodes"] for p in read_toml(path)["partitions"])
