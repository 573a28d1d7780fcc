"""Scheduling under a power budget on sockets that differ: paper 2, section 4.4, Figures 6 and 7.

``knowledge`` draws sockets and makes the tables that policies read, ``trial`` simulates one traffic under one budget,
``tables`` and ``pictures`` show it, ``study`` puts it together. docs/variability-study.md discusses the outcome.
"""
