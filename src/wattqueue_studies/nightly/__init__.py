"""The nightly report: what the cap cost yesterday, how far from the best possible, and what other rows would have done.

``day`` cuts a day from a record, ``night`` replays it, ``nights`` compares rows over many nights, ``page`` says it.
"""
