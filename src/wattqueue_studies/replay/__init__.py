"""A recorded schedule replayed: how the simulator of paper 2 was validated (section 4.2).

``study`` runs the experiment on drawn sockets, records every application once more and replays the schedule.
docs/replay-study.md discusses the outcome.
"""
