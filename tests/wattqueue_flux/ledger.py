"""What a Flux recorded of its jobs, run by ``flux python`` inside an instance: one line of JSON a job."""

from __future__ import annotations

import json
import sys

import flux
import flux.job


def main() -> None:
    """Print job, events (name, time) in order, and the watts of its ``alloc`` event."""
    handle = flux.Flux()
    for job in flux.job.JobList(handle, max_entries=1_000_000).jobs():
        asked = {"id": job.id, "keys": ["eventlog"], "flags": 0}
        events = [json.loads(line) for line in handle.rpc("job-info.lookup", asked).get()["eventlog"].splitlines()]
        watts = [one["context"]["annotations"]["wattqueue"]["watts"] for one in events if one["name"] == "alloc"]
        times = [[one["name"], one["timestamp"]] for one in events]
        sys.stdout.write(json.dumps([str(job.id), times, watts]) + "\n")


if __name__ == "__main__":
    main()
