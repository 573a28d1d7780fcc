"""WattQueue as the scheduler of a Flux instance: a driver of the live controller inside a broker module."""
