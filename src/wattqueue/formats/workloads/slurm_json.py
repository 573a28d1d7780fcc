"""What ``sacct --json``, ``squeue --json`` and slurmrestd print (``formats.slurm``)."""

from __future__ import annotations

from wattqueue.formats.workload import Workload
from wattqueue.formats.workload_format import LIKELY, NOT, ReadOptions, WorkloadFile, WorkloadFormat


def recognise(file: WorkloadFile) -> int:
    """Return LIKELY for any JSON: releases of Slurm differ in everything else."""
    return LIKELY if file.is_json else NOT


def read(file: WorkloadFile, options: ReadOptions) -> Workload:
    """Return the jobs of the document. Raises: InputError."""
    from wattqueue.formats.slurm.slurm_json import slurm_workload

    return slurm_workload(file.path, file.document, options)


FORMAT = WorkloadFormat("slurm-json", "sacct --json or squeue --json", recognise, read)
