"""job_submit.lua as it stands in a lab: with its data file, which the controller of a site writes."""

from __future__ import annotations

import time

from wattqueue.live.slurm.install import Settings, script
from wattqueue.live.slurm.submit_data import write_data


def with_data(settings: Settings) -> str:
    """The script with these settings; its data file is written beside the heartbeat."""
    assert settings.data_file is not None
    settings.data_file.parent.mkdir(exist_ok=True)
    write_data(settings.data_file, settings.data, time.time())
    return script(settings)
