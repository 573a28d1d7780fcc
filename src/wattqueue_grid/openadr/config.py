"""What ``[openadr]`` in the controller's configuration stands for: a VEN as its source of load targets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wattqueue.formats.checked_toml import Section
from wattqueue.live.files.reading import read_secret
from wattqueue.model.machine import Machine
from wattqueue_grid.openadr.section import OpenADRSection

if TYPE_CHECKING:
    from wattqueue_grid.openadr.service import VenService


class OpenADRExtension:
    """What ``[openadr]`` adds to the controller (``wattqueue.live.entry_points.TargetExtension``)."""

    section = OpenADRSection

    def source(self, section: Section, machine: Machine, run_dir: Path, *, controls: bool) -> VenService:
        """Return the VEN of a section as a source of load targets.

        A controller that only looks does not curtail: it must not report that it does.

        Raises: InputError where a file of the section cannot be used.
        """
        from wattqueue_grid.openadr.service import VenService, ven_of  # needs httpx

        assert isinstance(section, OpenADRSection)  # noqa: S101 - what the file was read with
        section = section.model_copy(update={"reports": section.reports and controls})
        return VenService(ven_of(section, read_secret(section.client_secret_file), machine, run_dir))


EXTENSION = OpenADRExtension()
