"""``[[supply]]`` in machine files: tables, ranges, and the CSV of node, rack, row, feed."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from wattqueue.errors import WattQueueError
from wattqueue.formats.machine.file import machine_of, machine_toml, read_machine
from wattqueue.model.machine import Machine

MACHINE = 'name = "m"\n{keys}\n[[partitions]]\nname = "gpu"\nnodes = 8\nidle_w = 100.0\nmax_w = 500.0\n'
CSV = "node,rack,row,feed\nn1,r1,x,f\nn2,r1,x,f\nn3,r2,x,f\nn4,r2,x,f\nn5,r3,y,f\nn6,r3,y,f\nn7,r4,y,f\nn8,r4,y,f\n"


def read(folder: Path, tables: str, keys: str = "", **files: str) -> Machine:
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    path = folder / "machine.toml"
    path.write_text(MACHINE.format(keys=keys) + tables)
    return read_machine(path)


def test_ranges_share_nodes_and_parents_evenly(tmp_path: Path) -> None:
    machine = read(
        tmp_path,
        '[[supply]]\nname = "row[1-2]"\n'
        '[[supply]]\nname = "rack[01-04]"\nparent = "row[1-2]"\nnodes = "gpu"\nlimit_w = 900.0\nmeter = "pdu-{name}"\n',
    )
    racks = [d for d in machine.supply if d.name.startswith("rack")]
    assert [(d.name, d.parent, d.nodes, d.meter) for d in racks] == [
        ("rack01", "row1", "gpu[1-2]", "pdu-rack01"),
        ("rack02", "row1", "gpu[3-4]", "pdu-rack02"),
        ("rack03", "row2", "gpu[5-6]", "pdu-rack03"),
        ("rack04", "row2", "gpu[7-8]", "pdu-rack04"),
    ]


def test_a_csv_says_how_domains_stand_and_tables_what_they_hold(tmp_path: Path) -> None:
    tables = '[[supply]]\nname = "r?"\nlimit_w = 900.0\n[[supply]]\nname = "f"\nlimit_csv = "f.csv"\n'
    machine = read(tmp_path, tables, 'supply_csv = "cables.csv"', cables=CSV, f="time_s,limit_w\n0,4000\n60,3000\n")
    by_name = {domain.name: domain for domain in machine.supply}
    assert {name: one.parent for name, one in by_name.items()} == {
        **dict.fromkeys(("r1", "r2"), "x"), **dict.fromkeys(("r3", "r4"), "y"), "x": "f", "y": "f", "f": "",
    }  # fmt: skip
    assert (by_name["r3"].nodes, by_name["r3"].limit_w, by_name["x"].limit_w) == ("gpu[5-6]", 900.0, None)
    assert (by_name["f"].limit_s, by_name["f"].limits_w) == ((0.0, 60.0), (4000.0, 3000.0))
    assert machine_of(tomllib.loads(machine_toml(machine)), "again") == machine


def test_a_machine_without_a_tree_is_written_as_before(tmp_path: Path) -> None:
    assert "supply" not in machine_toml(read(tmp_path, ""))


@pytest.mark.parametrize(
    ("csv", "what", "hint"),
    [
        (CSV.replace("n5,r3,y,f", "n5,r3,x,f"), "r3 is fed by x and by y", "two feeds of one rack"),
        (CSV.replace("n8", "n7"), "node n7 twice", "two feeds of one rack"),
        (CSV.replace("n8,r4,y,f\n", ""), "7 nodes of gpu, which has 8", "a row for each node"),
        (CSV + "n9,r4,y,f\n", "9 nodes of gpu, which has 8", "a row for each node"),
        (CSV.replace("node,rack", "host,rack"), "columns host, rack", "node,rack,row,feed"),
        (CSV.replace("n5,r3,y,f", "n5,r3,r3,f"), "r3 is a row and a rack", "a name of its own"),
        (CSV.replace("n5,r3,y,f", "n5,,,"), "a node without a name or a domain", "one domain at least"),
    ],
)  # fmt: skip
def test_a_csv_that_is_no_tree_is_refused(tmp_path: Path, csv: str, what: str, hint: str) -> None:
    with pytest.raises(WattQueueError, match=what) as caught:
        read(tmp_path, "", 'supply_csv = "cables.csv"', cables=csv)
    assert hint in (caught.value.hint or "")
    assert "cables.csv" in str(caught.value)


@pytest.mark.parametrize(
    ("tables", "keys", "what"),
    [
        ('[[supply]]\nname = "a"\nparent = ["x", "y"]\nnodes = "gpu"\n', "", "2 parents"),
        ('[[supply]]\nname = "a"\nnodes = "gpu"\nlimit_w = nan\n', "", "nan|finite"),
        ('[[supply]]\nname = "a"\nnodes = "gpu"\nlimit = 9.0\n', "", "limit"),
        ('[[supply]]\nname = "a[1-3]"\nnodes = "gpu"\n', "", "8 nodes for 3 domains"),
        ('[[supply]]\nname = "a[4-3]"\nnodes = "gpu"\n', "", "range 4-3"),
        ('[[supply]]\nname = "a[1-3]"\nparent = "b[1-2]"\n', "", "3 domains for 2 parents"),
        ('[[supply]]\nname = "q"\nlimit_w = 9e3\n', 'supply_csv = "cables.csv"', "no domain of .* has this name"),
        ('[[supply]]\nname = "r1"\nnodes = "gpu"\n', 'supply_csv = "cables.csv"', "parent and nodes beside supply_csv"),
        ('[[supply]]\nname = "r1"\n[[supply]]\nname = "r*"\n', 'supply_csv = "cables.csv"', "two tables for r1"),
        ('[[supply]]\nname = "r1"\nlimit_csv = "no.csv"\n', 'supply_csv = "cables.csv"', "no.csv"),
        ('[[supply]]\nname = "r1"\nlimit_w = 9.0\nlimit_csv = "f.csv"\n', 'supply_csv = "cables.csv"', "another limit"),
    ],
)  # fmt: skip
def test_tables_that_state_no_domains_are_refused(tmp_path: Path, tables: str, keys: str, what: str) -> None:
    with pytest.raises(WattQueueError, match=what) as caught:
        read(tmp_path, tables, keys, cables=CSV)
    assert caught.value.hint
