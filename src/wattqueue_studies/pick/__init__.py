"""Which row would serve the next day best: forecasts of a queue under many rows, and what following them would gain.

``history`` forecasts and advances a queue, ``regret`` follows the advice over months, ``advice`` says what was found.
"""
