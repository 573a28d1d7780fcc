"""Beyond paper 2, on measured devices and on generated sockets of hold-out seeds: does it win, and by how much?

``sites`` has the devices with their telemetry, ``learning`` scores factors learned from telemetry alone, ``policies``
simulates placements under a budget that stands still or moves over the day, ``joint`` bounds what a joint choice of
units could save, ``tables`` runs all of it and shows it.
"""
