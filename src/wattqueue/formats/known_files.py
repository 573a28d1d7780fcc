"""``[known]`` of a machine file: the files of what a site knows of its machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattqueue.errors import InputError
from wattqueue.formats.source import in_folder

if TYPE_CHECKING:
    from wattqueue.model.known_files import KnownFiles


def known_files(keys: Mapping[str, Any], where: str | Path) -> KnownFiles:
    """Return checked keys as files.

    Raises: InputError naming ``where`` if no file is named, or not exactly one source of EAR's metrics.
    """
    from wattqueue.formats.physics import ear_files
    from wattqueue.model.known_files import KnownFiles

    stated = {key: value for key, value in keys.items() if value is not None}
    if not stated:
        raise InputError("names no file", where=where, hint="name ear, units or prices, or leave the table out")
    if "ear" in stated:
        stated["ear"] = ear_files(stated["ear"], where)
    return KnownFiles(**stated)


def anchored_known(files: KnownFiles, folder: Path) -> KnownFiles:
    """Return files whose names count from a folder as names that count from the working directory."""
    from wattqueue.formats.physics import anchored_ear

    units, prices = (name and in_folder(name, folder) for name in (files.units, files.prices))
    return replace(files, units=units, prices=prices, ear=anchored_ear(files.ear, folder))
