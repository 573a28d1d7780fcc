"""Tell the steps of a job which frequency to use: one file per job, which the job's TaskProlog reads at its start."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wattqueue.errors import OutputError
from wattqueue.formats.atomic_write import atomic_text
from wattqueue.live.slurm.commands import JOB, SlurmError
from wattqueue.model.bounds import is_whole


@dataclass
class Frequencies:
    """The per-job files that TaskProlog reads: ``FOLDER/JOB`` holds kHz. Without a folder nothing is kept.

    Slurm takes a frequency at submission and never later (``scontrol update CpuFreqMax`` is refused), so a file that
    the job's own prolog reads at its start is the only way to choose it when the job is released.
    """

    folder: Path | None

    def now(self) -> dict[str, int]:
        """Return the frequency in kHz by job name. Files of other names, or without a number, are left out."""
        if self.folder is None or not self.folder.is_dir():
            return {}
        found = {}
        for file in self.folder.iterdir():
            text = ""
            if JOB.fullmatch(file.name):
                with suppress(FileNotFoundError):  # a job that ended since: the script removes its file
                    text = file.read_text(errors="replace").strip()
            if is_whole(text):
                found[file.name] = int(text)
        return found

    def set(self, name: str, khz: int) -> None:
        """Write one job's file atomically, or remove it with 0. Raises SlurmError.

        A TaskProlog reads it at any moment; half a number would be another frequency.
        """
        if self.folder is None or not JOB.fullmatch(name):
            return
        try:
            file = self.folder / name
            if khz <= 0:
                file.unlink(missing_ok=True)
                return
            atomic_text(file, f"{khz}\n", mode=0o644, sync=False)
        except OSError as error:
            raise SlurmError(f"frequency of job {name}: {error.strerror}", where=self.folder) from error
        except OutputError as error:
            raise SlurmError(f"frequency of job {name}: {error.what}", where=self.folder) from error
