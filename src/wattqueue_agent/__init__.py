"""The agent of a node: it reads power, sets limits that the controller asks for, and restores what it found.

- ``limits``, ``hardware``: what a limit is, and what can be limited on a node.
- ``config``: which limits a site lets the controller set, and within which range.
- ``originals``, ``keeper``: what was found is on disk before it is changed, and restored by a second process if
  the agent dies.
- ``meter``: watts of each zone, and what of them cannot be trusted.
- ``agent``: decides about each message (``wattqueue.live.agents``); ``broker`` carries them, also for the controller.

It runs without numba and polars: a compute node needs pydantic and paho-mqtt, and the command line.
"""
