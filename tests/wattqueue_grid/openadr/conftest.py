"""The VTN of these tests, which holds the VEN to the OpenAPI document of OpenADR 3.1.0."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wattqueue_grid.openadr.grid import OPENED, Grid


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close the clients that a test has made."""
    yield
    while OPENED:
        OPENED.pop().close()


@pytest.fixture(scope="session")
def document(data_dir: Path) -> Path:
    """The OpenAPI document; tests are skipped, with this reason, where it is not there."""
    path = data_dir / "openadr" / "openadr3-3.1.0.yaml"
    if not path.is_file():
        pytest.skip(f"needs the OpenAPI document of OpenADR 3.1.0 as {path}")
    pytest.importorskip("openapi_core", reason="needs openapi-core, of the dev extra")
    return path


@pytest.fixture(scope="module")
def vtn(document: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """One VTN for a module."""
    running = Grid(tmp_path_factory.mktemp("vtn"), document)
    yield running
    running.close()


@pytest.fixture
def grid(vtn: Grid) -> Iterator[Grid]:
    """The VTN of the module, without objects of other tests; afterwards nothing has broken the document."""
    for one in vtn.objects():
        if one["objectType"] in ("EVENT", "PROGRAM"):
            vtn.ask("DELETE", f"/{one['objectType'].lower()}s/{one['id']}")
    vtn.fault()
    yield vtn
    vtn.fault()
    assert vtn.violations() == []
